//! The users file, changed by command, beside a server and without one.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Output;

use rustix::process::Signal;
use siltstone::auth::Users;
use tempfile::TempDir;

use crate::support::process::{Running, finish, on_a_free_port, siltstone, stderr_of};
use crate::support::users::write_users;

const ADMIN: &str = "# Ours.\n\n[[user]]\nname = \"admin\"\naccess_key = \"AK1\"\nsecret_key = \"hidden-1\"\n\n[[user.allow]]\n\
    actions = [\"*\"]\nresources = [\"*\"]\n";

/// `siltstone user ...` on the users file of that directory.
fn user(dir: &Path, arguments: &[&str]) -> Output {
    finish(siltstone(dir).arg("user").args(arguments).args(["--users", "users.toml"]))
}

/// Runs a command that must succeed; returns standard output.
fn done(dir: &Path, arguments: &[&str]) -> String {
    let output = user(dir, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr_of(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must be refused and change nothing; returns the exit status and the reason.
fn refused(dir: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let before = fs::read_to_string(dir.join("users.toml")).ok();
    let output = user(dir, arguments);
    assert!(output.stdout.is_empty(), "{output:?}");
    assert_eq!(fs::read_to_string(dir.join("users.toml")).ok(), before);
    (output.status.code(), stderr_of(&output))
}

fn text(dir: &Path) -> String {
    fs::read_to_string(dir.join("users.toml")).unwrap()
}

/// The two keys in lines for a shell.
fn keys(shown: &str) -> [String; 2] {
    let lines: Vec<_> = shown.lines().collect();
    let access_key = lines[0].strip_prefix("export AWS_ACCESS_KEY_ID=").unwrap();
    let secret_key = lines[1].strip_prefix("export AWS_SECRET_ACCESS_KEY=").unwrap();
    assert_eq!(lines.len(), 2);
    [access_key.to_owned(), secret_key.to_owned()]
}

/// When the keys of the only user with such a time were made.
fn key_created(file: &str) -> String {
    let line = file.lines().find_map(|line| line.strip_prefix("key_created = "));
    line.unwrap_or_else(|| panic!("no `key_created` in {file}")).to_owned()
}

#[test]
fn a_user_is_added_rotated_and_removed_and_the_rest_of_the_file_stays() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write_users(dir, ADMIN);
    let made =
        keys(&done(dir, &["add", "camera", "--actions", "PutObject,GetObject", "--resources", "b,b/in/*"]));
    let added = text(dir);
    let tail = format!("name = \"camera\"\naccess_key = \"{}\"\nsecret_key = \"{}\"", made[0], made[1]);
    assert!(added.starts_with(ADMIN) && added.contains(&tail), "{added}");
    assert!(
        added.contains("actions = [\"PutObject\", \"GetObject\"]\nresources = [\"b\", \"b/in/*\"]"),
        "{added}"
    );

    let first_made = key_created(&added);
    let rotated = keys(&done(dir, &["rotate", "camera"]));
    let last_made = key_created(&text(dir));
    let changed = added
        .replace(&made[0], &rotated[0])
        .replace(&made[1], &rotated[1])
        .replace(&format!("\nkey_created = {first_made}\n"), &format!("\nkey_created = {last_made}\n"));
    let previous = format!(
        "previous = {{ access_key = \"{}\", secret_key = \"{}\", created = {first_made} }}\n",
        made[0], made[1]
    );
    assert_ne!(first_made, last_made, "each pair has the time when it was made");
    assert_eq!(text(dir).replace(&previous, ""), changed);
    assert!(text(dir).contains(&previous) && made[0] != rotated[0] && made[1] != rotated[1]);
    assert_eq!(
        done(dir, &["list"]).lines().nth(1).unwrap().split('\t').nth(1).unwrap(),
        format!("{},{}", rotated[0], made[0])
    );
    assert_eq!(done(dir, &["rotate", "camera", "--finish"]), "");
    assert_eq!(text(dir), changed);

    assert_eq!(done(dir, &["remove", "camera"]), "");
    assert_eq!(text(dir), ADMIN);
    let names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["users.toml"]);
}

#[test]
fn an_edited_file_keeps_its_owner_and_mode_also_through_a_link() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    fs::create_dir(dir.join("etc")).unwrap();
    let path = write_users(&dir.join("etc"), ADMIN);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    symlink("etc/users.toml", dir.join("users.toml")).unwrap();
    let owner = fs::metadata(&path).unwrap().uid();
    done(dir, &["add", "deputy", "--admin"]);
    assert!(fs::symlink_metadata(dir.join("users.toml")).unwrap().is_symlink());
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.permissions().mode() & 0o7777, metadata.uid()), (0o600, owner));
    assert!(fs::read_to_string(&path).unwrap().contains("deputy"));
}

