//! The server as an operator meets it: arguments, the first start, signals and exit statuses.

mod api;
mod audit;
mod config;
mod console;
mod disks;
mod encrypted_mirror;
mod environment;
mod iam;
mod keys;
mod mirror;
mod mirrored;
mod moving_in;
mod placement;
mod quota;
mod server;
mod service;
mod ship;
mod tier;
mod users;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use siltstone::base::{Clock as _, SystemClock};
use tempfile::TempDir;

use crate::support::process::{Running, finish, on_a_free_port, siltstone, stderr_of};
use crate::support::users::{user, write_users};

/// The value of `name = "value"` in a users file.
fn value<'a>(users: &'a str, name: &str) -> &'a str {
    let start = format!("{name} = \"");
    users.lines().find_map(|line| line.strip_prefix(&start)?.strip_suffix('"')).unwrap()
}

const ANYONE_MAY_READ: &str =
    "[[user]]\nname = \"anonymous\"\n[[user.allow]]\nactions = [\"GetObject\"]\nresources = [\"*\"]\n";

/// A terminal: the side of the process, and a thread that reads its output.
struct Terminal {
    screen: std::thread::JoinHandle<String>,
    device: Option<fs::File>,
}

impl Terminal {
    fn open() -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
        let flags = OFlags::NOCTTY.bits().cast_signed();
        let device = fs::OpenOptions::new().read(true).write(true).custom_flags(flags).open(name).unwrap();
        let screen = std::thread::spawn(move || {
            let mut controller = fs::File::from(controller);
            let mut text = Vec::new();
            let mut piece = [0; 1024];
            // Reading fails once no process has the device open.
            while let Ok(count @ 1..) = controller.read(&mut piece) {
                text.extend_from_slice(&piece[..count]);
            }
            String::from_utf8(text).unwrap()
        });
        Self { screen, device: Some(device) }
    }

    /// For a process, which must be the last that gets it.
    fn stderr(&mut self) -> Stdio {
        self.device.take().unwrap().into()
    }

    /// All that was written, once the process has ended.
    fn said(self) -> String {
        self.screen.join().unwrap()
    }
}

/// Starts and stops a server on a terminal; returns its address and its output there.
fn said_on_a_terminal(mut command: Command) -> (String, String) {
    let mut terminal = Terminal::open();
    let mut child = command.stdout(Stdio::piped()).stderr(terminal.stderr()).spawn().unwrap();
    drop(command);
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    (line.trim_end().strip_prefix("listening on ").unwrap_or_default().to_owned(), terminal.said())
}

#[test]
fn the_first_start_makes_an_administrator_and_shows_its_keys_once_on_a_terminal() {
    let dir = TempDir::new().unwrap();
    let (address, said) = said_on_a_terminal(on_a_free_port(dir.path()));
    let path = dir.path().join("siltstone-data/users.toml");
    let users = fs::read_to_string(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(value(&users, "name"), "admin");
    let access = value(&users, "access_key");
    let secret = value(&users, "secret_key");
    assert!(secret.len() >= 40, "{secret}");
    for line in [
        format!("export AWS_ACCESS_KEY_ID={access}"),
        format!("export AWS_SECRET_ACCESS_KEY={secret}"),
        format!("export AWS_ENDPOINT_URL={address}"),
        format!("{address}/-/console/?token="),
        "aws s3 mb s3://my-bucket".to_owned(),
    ] {
        assert!(said.contains(&line), "{line} is missing in {said}");
    }

    let (_, said) = said_on_a_terminal(on_a_free_port(dir.path()));
    assert!(!said.contains(secret) && !said.contains("token="), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), users);
}

