//! The server on two encrypted directories.

use std::fs;
use std::process::Command;

use rustix::process::Signal;

use super::mirrored::{Host, check_objects, is_degraded, wait_until_whole};
use super::tier::{client, put};
use crate::support::process::{Running, finish, stderr_of};

const KEY: [&str; 2] = ["--store-key-file", "store.key"];
const PHRASE: [&str; 2] = ["--store-key-file", "phrase"];

/// A host with a key and a passphrase.
fn host_with_key() -> Host {
    let host = Host::new();
    let made = host.tool(&["store-key", "create", "store.key"]);
    assert!(made.status.success(), "{}", stderr_of(&made));
    fs::write(host.path("phrase"), "a passphrase of enough letters, and words\n").unwrap();
    host
}

fn end(server: Running) {
    assert_eq!(server.end(Signal::TERM).0, Some(0));
}

/// The segments of a directory, one after another.
fn segments(host: &Host, name: &str) -> Vec<u8> {
    let entries = fs::read_dir(host.path(name).join("data")).unwrap();
    entries.flat_map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn an_encrypted_mirror_goes_on_with_either_side_and_fills_the_other_one() {
    let host = host_with_key();
    let without_key = host.refusal(&["--mirror", "data=other", "--encrypt-store"]);
    assert!(without_key.contains("--store-key-file"), "{without_key}");
    let within = ["--mirror", "data=other", "--encrypt-store", "--store-key-file", "other/store.key"];
    fs::create_dir(host.path("other")).unwrap();
    fs::rename(host.path("store.key"), host.path("other/store.key")).unwrap();
    assert!(host.refusal(&within).contains("protects nothing"), "{}", host.refusal(&within));
    fs::rename(host.path("other/store.key"), host.path("store.key")).unwrap();
    for side in ["data", "other"] {
        assert_eq!(fs::read_dir(host.path(side)).unwrap().count(), 0, "{side}");
    }
    let server = host.start(&[&["--encrypt-store"], &KEY[..]].concat());
    put(&client(server.address()), 0).unwrap();
    end(server);
    for side in ["data", "other"] {
        assert_eq!(segments(&host, side).windows(8).filter(|bytes| *bytes == b"SiltMseg").count(), 0);
        assert!(host.path(side).join("KEYS").exists() && host.path(side).join("KEYS.copy").exists());
    }
    assert_ne!(segments(&host, "data"), segments(&host, "other"), "each has salts of its own");
    assert!(host.refusal(&["--mirror", "data=other"]).contains("--store-key-file"));

    host.take_out("other");
    let alone = [&["--accept-degraded", "true"], &KEY[..]].concat();
    let server = host.start(&alone);
    put(&client(server.address()), 1).unwrap();
    end(server);
    host.bring_back("other");
    let server = host.start(&KEY);
    wait_until_whole(&server);
    end(server);
    host.take_out("data");
    let server = host.start(&alone);
    check_objects(&server, 2);
    end(server);

    fs::create_dir(host.path("data")).unwrap();
    let replaced = host.tool(&["disk", "replace"]);
    assert!(replaced.status.success(), "{}", stderr_of(&replaced));
    let server = host.start(&KEY);
    wait_until_whole(&server);
    end(server);
    let verified = host.tool(&[&["verify"], &KEY[..]].concat());
    assert!(verified.status.success(), "{}", stderr_of(&verified));
    fs::remove_dir_all(host.path("other")).unwrap();
    let server = host.start(&alone);
    check_objects(&server, 2);
    assert!(is_degraded(&server));
    end(server);
}

#[test]
fn an_encrypted_store_gets_a_second_side() {
    let host = host_with_key();
    let server = super::tier::start(
        host.path("").as_path(),
        "127.0.0.1:0",
        &[&["--encrypt-store"], &KEY[..]].concat(),
    );
    put(&client(server.address()), 0).unwrap();
    end(server);
    let added = host.tool(&["disk", "add"]);
    assert!(added.status.success(), "{}", stderr_of(&added));
    let server = host.start(&KEY);
    wait_until_whole(&server);
    end(server);
    host.take_out("data");
    let server = host.start(&[&["--accept-degraded", "true"], &KEY[..]].concat());
    check_objects(&server, 1);
    end(server);
}

#[test]
fn slots_are_those_of_both_sides() {
    let host = host_with_key();
    end(host.start(&[&["--encrypt-store"], &KEY[..]].concat()));
    let of = |side: &str| fs::read(host.path(side).join("KEYS")).unwrap();
    let before = of("other");
    let added = host.tool(&[&["store-key", "add", "phrase"], &KEY[..]].concat());
    assert!(added.status.success(), "{}", stderr_of(&added));
    assert!(of("data") == of("other") && of("other") != before);
    let slots = |host: &Host| String::from_utf8(host.tool(&["store-key", "slots"]).stdout).unwrap();
    assert!(slots(&host).contains("2  passphrase"), "{}", slots(&host));

    // One side has those of before, as after a crash, on whichever of both.
    for side in ["data", "other"] {
        for file in ["KEYS", "KEYS.copy"] {
            fs::write(host.path(side).join(file), &before).unwrap();
        }
        let examined = String::from_utf8(host.tool(&["doctor"]).stdout).unwrap();
        assert!(examined.contains("KEYS and KEYS.copy differs between the sides"), "{examined}");
        assert!(slots(&host).contains("2  passphrase"), "{}", slots(&host));
        end(host.start(&PHRASE));
        assert!(of("data") == of("other") && of("data") != before, "{side}");
    }
    // One has none that can be read.
    for file in ["KEYS", "KEYS.copy"] {
        fs::write(host.path("data").join(file), "no keys").unwrap();
    }
    let server = host.start(&KEY);
    assert!(of("data") == of("other") && of("data") != before);
    end(server);
    let removed = host.tool(&[&["store-key", "remove", "1"], &PHRASE[..]].concat());
    assert!(removed.status.success(), "{}", stderr_of(&removed));
    assert_eq!(of("data"), of("other"));
    let within = host.tool(&["store-key", "create", "other/store.key"]);
    assert!(stderr_of(&within).contains("protects nothing"), "{}", stderr_of(&within));
    assert!(host.refusal(&[&["--mirror", "data=other"], &KEY[..]].concat()).contains("no slot"));
}

#[test]
fn a_mirror_in_the_clear_is_encrypted_by_no_start_and_no_tool() {
    let host = host_with_key();
    end(host.start(&[]));
    let mirror = ["--mirror", "data=other"];
    let encrypting = [&mirror[..], &["--encrypt-store"], &KEY].concat();
    assert!(host.refusal(&encrypting).contains("encrypt"), "{}", host.refusal(&encrypting));
    let said = host.refusal(&[&mirror[..], &KEY].concat());
    assert!(said.contains("not encrypted"), "{said}");
    let refused = host.tool(&[&["encrypt"], &KEY[..]].concat());
    assert!(!refused.status.success());
    assert!(stderr_of(&refused).contains("only looked at"), "{}", stderr_of(&refused));
    end(host.start(&[]));
}

#[test]
fn sides_with_two_keys_are_refused() {
    let host = host_with_key();
    end(host.start(&[&["--encrypt-store"], &KEY[..]].concat()));
    let other = host_with_key();
    end(other.start(&[&["--encrypt-store", "--store-key-file"], &["store.key"][..]].concat()));
    for file in ["KEYS", "KEYS.copy"] {
        fs::copy(other.path("other").join(file), host.path("other").join(file)).unwrap();
    }
    let said = host.refusal(&[&["--mirror", "data=other"], &KEY[..]].concat());
    assert!(said.contains("belong to two stores"), "{said}");
}

/// The way of the guide for tools that write to one directory alone.
#[test]
fn a_side_whose_mark_was_set_aside_is_a_store_of_its_own() {
    let host = host_with_key();
    let server = host.start(&[&["--encrypt-store"], &KEY[..]].concat());
    put(&client(server.address()), 0).unwrap();
    end(server);
    fs::rename(host.path("data/meta/7ffffffffffffffe.log"), host.path("data/meta/aside")).unwrap();
    let mut tool = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
    tool.current_dir(host.path("")).args(["--data-dir", "data", "verify"]).args(KEY);
    let verified = finish(&mut tool);
    assert!(verified.status.success(), "{}", stderr_of(&verified));
    fs::rename(host.path("other"), host.path("former")).unwrap();
    let added = host.tool(&["disk", "add"]);
    assert!(added.status.success(), "{}", stderr_of(&added));
    let server = host.start(&KEY);
    wait_until_whole(&server);
    check_objects(&server, 1);
    end(server);
}