#[test]
fn the_list_shows_access_keys_and_permissions_but_no_secret() {
    let dir = TempDir::new().unwrap();
    let anyone = "[[user]]\nname = \"anonymous\"\n[[user.allow]]\nactions = [\"GetObject\"]\nresources = [\"b/*\"]\n\
        [[user.allow]]\nactions = [\"ListBucket\"]\nresources = [\"b\", \"c\"]\n";
    write_users(dir.path(), &format!("{ADMIN}{anyone}"));
    assert_eq!(
        done(dir.path(), &["list"]),
        "admin\tAK1\t* on *\nanonymous\t-\tGetObject on b/*; ListBucket on b,c\n"
    );
}

#[test]
fn invalid_commands_are_refused_and_change_nothing() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    let (status, said) = refused(dir, &["list"]);
    assert!(status == Some(1) && said.contains("users.toml"), "{said}");
    write_users(dir, ADMIN);
    for (arguments, expected, reason) in [
        (&["add", "admin", "--admin"][..], 1, "there is a user `admin` already"),
        (&["add", "x", "--actions", "Get", "--resources", "*"], 1, "there is no action `Get`"),
        (&["add", "x", "--actions", "GetObject", "--resources", "b*"], 1, "`GetObject` does nothing here"),
        (&["add", "", "--admin"], 1, "`name`"),
        (&["add", "x"], 2, "--actions"),
        (&["add", "x", "--actions", "*"], 2, "--resources"),
        (&["add", "x", "--admin", "--actions", "*"], 2, "--admin"),
        (&["rotate", "x"], 1, "there is no user `x`"),
        (&["rotate", "x", "--finish"], 1, "there is no user `x`"),
        (&["rotate", "admin", "--finish"], 1, "the user `admin` has no previous keys"),
        (&["remove", "x"], 1, "there is no user `x`"),
        (&["remove", "admin"], 1, "--force"),
        (&["move", "admin"], 2, "move"),
    ] {
        let (status, said) = refused(dir, arguments);
        assert!(status == Some(expected) && said.contains(reason), "{arguments:?}: {status:?} {said}");
    }
    write_users(dir, "\n[[usr]]\n");
    let (status, said) = refused(dir, &["add", "x", "--admin"]);
    assert!(status == Some(1) && said.contains("line 2"), "{said}");
}

#[test]
fn the_last_administrator_is_removed_by_force_only() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write_users(dir, ADMIN);
    done(dir, &["add", "deputy", "--admin"]);
    done(dir, &["remove", "admin"]);
    done(dir, &["add", "anonymous", "--actions", "*", "--resources", "*"]);
    assert_eq!(refused(dir, &["remove", "deputy"]).0, Some(1));
    done(dir, &["remove", "deputy", "--force"]);
    assert_eq!(done(dir, &["list"]), "anonymous\t-\t* on *\n");
}

#[test]
fn a_running_server_takes_a_change_at_sighup() {
    let dir = TempDir::new().unwrap();
    write_users(dir.path(), ADMIN);
    let mut command = on_a_free_port(dir.path());
    command.args(["--users", "users.toml"]);
    let server = Running::start(command);
    let may_read = |server: &Running| server.get("/no-such-bucket/key").contains(" 404 ");
    let shown =
        done(dir.path(), &["add", "anonymous", "--actions", "GetObject,ListBucket", "--resources", "*"]);
    assert_eq!(shown, "");
    assert!(!may_read(&server));
    server.signal(Signal::HUP);
    server.wait_until("the new permission", may_read);
}

/// A server with `users.toml`, and the commands that ask it.
fn running(dir: &Path) -> (Running, impl Fn(&[&str]) -> Output) {
    let mut command = on_a_free_port(dir);
    command.args(["--users", "users.toml", "--audit-log", "audit.log"]);
    let server = Running::start(command);
    let address = server.address().to_owned();
    let dir = dir.to_owned();
    (server, move |arguments: &[&str]| {
        let arguments = [arguments, &["--listen", &address]].concat();
        user(&dir, &arguments)
    })
}

