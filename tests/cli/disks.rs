//! The server with a fast directory.

use std::fs;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::process::{Running, finish, on_a_free_port, stderr_of};

fn refusal(dir: &TempDir, arguments: &[&str]) -> String {
    let output = finish(on_a_free_port(dir.path()).args(arguments));
    assert_ne!(output.status.code(), Some(0), "{arguments:?}");
    stderr_of(&output)
}

#[test]
fn a_store_of_two_directories_is_made_and_found_again_and_neither_is_taken_for_the_whole() {
    let dir = TempDir::new().unwrap();
    let both = ["--data-dir", "hdd", "--fast-dir", "ssd"];
    let start = || {
        let mut command = on_a_free_port(dir.path());
        command.args(both);
        Running::start(command)
    };
    let running = start();
    assert!(running.get("/-/ready").contains(" 200 "));
    let second = refusal(&dir, &both);
    assert!(second.contains("another process uses"), "{second}");
    assert_eq!(running.end(Signal::TERM).0, Some(0));
    assert!(dir.path().join("ssd/meta/0000000000000001.log").exists());
    assert!(dir.path().join("hdd/users.toml").exists());
    let meta: Vec<_> =
        fs::read_dir(dir.path().join("hdd/meta")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(meta, ["7fffffffffffffff.log"], "the mark alone");

    for (arguments, named) in [
        (&["--data-dir", "hdd"][..], "name that with --fast-dir"),
        (&["--data-dir", "ssd"], "it is the fast directory of a store"),
        (&["--data-dir", "hdd", "--fast-dir", "new"], "the disk may not be mounted"),
        (&["--data-dir", "new", "--fast-dir", "ssd"], "the data directory has no store"),
        (&["--data-dir", "ssd", "--fast-dir", "hdd"], "it is the fast directory of a store"),
        (&["--data-dir", "hdd", "--fast-dir", "hdd/ssd"], "one is in the other"),
    ] {
        let said = refusal(&dir, arguments);
        assert!(said.contains(named), "{arguments:?}: {said}");
        assert!(!dir.path().join("new").exists(), "{arguments:?}");
    }
    let running = start();
    let (code, said) = running.end(Signal::TERM);
    assert_eq!(code, Some(0));
    assert!(said.contains("it is on the disk of the data directory"), "{said}");
}

#[test]
fn no_fast_directory_is_made_in_one_with_other_files_and_a_standby_has_none() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("ssd")).unwrap();
    fs::write(dir.path().join("ssd/letters.doc"), "").unwrap();
    let said = refusal(&dir, &["--data-dir", "hdd", "--fast-dir", "ssd"]);
    assert!(said.contains("it is not empty"), "{said}");
    assert!(!dir.path().join("hdd").exists());
    let remote =
        "[remote]\nendpoint = 'http://127.0.0.1:1'\nbucket = 'logs'\naccess_key = 'a'\nsecret_key = 's'\n";
    fs::write(dir.path().join("standby.toml"), remote).unwrap();
    let arguments = ["--config", "standby.toml", "--standby", "true", "--ship", "async", "--fast-dir", "new"];
    let said = refusal(&dir, &arguments);
    assert!(said.contains("a standby has one directory"), "{said}");
}