#[test]
fn nothing_stands_between_the_lines_to_paste() {
    let dir = TempDir::new().unwrap();
    let mut command = on_a_free_port(dir.path());
    command.args(["--public-url", "http://s3.example", "--bucket", "photos"]);
    let (_, said) = said_on_a_terminal(command);
    let after = said.lines().map(str::trim).skip_while(|line| !line.starts_with("export "));
    let pasted: Vec<_> = after.take_while(|line| line.starts_with("export ")).collect();
    let names: Vec<_> = pasted.iter().map(|line| line.split('=').next().unwrap()).collect();
    let expected = ["ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "DEFAULT_REGION", "ENDPOINT_URL"];
    assert_eq!(names, expected.map(|name| format!("export AWS_{name}")), "{said}");
    assert!(pasted[3].ends_with("=http://s3.example"), "{said}");
    assert_eq!(said.matches("AWS_ENDPOINT_URL").count(), 1, "{said}");
}

#[test]
fn without_a_console_the_first_start_shows_no_link() {
    let dir = TempDir::new().unwrap();
    let mut command = on_a_free_port(dir.path());
    command.args(["--console", "off"]);
    let (_, said) = said_on_a_terminal(command);
    assert!(said.contains("aws s3 mb") && !said.contains("console"), "{said}");
}

#[test]
fn the_console_is_shown_on_this_host_and_can_be_left_out() {
    let dir = TempDir::new().unwrap();
    let running = Running::start(on_a_free_port(dir.path()));
    assert!(running.answer("/-/console/").contains("<h1>Sign in</h1>"));
    running.end(Signal::TERM);
    let mut command = on_a_free_port(dir.path());
    command.args(["--console", "off"]);
    let running = Running::start(command);
    assert!(running.get("/-/console/").contains(" 404 "));
    running.end(Signal::TERM);
}

#[test]
fn the_first_start_without_a_terminal_says_where_the_secret_stands() {
    let dir = TempDir::new().unwrap();
    let (_, said) = Running::start(on_a_free_port(dir.path())).end(Signal::TERM);
    let users = fs::read_to_string(dir.path().join("siltstone-data/users.toml")).unwrap();
    assert!(!said.contains(value(&users, "secret_key")), "{said}");
    for told in [value(&users, "access_key"), "siltstone-data/users.toml"] {
        assert!(said.contains(told), "{told} is missing in {said}");
    }
}

#[test]
fn two_first_starts_make_different_keys() {
    let keys = || {
        let dir = TempDir::new().unwrap();
        Running::start(on_a_free_port(dir.path())).end(Signal::TERM);
        let users = fs::read_to_string(dir.path().join("siltstone-data/users.toml")).unwrap();
        (value(&users, "access_key").to_owned(), value(&users, "secret_key").to_owned())
    };
    let one = keys();
    let other = keys();
    assert_ne!(one.0, other.0);
    assert_ne!(one.1, other.1);
}

#[test]
fn keys_from_the_environment_are_neither_written_nor_shown() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("secret"), "hidden from others\n").unwrap();
    for secret in [("SILTSTONE_SECRET_KEY", "hidden from others"), ("SILTSTONE_SECRET_KEY_FILE", "secret")] {
        let mut command = on_a_free_port(dir.path());
        command.env("SILTSTONE_ACCESS_KEY", "chosen").env(secret.0, secret.1).arg("--log-level=trace");
        let (status, said) = Running::start(command).end(Signal::TERM);
        assert_eq!(status, Some(0));
        assert!(!said.contains("hidden") && said.contains("`admin` alone"), "{said}");
        assert!(!dir.path().join("siltstone-data/users.toml").exists());
    }
}

#[test]
fn keys_in_files_sign_requests_and_are_read_again_on_sighup() {
    let dir = TempDir::new().unwrap();
    let write = |name: &str, key: &str| fs::write(dir.path().join(name), format!("{key}\n")).unwrap();
    write("access", "FILED");
    write("secret", "a secret in a file");
    let mut command = on_a_free_port(dir.path());
    command.env("SILTSTONE_ACCESS_KEY_FILE", "access").env("SILTSTONE_SECRET_KEY_FILE", "secret");
    let server = Running::start(command);
    // Part of the error for a wrong signature of a known key, and of no other error.
    let is_known = |server: &Running, key: &str| {
        let date = SystemClock.now().to_iso_basic();
        let credential = format!("{key}%2F{}%2Feu%2Fs3%2Faws4_request", &date[..8]);
        let query = format!(
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date={date}&X-Amz-Expires=60\
             &X-Amz-SignedHeaders=host&X-Amz-Signature={}",
            "0".repeat(64)
        );
        let answer = server.answer(&format!("/?{query}"));
        assert!(
            answer.contains("SignatureDoesNotMatch") || answer.contains("InvalidAccessKeyId"),
            "{answer}"
        );
        answer.contains("SignatureDoesNotMatch")
    };
    assert!(is_known(&server, "FILED") && !is_known(&server, "OTHER"));
    write("access", "OTHER");
    server.signal(Signal::HUP);
    server.wait_until("the other key", |server| is_known(server, "OTHER"));
    fs::remove_file(dir.path().join("secret")).unwrap();
    server.signal(Signal::HUP);
    server.wait_until("the complaint", |server| server.said().contains("SILTSTONE_SECRET_KEY_FILE"));
    assert!(is_known(&server, "OTHER"));
}

