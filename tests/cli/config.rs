//! The commands `config`, `completions` and `man`, and what the command line says of wrong names.

use std::fs;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::support::process::{finish, siltstone, stderr_of};

fn stdout_of(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The line of an option in the output of `config show`, with single spaces.
fn line_of(shown: &str, name: &str) -> String {
    let of_option = |line: &&str| line.split(' ').any(|word| word == name);
    let line = shown.lines().find(of_option).unwrap_or_else(|| panic!("{name} is missing in {shown}"));
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

const FILE: &str = "data_dir = '/srv/objects'\nqueue = 7\n\nregion = ['r1', 'r2']\n[remote]\nendpoint = 'https://h'\n\
    bucket = 'cold'\naccess_key = 'AK'\nsecret_key = 'hidden-secret'\n";

#[test]
fn config_show_tells_each_value_and_where_it_comes_from_and_no_secret() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("c.toml"), FILE).unwrap();
    let mut command = siltstone(dir.path());
    command.args(["config", "show", "--config", "c.toml", "--listen", "127.0.0.1:1"]);
    command.env("SILTSTONE_WORKERS", "3").env("MINIO_DOMAIN", "s3.example").env("SILTSTONE_QUEUE", "8");
    command.env("SILTSTONE_ACCESS_KEY", "known").env("SILTSTONE_SECRET_KEY", "hidden-key");
    let output = finish(&mut command);
    let shown = stdout_of(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr_of(&output));
    for (name, line) in [
        ("data_dir", "data_dir = \"/srv/objects\" # configuration file, line 1"),
        ("listen", "listen = \"127.0.0.1:1\" # command line"),
        ("workers", "workers = 3 # variable SILTSTONE_WORKERS"),
        ("domain", "domain = \"s3.example\" # variable MINIO_DOMAIN"),
        ("queue", "queue = 8 # variable SILTSTONE_QUEUE"),
        ("region", "region = [\"r1\", \"r2\"] # configuration file, line 4"),
        ("etag", "etag = \"md5\" # default"),
        ("standby", "standby = false # default"),
        ("users", "# users is not set"),
        ("endpoint", "endpoint = \"https://h\""),
        ("secret_key", "secret_key = \"(not shown)\""),
    ] {
        assert_eq!(line_of(&shown, name), line);
    }
    assert!(!shown.contains("hidden"), "{shown}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was made");
}

#[test]
fn what_config_show_writes_is_a_configuration_file_with_the_same_values() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("c.toml"), "queue = 7\nbucket = ['a-bucket', 'b-bucket:versioned']\n").unwrap();
    let show = |file: &str| {
        let output = finish(siltstone(dir.path()).args(["config", "show", "--config", file]));
        assert_eq!(output.status.code(), Some(0), "{}", stderr_of(&output));
        stdout_of(&output)
    };
    let first = show("c.toml");
    fs::write(dir.path().join("d.toml"), &first).unwrap();
    let second = show("d.toml");
    let values = |shown: &str| -> Vec<String> {
        shown.lines().map(|line| line.split(" # ").next().unwrap().trim_end().to_owned()).collect()
    };
    assert_eq!(values(&first), values(&second));
    assert!(!second.contains("# default"), "{second}");
}

#[test]
fn config_check_names_every_problem_of_a_file_and_ends_with_1() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("c.toml"), "listn = 'a'\nqueue = 0\n[mirror]\n").unwrap();
    for command in ["check", "show"] {
        let output = finish(siltstone(dir.path()).args(["config", command, "--config", "c.toml"]));
        assert_eq!(output.status.code(), Some(1));
        let said = stderr_of(&output);
        for told in ["c.toml, line 1", "did you mean `listen`?", "line 2", "--queue", "line 3", "[[mirror]]"]
        {
            assert!(said.contains(told), "{told} is missing in {said}");
        }
    }
}

#[test]
fn config_check_reads_the_files_that_are_named_and_starts_nothing() {
    let dir = TempDir::new().unwrap();
    let outcome = |set_up: &dyn Fn(&mut Command)| {
        let mut command = siltstone(dir.path());
        command.args(["config", "check", "--config", "c.toml"]);
        set_up(&mut command);
        let output = finish(&mut command);
        (output.status.code(), stdout_of(&output), stderr_of(&output))
    };
    fs::write(dir.path().join("c.toml"), FILE).unwrap();
    assert_eq!(outcome(&|_| {}).0, Some(0));
    assert_eq!(outcome(&|_| {}).1, "the configuration is sound\n");
    for (flags, told) in [
        (&["--tls-cert", "/no/cert", "--tls-key", "/no/key"][..], "/no/cert"),
        (&["--tls-cert", "/no/cert"], "set both"),
        (&["--metrics-token-file", "/no/token"], "/no/token"),
        (&["--oidc-issuer", "https://a"], "--oidc-client-id"),
        (&["--memory-max", "64MiB", "--workers", "9999"], "--workers takes"),
    ] {
        let (status, _, said) = outcome(&|command| {
            command.args(flags);
        });
        assert_eq!(status, Some(1), "{flags:?}");
        assert!(said.contains(told), "{told} is missing in {said}");
    }
    fs::write(dir.path().join("users.toml"), "[[user]]\nname = 5\n").unwrap();
    let (status, _, said) = outcome(&|command| {
        command.args(["--users", "users.toml"]);
    });
    assert_eq!(status, Some(1));
    assert!(said.contains("users.toml"), "{said}");
    fs::write(dir.path().join("c.toml"), FILE.replace("bucket", "buckt")).unwrap();
    let (status, _, said) = outcome(&|_| {});
    assert_eq!(status, Some(1));
    assert!(said.contains("[remote]") && said.contains("buckt"), "{said}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing was made");
}

#[test]
fn a_wrong_flag_and_a_wrong_command_are_refused_with_the_right_one() {
    let dir = TempDir::new().unwrap();
    for (wrong, meant) in
        [(&["--listn", "a"][..], "--listen"), (&["helth"], "health"), (&["user", "ad"], "add")]
    {
        let output = finish(siltstone(dir.path()).args(wrong));
        assert_eq!(output.status.code(), Some(2));
        let said = stderr_of(&output);
        assert!(said.contains("similar") && said.contains(meant), "{said}");
    }
}

#[test]
fn completions_and_man_pages_come_from_the_program_itself() {
    let dir = TempDir::new().unwrap();
    let run = |arguments: &[&str]| {
        let output = finish(siltstone(dir.path()).args(arguments));
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr_of(&output));
        stdout_of(&output)
    };
    for (shell, told) in
        [("bash", "complete -F"), ("zsh", "#compdef siltstone"), ("fish", "complete -c siltstone")]
    {
        let text = run(&["completions", shell]);
        assert!(text.contains(told) && text.contains("takeover-after"), "{shell}: {text}");
    }
    let page = run(&["man"]);
    assert!(page.contains(".TH siltstone 1") && page.contains("takeover\\-after"), "{page}");
    let page = run(&["man", "user", "add"]);
    assert!(page.contains(".TH siltstone-user-add 1") && page.contains("\\-\\-resources"), "{page}");
    let refused = finish(siltstone(dir.path()).args(["man", "user", "nothing"]));
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr_of(&refused).contains("there is no command `nothing`"));
}