#[test]
fn a_running_server_makes_the_change_at_once() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write_users(dir, &ADMIN.replace("hidden-1", "hidden-0123456789"));
    let (server, ask) = running(dir);
    let asked = |arguments: &[&str]| {
        let output = ask(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr_of(&output));
        assert!(!stderr_of(&output).contains("SIGHUP"), "{arguments:?}: {}", stderr_of(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let may_read = |server: &Running| server.get("/no-such-bucket/key").contains(" 404 ");
    assert!(!may_read(&server));
    assert_eq!(asked(&["add", "anonymous", "--actions", "GetObject,ListBucket", "--resources", "*"]), "");
    assert!(may_read(&server), "the change is in effect");
    let made = keys(&asked(&["add", "cam & co", "--admin"]));
    assert!(text(dir).starts_with("# Ours.") && text(dir).contains(&made[1]), "{}", text(dir));
    let rotated = keys(&asked(&["rotate", "cam & co"]));
    let listed = format!(
        "admin\tAK1\t* on *\nanonymous\t-\tGetObject,ListBucket on *\ncam & co\t{},{}\t* on *\n",
        rotated[0], made[0]
    );
    assert_eq!(asked(&["list"]), listed);
    asked(&["rotate", "cam & co", "--finish"]);
    asked(&["remove", "anonymous"]);
    assert!(!may_read(&server) && !text(dir).contains(&made[0]));
    let refused = ask(&["rotate", "eve"]);
    let said = stderr_of(&refused);
    assert!(refused.status.code() == Some(1) && said.contains("there is no user `eve`"), "{said}");
    let log = fs::read_to_string(dir.join("audit.log")).unwrap();
    let by_admin = log.lines().filter(|line| line.contains("\"user\":\"admin\"")).count();
    assert_eq!((by_admin, log.lines().count()), (6, 6), "the server alone records: {log}");
}

#[test]
fn a_server_that_does_not_know_the_keys_of_the_file_is_not_asked() {
    let dir = TempDir::new().unwrap();
    let other = TempDir::new().unwrap();
    write_users(dir.path(), &ADMIN.replace("hidden-1", "hidden-0123456789"));
    write_users(other.path(), &ADMIN.replace("AK1", "AK9"));
    let (server, _) = running(dir.path());
    let output = user(other.path(), &["add", "ann", "--admin", "--listen", server.address()]);
    assert!(output.status.success() && stderr_of(&output).contains("SIGHUP"), "{}", stderr_of(&output));
    assert!(text(other.path()).contains("ann") && !text(dir.path()).contains("ann"));
    // A server that is named is asked, or nothing is done.
    let endpoint = format!("http://{}", server.address());
    let (status, said) = refused(other.path(), &["add", "eve", "--admin", "--endpoint", &endpoint]);
    assert!(status == Some(1) && said.contains("InvalidAccessKeyId"), "{said}");
}

#[test]
fn the_last_administrator_of_a_running_server_is_removed_from_the_file_alone() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write_users(dir, &ADMIN.replace("hidden-1", "hidden-0123456789"));
    let (_server, ask) = running(dir);
    let said = stderr_of(&ask(&["remove", "admin"]));
    assert!(said.contains("no administrator would be left"), "{said}");
    let said = stderr_of(&ask(&["remove", "admin", "--force"]));
    assert!(said.contains("SIGHUP") && !text(dir).contains("AK1"), "{said}");
}

/// Policies make administrators, and end them.
#[test]
fn the_last_administrator_by_policies_is_kept_too() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    let users = ADMIN.replace("hidden-1", "hidden-0123456789")
        + "\n[[user]]\nname = \"second\"\naccess_key = \"AK2\"\nsecret_key = \"hidden-9876543210\"\npolicy = [\"consoleAdmin\"]\n\
           \n[[policy]]\nname = \"nothing\"\ndocument = '''{\"Version\": \"2012-10-17\", \"Statement\": \
           [{\"Effect\": \"Deny\", \"Action\": \"*\", \"Resource\": \"*\"}]}'''\n";
    write_users(dir, &users);
    Users::parse(&users).unwrap();
    let (_server, ask) = running(dir);
    // Each may lose it while the other has it.
    let detached = ask(&["detach", "second", "consoleAdmin"]);
    assert_eq!(detached.status.code(), Some(0), "{}", stderr_of(&detached));
    let said = stderr_of(&ask(&["attach", "admin", "nothing"]));
    assert!(said.contains("no administrator would be left"), "{said}");
    let attached = ask(&["attach", "second", "consoleAdmin"]);
    assert_eq!(attached.status.code(), Some(0), "{}", stderr_of(&attached));
    let attached = ask(&["attach", "admin", "nothing"]);
    assert_eq!(attached.status.code(), Some(0), "{}", stderr_of(&attached));
    let said = stderr_of(&ask(&["detach", "second", "consoleAdmin"]));
    assert!(!said.is_empty() && text(dir).contains("consoleAdmin"), "{said}");
}