#[test]
fn failed_signatures_are_logged_with_the_claimed_key_and_seldom() {
    let dir = TempDir::new().unwrap();
    let server = Running::start(on_a_free_port(dir.path()));
    let date = SystemClock.now().to_iso_basic();
    let claim = |key: &str| {
        let credential = format!("{key}%2F{}%2Feu%2Fs3%2Faws4_request", &date[..8]);
        format!(
            "/b/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date={date}&X-Amz-Expires=60\
             &X-Amz-SignedHeaders=host&X-Amz-Signature=hidden"
        )
    };
    for n in 0..20 {
        assert!(server.get(&claim(&format!("GUESS%0A{n}"))).contains(" 403 "));
    }
    let (_, said) = server.end(Signal::TERM);
    let lines: Vec<_> = said.lines().filter(|line| line.contains(" WARN  auth: ")).collect();
    // Twenty requests take no twenty seconds.
    assert!((1..20).contains(&lines.len()), "{said}");
    let told = "127.0.0.1 InvalidAccessKeyId: the claimed access key is \"GUESS\\n0\"";
    assert!(lines[0].ends_with(told) && !said.contains("hidden"), "{said}");
}

#[test]
fn the_start_warns_of_short_secrets_and_of_plain_http_beyond_this_host() {
    let dir = TempDir::new().unwrap();
    let said = |listen: &str, secret: &str| {
        let mut command = siltstone(dir.path());
        command.args(["--listen", listen]);
        command.env("SILTSTONE_ACCESS_KEY", "chosen").env("SILTSTONE_SECRET_KEY", secret);
        Running::start(command).end(Signal::TERM).1
    };
    let safe = said("127.0.0.1:0", "hidden-0123456789");
    assert!(!safe.contains(" WARN "), "{safe}");
    let short = said("127.0.0.1:0", "hidden-01234567");
    assert!(short.contains("the secret key of `admin` is short") && !short.contains("hidden"), "{short}");
    let open = said("0.0.0.0:0", "hidden-0123456789");
    let of_console = "browsers on this host alone see the console";
    assert!(open.contains("plain HTTP on 0.0.0.0:0") && open.contains(of_console), "{open}");
    assert!(!safe.contains(of_console), "{safe}");
}

#[test]
fn a_second_server_on_the_same_directory_is_refused() {
    let dir = TempDir::new().unwrap();
    let first = Running::start(on_a_free_port(dir.path()));
    let second = finish(&mut on_a_free_port(dir.path()));
    assert_eq!(second.status.code(), Some(1));
    let said = stderr_of(&second);
    assert!(said.contains("siltstone-data") && said.contains("another process"), "{said}");
    assert!(first.get("/-/health").contains(" 200 "));
}

#[test]
fn a_port_that_is_taken_is_refused() {
    let dir = TempDir::new().unwrap();
    let first = Running::start(on_a_free_port(dir.path()));
    let second = finish(siltstone(dir.path()).args(["--data-dir", "other", "--listen", first.address()]));
    assert_eq!(second.status.code(), Some(1));
    assert!(stderr_of(&second).contains(first.address()), "{}", stderr_of(&second));
}

