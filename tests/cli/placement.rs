//! Pins of buckets, set by command on a running server.

use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::process::{Running, finish, on_a_free_port, siltstone, stderr_of};
use crate::support::users::write_users;

const ADMIN: &str = "[[user]]\nname = \"admin\"\naccess_key = \"AK1\"\nsecret_key = \"0123456789abcdef\"\n\n[[user.allow]]\n\
    actions = [\"*\"]\nresources = [\"*\"]\n";

#[test]
fn a_bucket_is_pinned_shown_and_set_free_on_a_running_server() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write_users(dir, ADMIN);
    let start = || {
        let mut command = on_a_free_port(dir);
        command.args(["--users", "users.toml", "--bucket", "photos"]);
        Running::start(command)
    };
    let asked = |server: &Running, arguments: &[&str]| {
        let listen = ["--users", "users.toml", "--listen", server.address()];
        let output = finish(siltstone(dir).arg("placement").args(arguments).args(listen));
        let shown = String::from_utf8(output.stdout.clone()).unwrap();
        (output.status.code(), shown, stderr_of(&output))
    };
    let done = |server: &Running, arguments: &[&str]| {
        let (status, shown, problem) = asked(server, arguments);
        assert_eq!(status, Some(0), "{arguments:?}: {problem}");
        shown
    };
    let server = start();
    assert_eq!(done(&server, &["photos"]), "none\n");
    for placement in ["local", "remote"] {
        assert_eq!(done(&server, &["photos", placement]), "");
        assert_eq!(done(&server, &["photos"]), format!("{placement}\n"));
    }
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    let server = start();
    assert_eq!(done(&server, &["photos"]), "remote\n");
    done(&server, &["photos", "none"]);
    assert_eq!(done(&server, &["photos"]), "none\n");
    let (status, _, problem) = asked(&server, &["absent", "local"]);
    assert!(status != Some(0) && problem.contains("NoSuchBucket"), "{problem}");
    assert_eq!(asked(&server, &["photos", "elsewhere"]).0, Some(2));
}