#[test]
fn users_added_at_the_same_time_are_all_there() {
    let dir = TempDir::new().unwrap();
    write_users(dir.path(), ADMIN);
    let names: Vec<_> = (0..8).map(|n| format!("user-{n}")).collect();
    std::thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| done(dir.path(), &["add", name, "--admin"]));
        }
    });
    let listed = done(dir.path(), &["list"]);
    assert!(names.iter().all(|name| listed.contains(name.as_str())), "{listed}");
    Users::parse(&text(dir.path())).unwrap();
}

#[test]
fn the_help_of_the_commands_shows_no_options_of_the_server() {
    let dir = TempDir::new().unwrap();
    let help = |arguments: &[&str]| {
        let output = finish(siltstone(dir.path()).args(arguments).arg("--help"));
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    };
    for command in
        [&["user"][..], &["user", "add"], &["user", "list"], &["user", "rotate"], &["user", "remove"]]
    {
        let shown = help(command);
        for concerns in ["--config", "--data-dir", "--users", "--log-level", "--listen"] {
            assert!(shown.contains(concerns), "{concerns} is missing in {shown}");
        }
        for other in ["--workers", "--etag", "SILTSTONE_BUCKET"] {
            assert!(!shown.contains(other), "{other} is in {shown}");
        }
    }
    assert!(help(&["serve"]).contains("--listen") && help(&[]).contains("--listen"));
}

#[test]
fn service_accounts_are_made_listed_and_removed_in_the_file() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write_users(dir, ADMIN);
    let run = |arguments: &[&str]| {
        finish(siltstone(dir).arg("service-account").args(arguments).args(["--users", "users.toml"]))
    };
    let shown = |arguments: &[&str]| {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr_of(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let narrow = r#"{"Statement": {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}}"#;
    fs::write(dir.join("narrow.json"), narrow).unwrap();
    let [access_key, secret_key] =
        keys(&shown(&["add", "admin", "ci", "--policy", "narrow.json", "--expires", "2999-12-31T00:00:00Z"]));
    let second = keys(&shown(&["add", "admin", "reports", "--policy", "readonly"]));
    assert!(text(dir).contains(&secret_key) && Users::parse(&text(dir)).is_ok());
    let listed = shown(&["list", "admin"]);
    assert_eq!(
        listed,
        format!(
            "ci\t{access_key}\t2999-12-31T00:00:00.000Z\t{narrow}\nreports\t{}\t-\treadonly\n",
            second[0]
        )
    );
    for (arguments, reason) in [
        (&["add", "nobody", "x"][..], "no user `nobody`"),
        (&["add", "admin", "ci"][..], "already"),
        (&["add", "admin", "x", "--policy", "unknown"][..], "no policy `unknown`"),
        (&["add", "admin", "x", "--expires", "2020-01-01T00:00:00Z"][..], "is over"),
        (&["remove", "admin", "x"][..], "no service account `x`"),
        (&["remove", "nobody", "ci"][..], "no service account `ci`"),
    ] {
        let before = text(dir);
        let output = run(arguments);
        assert!(
            output.status.code() == Some(1) && stderr_of(&output).contains(reason),
            "{}",
            stderr_of(&output)
        );
        assert_eq!(text(dir), before);
    }
    assert_eq!(shown(&["remove", "admin", "ci"]), "");
    assert_eq!(shown(&["remove", "admin", "reports"]), "");
    assert_eq!(text(dir), ADMIN);
}