#[test]
fn wrong_arguments_end_with_2_and_touch_nothing() {
    let dir = TempDir::new().unwrap();
    for arguments in [
        &["--no-such-flag"][..],
        &["no-such-command"],
        &["--listen", "here"],
        &["--log-level", "loud"],
        &["--workers", "0"],
        &["--shutdown-timeout", "soon"],
        &["--config", "absent.toml"],
        &["--website-domain", ".web.example"],
        &["--website-domain", "web.example:9000"],
        &["--website-domain", "Web.example", "--domain", "web.Example"],
    ] {
        let output = finish(siltstone(dir.path()).args(arguments));
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{arguments:?}");
    }
    let output = finish(siltstone(dir.path()).env("SILTSTONE_LISTEN", "here"));
    assert_eq!(output.status.code(), Some(2));
    for (secret, problem) in [
        (None, "set both of"),
        (Some([("SILTSTONE_SECRET_KEY", "s"), ("SILTSTONE_SECRET_KEY_FILE", "f")]), "not both"),
        (Some([("SILTSTONE_SECRET_KEY", ""), ("SILTSTONE_SECRET_KEY_FILE", "/no/such")]), "/no/such"),
    ] {
        let output = finish(
            siltstone(dir.path()).env("SILTSTONE_ACCESS_KEY", "alone").envs(secret.into_iter().flatten()),
        );
        assert_eq!(output.status.code(), Some(2));
        let said = stderr_of(&output);
        assert!(said.contains("SILTSTONE_SECRET_KEY") && said.contains(problem), "{said}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn an_unknown_key_in_the_configuration_file_is_refused_with_its_line() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("c.toml"), "workers = 2\n\nlistn = \"127.0.0.1:0\"\n").unwrap();
    let output = finish(siltstone(dir.path()).args(["--config", "c.toml"]));
    assert_eq!(output.status.code(), Some(2));
    let said = stderr_of(&output);
    assert!(said.contains("c.toml") && said.contains("line 3") && said.contains("listn"), "{said}");
}

/// Starts and ends a server that is set up so; gives the name of the one directory that it made,
/// and removes it.
fn directory_made(dir: &Path, set_up: impl Fn(&mut Command)) -> String {
    let mut command = siltstone(dir);
    set_up(&mut command);
    assert_eq!(Running::start(command).end(Signal::TERM).0, Some(0));
    let made: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|p| p.is_dir()).collect();
    assert_eq!(made.len(), 1, "{made:?}");
    fs::remove_dir_all(&made[0]).unwrap();
    made[0].file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    fs::write(dir.join("c.toml"), "data_dir = \"from-file\"\nlisten = \"127.0.0.1:0\"\n").unwrap();
    let file = |command: &mut Command| {
        command.args(["--config", "c.toml"]);
    };
    assert_eq!(directory_made(dir, file), "from-file");
    let environment = |command: &mut Command| {
        command.env("SILTSTONE_CONFIG", "c.toml").env("SILTSTONE_DATA_DIR", "from-environment");
    };
    assert_eq!(directory_made(dir, environment), "from-environment");
    let flag = |command: &mut Command| {
        environment(command);
        command.args(["--data-dir", "from-flag"]);
    };
    assert_eq!(directory_made(dir, flag), "from-flag");
    let behind = |command: &mut Command| {
        environment(command);
        command.args(["serve", "--data-dir", "behind-the-command"]);
    };
    assert_eq!(directory_made(dir, behind), "behind-the-command");
}

#[test]
fn help_and_version_are_shown() {
    let dir = TempDir::new().unwrap();
    let version = finish(siltstone(dir.path()).arg("--version"));
    assert_eq!(
        String::from_utf8(version.stdout).unwrap(),
        format!("siltstone {}\n", env!("CARGO_PKG_VERSION"))
    );
    let help = finish(siltstone(dir.path()).arg("--help"));
    assert_eq!(help.status.code(), Some(0));
    let help = String::from_utf8(help.stdout).unwrap();
    for expected in ["--data-dir <DIR>", "SILTSTONE_LISTEN", "[default: 127.0.0.1:9000]", "Examples:"] {
        assert!(help.contains(expected), "{expected} is missing in {help}");
    }
}

