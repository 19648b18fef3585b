//! Quotas, set by command on a running server.

use std::path::Path;
use std::process::Output;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::process::{Running, finish, on_a_free_port, siltstone, stderr_of};
use crate::support::users::write_users;

const ADMIN: &str = "[[user]]\nname = \"admin\"\naccess_key = \"AK1\"\nsecret_key = \"0123456789abcdef\"\n\n[[user.allow]]\n\
    actions = [\"*\"]\nresources = [\"*\"]\n";
const TENANT: &str = "\n[[user]]\nname = \"ann\"\naccess_key = \"AK2\"\nsecret_key = \"fedcba9876543210\"\n";

/// `siltstone quota ...` beside a server.
fn quota(dir: &Path, server: &Running, arguments: &[&str]) -> Output {
    let listen = ["--listen", server.address()];
    finish(siltstone(dir).arg("quota").args(arguments).args(["--users", "users.toml"]).args(listen))
}

/// Runs a command that must succeed; returns standard output.
fn done(dir: &Path, server: &Running, arguments: &[&str]) -> String {
    let output = quota(dir, server, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr_of(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(dir: &Path, server: &Running, arguments: &[&str]) -> (Option<i32>, String) {
    let output = quota(dir, server, arguments);
    assert!(output.stdout.is_empty(), "{output:?}");
    (output.status.code(), stderr_of(&output))
}

fn start(dir: &Path) -> Running {
    let mut command = on_a_free_port(dir);
    command.args(["--users", "users.toml", "--bucket", "photos", "--index-max", "64MiB"]);
    Running::start(command)
}

#[test]
fn quotas_are_set_shown_and_removed_on_a_running_server() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write_users(dir, &format!("{ADMIN}{TENANT}"));
    let server = start(dir);
    assert_eq!(done(dir, &server, &["show"]), "");
    done(dir, &server, &["set", "bucket", "photos", "--bytes", "10KiB", "--uploads", "0"]);
    done(dir, &server, &["set", "owner", "ann", "--buckets", "3"]);
    done(dir, &server, &["set", "owner", "ann & bob", "--objects", "7"]);
    let all = "bucket\tphotos\t0 of 10240 bytes, 0 objects, 0 of 0 uploads, 1304 of 16777216 index bytes\n\
               owner\tann\t0 bytes, 0 objects, 0 uploads, 0 of 16777216 index bytes, 0 of 3 buckets\n\
               owner\tann & bob\t0 bytes, 0 of 7 objects, 0 uploads, 0 of 16777216 index bytes, 0 buckets\n";
    assert_eq!(done(dir, &server, &["show"]), all);
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    let server = start(dir);
    assert_eq!(done(dir, &server, &["show"]), all);
    assert_eq!(
        done(dir, &server, &["show", "bucket", "photos"]),
        all.lines().next().unwrap().to_owned() + "\n"
    );
    let shown: Value =
        serde_json::from_str(&done(dir, &server, &["show", "owner", "ann", "--json"])).unwrap();
    assert_eq!(shown["quota"].to_string(), "{\"buckets\":3}");
    done(dir, &server, &["set", "bucket", "photos", "--objects", "1", "--index-bytes", "20KiB"]);
    let expected = "bucket\tphotos\t0 bytes, 0 of 1 objects, 0 uploads, 1352 of 20480 index bytes\n";
    assert_eq!(done(dir, &server, &["show"]).split_inclusive('\n').next(), Some(expected));
    for holder in [["bucket", "photos"], ["owner", "ann"], ["owner", "ann & bob"]] {
        done(dir, &server, &["remove", holder[0], holder[1]]);
    }
    assert_eq!(done(dir, &server, &["show"]), "");
}

#[test]
fn the_users_file_limits_owners_from_the_start_and_from_sighup_on() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write_users(dir, &format!("{ADMIN}{TENANT}\n[user.quota]\nbytes = \"1MiB\"\n"));
    let server = start(dir);
    let shown = |allowed: &str| {
        let index = "0 of 16777216 index bytes";
        format!("owner\tann\t0 of {allowed} bytes, 0 objects, 0 uploads, {index}, 0 buckets\n")
    };
    assert_eq!(done(dir, &server, &["show"]), shown("1048576"));
    // Of two quotas the stricter limit counts.
    done(dir, &server, &["set", "owner", "ann", "--bytes", "5000B"]);
    assert_eq!(done(dir, &server, &["show"]), shown("5000"));
    write_users(dir, &format!("{ADMIN}{TENANT}\n[user.quota]\nbytes = 400\n"));
    server.signal(Signal::HUP);
    server.wait_until("the reload", |server| server.said().contains("the users file was read again"));
    assert_eq!(done(dir, &server, &["show", "owner", "ann"]), shown("400"));
}

#[test]
fn commands_that_cannot_be_done_say_why() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write_users(dir, ADMIN);
    let server = start(dir);
    for (arguments, status, reason) in [
        (&["set", "bucket", "absent", "--bytes", "1MiB"][..], 1, "NoSuchBucket"),
        (&["set", "bucket", "photos", "--buckets", "1"], 2, "--buckets"),
        (&["set", "bucket", "photos"], 2, "--bytes"),
        (&["set", "bucket", "no bucket", "--objects", "1"], 2, "no bucket"),
        (&["set", "owner", "ann", "--bytes", "much"], 2, "--bytes"),
        (&["show", "bucket"], 2, "NAME"),
        (&["show", "--endpoint", "ftp://x"], 1, "http://HOST:PORT"),
    ] {
        let (code, said) = refused(dir, &server, arguments);
        assert!(code == Some(status) && said.contains(reason), "{arguments:?}: {code:?} {said}");
    }
    write_users(dir, TENANT);
    let (code, said) = refused(dir, &server, &["show"]);
    assert!(code == Some(1) && said.contains("no administrator"), "{said}");
    let mut command = siltstone(dir);
    command.args(["quota", "show", "--endpoint", &format!("http://{}", server.address())]);
    command.env("SILTSTONE_ACCESS_KEY", "AK1").env("SILTSTONE_SECRET_KEY", "0123456789abcdef");
    assert_eq!(finish(&mut command).status.code(), Some(0), "keys from the environment need no users file");
    command.env("SILTSTONE_SECRET_KEY", "another one, 16 at least");
    assert!(stderr_of(&finish(&mut command)).contains("SignatureDoesNotMatch"));
}