#[test]
fn the_signals_that_end_it_end_it_well() {
    for signal in [Signal::TERM, Signal::INT] {
        let dir = TempDir::new().unwrap();
        let server = Running::start(on_a_free_port(dir.path()));
        assert!(server.get("/-/health").contains(" 200 "));
        assert_eq!(server.end(signal).0, Some(0), "{signal:?}");
    }
}

#[test]
fn standard_output_holds_one_line() {
    let dir = TempDir::new().unwrap();
    let mut server = Running::start(on_a_free_port(dir.path()));
    server.get("/-/health");
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
    assert_eq!(server.further_output(), "");
}

#[test]
fn every_line_of_a_json_log_is_an_object_and_holds_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = on_a_free_port(dir.path());
    command.args(["--log-format", "json", "--log-level", "trace", "--memory-max", "64MiB"]);
    command.env("SILTSTONE_ACCESS_KEY", "known").env("SILTSTONE_SECRET_KEY", "hidden-secret");
    let server = Running::start(command);
    server.answer("/-/health");
    for secret in ["X-Amz-Signature=hidden-a", "X-Amz-Security-Token=hidden-b", "Signature=hidden-c"] {
        server.answer(&format!("/b/k?versionId=1&{secret}&X-Amz-Credential=hidden-d"));
    }
    let (_, said) = server.end(Signal::TERM);
    let lines: Vec<_> = said.lines().skip_while(|line| !line.starts_with('{')).collect();
    let read = |line: &&str| {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|e| panic!("{e}: {line}"))
    };
    let lines: Vec<_> = lines.iter().map(read).collect();
    let memory = lines
        .iter()
        .find(|line| line["message"].as_str().is_some_and(|m| m.starts_with("memory: at most 67108864")));
    assert_eq!(memory.expect("the start tells of memory")["level"], "INFO");
    assert_eq!(lines.iter().filter(|line| line["operation"].is_string()).count(), 3, "{said}");
    assert!(!said.contains("hidden"), "{said}");
}

#[test]
fn settings_that_do_not_fit_the_memory_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let output = finish(on_a_free_port(dir.path()).args(["--memory-max", "64MiB", "--workers", "100"]));
    let said = stderr_of(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--workers takes 100.0 MiB"), "{said}");
}

#[test]
fn a_broken_users_file_is_refused_at_the_start_with_its_line() {
    let dir = TempDir::new().unwrap();
    let users = write_users(dir.path(), "[[user]]\nname = \"admin\"\nsecret = \"x\"\n");
    let output = finish(on_a_free_port(dir.path()).arg("--users").arg(&users));
    assert_eq!(output.status.code(), Some(1));
    let said = stderr_of(&output);
    assert!(said.contains("users.toml") && said.contains("line 3"), "{said}");
}

#[test]
fn users_are_read_again_on_sighup_and_a_broken_file_changes_nothing() {
    let dir = TempDir::new().unwrap();
    let users = write_users(dir.path(), "");
    let mut command = on_a_free_port(dir.path());
    command.arg("--users").arg(&users);
    let server = Running::start(command);
    let may_read = |server: &Running| server.get("/no-such-bucket/key").contains(" 404 ");
    assert!(!may_read(&server));

    write_users(dir.path(), ANYONE_MAY_READ);
    server.signal(Signal::HUP);
    server.wait_until("the new permission", may_read);

    write_users(dir.path(), "[[user]]\nname = \"anonymous\"\nbroken\n");
    server.signal(Signal::HUP);
    server.wait_until("the complaint", |server| server.said().contains("line 3"));
    assert!(may_read(&server));
}

#[test]
fn a_users_file_that_others_can_read_is_complained_about() {
    let dir = TempDir::new().unwrap();
    let users = write_users(dir.path(), ANYONE_MAY_READ);
    fs::set_permissions(&users, fs::Permissions::from_mode(0o644)).unwrap();
    let mut command = on_a_free_port(dir.path());
    command.arg("--users").arg(&users);
    let (_, said) = Running::start(command).end(Signal::TERM);
    assert!(said.contains("chmod 600"), "{said}");
}

#[test]
fn the_engine_tiny_http_serves_on_loopback_addresses_alone() {
    let dir = TempDir::new().unwrap();
    let command = |address: &str| {
        let mut command = siltstone(dir.path());
        command.args(["--http-engine", "tiny_http", "--listen", address]);
        command
    };
    for address in ["0.0.0.0:7000", "192.0.2.1:7000", "[::]:7000"] {
        let output = finish(&mut command(address));
        let said = stderr_of(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("--http-engine direct, or --listen 127.0.0.1:7000"), "{said}");
    }
    assert!(!dir.path().join("meta").exists(), "nothing was begun");
    let server = Running::start(command("127.0.0.1:0"));
    assert_eq!(server.get("/-/health"), "HTTP/1.1 200 OK");
    assert_eq!(server.end(Signal::TERM).0, Some(0));
}

#[test]
fn a_certificate_needs_its_key_and_the_engine_that_can_use_it() {
    let dir = TempDir::new().unwrap();
    let pem = |name: &str| format!("{}/tests/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    let certificate = pem("one.pem");
    let key = pem("one.key");
    for (arguments, status, problem) in [
        (vec!["--tls-cert", &certificate], 2, "set both, or neither"),
        (vec!["--tls-key", &key], 2, "set both, or neither"),
        (
            vec!["--tls-cert", &certificate, "--tls-key", &key, "--http-engine", "tiny_http"],
            2,
            "only --http-engine direct",
        ),
        (vec!["--tls-cert", &certificate, "--tls-key", &pem("two.key")], 1, "two.key"),
        (vec!["--tls-cert", &pem("absent"), "--tls-key", &key], 1, "cannot read"),
        (vec!["--tls-cert", &key, "--tls-key", &key], 1, "no certificate"),
    ] {
        let output = finish(on_a_free_port(dir.path()).args(&arguments));
        let said = stderr_of(&output);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.contains(problem), "{arguments:?}: {said}");
    }
}

#[test]
fn one_word_turns_the_lines_of_requests_off() {
    for word in ["off", "none"] {
        let dir = TempDir::new().unwrap();
        let mut command = on_a_free_port(dir.path());
        command.args(["--access-log", word, "--log-format", "json"]);
        let server = Running::start(command);
        assert!(server.get("/absent").contains(" 403 "));
        let (status, said) = server.end(Signal::TERM);
        assert_eq!(status, Some(0));
        assert!(!said.contains("absent") && said.contains("answered 1 requests"), "{said}");
        assert!(!dir.path().join(word).exists());
    }
    let dir = TempDir::new().unwrap();
    let mut command = on_a_free_port(dir.path());
    command.args(["--access-log", "./off"]);
    let server = Running::start(command);
    server.get("/absent");
    server.end(Signal::TERM);
    assert!(fs::read_to_string(dir.path().join("off")).unwrap().contains("/absent"));
}

#[test]
fn the_metrics_are_for_those_who_state_the_token_which_is_read_again_on_sighup() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("token");
    fs::write(&path, "first-token\n").unwrap();
    let mut command = on_a_free_port(dir.path());
    command.args(["--metrics", "off", "--metrics-token-file", "token"]);
    let server = Running::start(command);
    let status = |server: &Running, authorization: &str| {
        let answer = server.answer_to("/-/metrics", &format!("Authorization: {authorization}\r\n"));
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    for stated in ["Bearer first-token", "bearer  first-token"] {
        assert_eq!(status(&server, stated), "200", "{stated}");
    }
    for wrong in ["Bearer", "Bearer ", "Bearer first-tokeN", "Bearer first-token2", "Basic first-token"] {
        assert_eq!(status(&server, wrong), "401", "{wrong}");
    }
    assert!(server.answer("/-/metrics").contains("WWW-Authenticate: Bearer"));
    fs::write(&path, "second-token").unwrap();
    server.signal(Signal::HUP);
    server.wait_until("the other token", |server| status(server, "Bearer second-token") == "200");
    assert_eq!(status(&server, "Bearer first-token"), "401");
    fs::write(&path, "two words").unwrap();
    server.signal(Signal::HUP);
    server.wait_until("the complaint", |server| {
        server.said().contains("the token of the metrics is unchanged")
    });
    assert_eq!(status(&server, "Bearer second-token"), "200");
    assert!(!server.said().contains("second-token"));
}
