//! `export` from a server, into directories and into another server, and `import` of what was exported.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::Value;
use siltstone::base::digest::Md5;

use super::import::{Client, command_of, counts, report, start};
use super::{bytes, status, stderr};
use crate::support::proxy::{self, Fault, Verdict};

/// The keys of the round trip: as in URLs, and whether each is a file of its name.
const KEYS: [(&str, bool); 13] = [
    ("a", true),
    ("a-x", true),
    ("a/b", false),
    ("a%20b/%C3%A4/100%25%20%2B%26%3F.bin", true),
    ("..", false),
    ("up/../../passwd", false),
    ("folder/", false),
    ("folder/in", true),
    ("double//slash", false),
    ("line%0Abreak", true),
    (".siltstone-export/manifest.jsonl", false),
    ("A", true),
    ("-rf", true),
];

fn decoded(key: &str) -> String {
    percent_encoding::percent_decode_str(key).decode_utf8().unwrap().into_owned()
}

fn fill(client: &mut Client) {
    for (number, (key, _)) in KEYS.iter().enumerate() {
        let lines = format!(
            "Content-Type: text/x-{number}\r\nx-amz-meta-who: me {number}\r\nx-amz-tagging: a%20b=c%2B{number}\r\n"
        );
        client.ask("PUT", key, &[], &lines, &bytes(number as u64, 1_000 + number));
    }
    let time = "x-amz-meta-mtime: 1500000000.250000000\r\nCache-Control: no-store\r\n";
    client.ask("PUT", "timed", &[], time, b"");
    let long = format!("long/{}", "x".repeat(300));
    client.ask("PUT", &long, &[], "", b"long");
}

/// The attributes of an object that a round trip keeps.
fn described(client: &mut Client, key: &str) -> (Vec<Option<String>>, String, [u8; 16]) {
    let head = client.ask("HEAD", key, &[], "", b"");
    let names =
        ["etag", "content-type", "cache-control", "x-amz-meta-who", "x-amz-meta-mtime", "x-amz-meta-kind"];
    let tags = client.ask("GET", key, &[("tagging", "")], "", b"").text();
    // The client keeps no more than 4 MiB.
    let end = if key == "film" { "Range: bytes=-2000000\r\n" } else { "" };
    let body = client.ask("GET", key, &[], end, b"").into_body();
    (names.map(|name| head.header(name)).into(), tags, Md5::of(&body))
}

fn manifest(dir: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dir.join(".siltstone-export/manifest.jsonl")).unwrap();
    text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_bucket_comes_back_from_a_directory_as_it_was() {
    let (from, to, files) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (source, target) = (start(from.path()), start(to.path()));
    let (mut old, mut new) = (Client::new(&source, "old"), Client::new(&target, "new"));
    fill(&mut old);
    old.put_parts("film", [&bytes(3, 6 << 20), &bytes(4, 700_000)]);
    let (dir, old_url, new_url) = (files.path().join("out"), old.url.clone(), new.url.clone());
    let dir_name = dir.to_str().unwrap();
    let args = ["s3://old", dir_name, "--server", &old_url];
    let output = command_of("export", &args).output().unwrap();
    let told = report(&output);
    assert_eq!((status(&output), counts(&told)), (0, [16, 0, 0, 0]), "{told}");
    assert_eq!(told["renamed_count"], 7, "{told}");
    for (number, (key, is_file)) in KEYS.iter().enumerate() {
        let read = fs::read(dir.join(decoded(key)));
        assert_eq!(read.is_ok_and(|read| read == bytes(number as u64, 1_000 + number)), *is_file, "{key}");
    }
    assert!(!files.path().join("passwd").exists());
    let modified = fs::metadata(dir.join("timed")).unwrap().modified().unwrap();
    assert_eq!(modified, UNIX_EPOCH + Duration::from_millis(1_500_000_000_250));
    assert_eq!(counts(&report(&command_of("export", &args).output().unwrap())), [0, 16, 0, 0]);

    let back = [dir_name, "new", "--server", &new_url];
    let output = command_of("import", &back).output().unwrap();
    assert_eq!((status(&output), counts(&report(&output))), (0, [16, 0, 0, 0]), "{}", report(&output));
    assert_eq!(new.history(), old.history());
    for key in KEYS.iter().map(|(key, _)| *key).filter(|key| !key.contains("..")).chain(["timed", "film"]) {
        assert_eq!(described(&mut new, key), described(&mut old, key), "{key}");
    }
    assert_eq!(counts(&report(&command_of("import", &back).output().unwrap())), [0, 16, 0, 0]);
    // A file that was changed after the export is not taken for the exported one.
    fs::write(dir.join("a-x"), b"other").unwrap();
    fs::write(dir.join("more"), b"a file of the user").unwrap();
    let told = report(&command_of("import", &back).output().unwrap());
    assert_eq!(counts(&told), [1, 15, 1, 0], "{told}");
    assert!(new.body("more") == b"a file of the user");
    let told = report(&command_of("export", &args).output().unwrap());
    assert_eq!(counts(&told), [1, 15, 0, 0], "the file is replaced: {told}");
}

#[test]
fn versions_and_markers_go_through_a_directory_in_order() {
    let (from, to, files) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (source, target) = (start(from.path()), start(to.path()));
    let (mut old, mut new) = (Client::new(&source, "old"), Client::new(&target, "new"));
    old.enable_versions();
    new.enable_versions();
    old.ask("PUT", "p/note", &[], "x-amz-meta-who: me\r\n", b"first");
    old.ask("DELETE", "p/note", &[], "", b"");
    old.ask("PUT", "p/note", &[], "", b"third");
    old.ask("PUT", "p/gone", &[], "", b"once");
    old.ask("DELETE", "p/gone", &[], "", b"");
    let (dir, old_url, new_url) = (files.path().to_str().unwrap(), old.url.clone(), new.url.clone());
    let args = ["s3://old/p", dir, "--server", &old_url, "--versions"];
    let told = report(&command_of("export", &args).output().unwrap());
    assert_eq!(counts(&told), [2, 0, 0, 0], "{told}");
    let lines = manifest(files.path());
    let markers: Vec<_> = lines.iter().filter(|line| line["delete_marker"] == true).collect();
    assert_eq!((lines.len(), markers.len()), (5, 2), "{lines:?}");
    assert!(fs::read(files.path().join("note")).unwrap() == b"third" && !files.path().join("gone").exists());
    let told = report(&command_of("import", &[dir, "new/p", "--server", &new_url]).output().unwrap());
    assert_eq!((counts(&told), new.history()), ([2, 0, 0, 0], old.history()), "{told}");
}

#[test]
fn versions_go_to_another_server_where_they_are_asked_for() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (source, target) = (start(from.path()), start(to.path()));
    let (mut old, mut new) = (Client::new(&source, "old"), Client::new(&target, "new"));
    let mut current = Client::new(&target, "current");
    old.enable_versions();
    new.enable_versions();
    fill(&mut old);
    old.ask("PUT", "a", &[], "", b"second");
    old.ask("DELETE", "a-x", &[], "", b"");
    old.put_parts("film", [&bytes(3, 6 << 20), &bytes(4, 700_000)]);
    let (old_url, new_url) = (old.url.clone(), new.url.clone());
    let args = ["s3://old", "s3://new", "--server", &old_url, "--endpoint", &new_url, "--versions"];
    let told = report(&command_of("export", &args).output().unwrap());
    assert_eq!((counts(&told), new.history()), ([16, 0, 0, 0], old.history()), "{told}");
    assert_eq!(described(&mut new, "film"), described(&mut old, "film"));
    let args = ["s3://old", "s3://current/", "--server", &old_url, "--endpoint", &new_url];
    let told = report(&command_of("export", &args).output().unwrap());
    assert_eq!((counts(&told), current.history().len()), ([15, 0, 0, 0], 15), "{told}");
}

#[test]
fn an_export_that_is_killed_goes_on_where_it_was() {
    let (from, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = start(from.path());
    let mut old = Client::new(&source, "old");
    let names: Vec<_> = (0..200).map(|number| format!("key-{number:03}")).collect();
    for (number, name) in names.iter().enumerate() {
        old.ask("PUT", name, &[], "", &bytes(number as u64, 2_000));
    }
    let url = old.url.clone();
    let args = ["s3://old", files.path().to_str().unwrap(), "--server", &url, "--parallel", "2"];
    let mut child = command_of("export", &args).stdout(Stdio::null()).spawn().unwrap();
    while !files.path().join("key-020").exists() {
        assert!(child.try_wait().unwrap().is_none() || files.path().join("key-020").exists());
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    let half = ["/nowhere", "old", "--server", &url];
    assert_eq!(status(&command_of("import", &half).output().unwrap()), 2);
    let args_back = [args[1], "old", "--server", &url];
    let output = command_of("import", &args_back).output().unwrap();
    assert!(status(&output) == 2 && stderr(&output).contains("not complete"), "{}", stderr(&output));
    let output = command_of("export", &args).output().unwrap();
    let [stored, present, failed, _] = counts(&report(&output));
    assert_eq!((status(&output), stored + present, failed), (0, 200, 0));
    assert!(stored > 0 && present >= 20, "{stored} and {present}");
    let written: BTreeSet<_> = fs::read_dir(files.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(written.len(), 201, "no file of another name is left");
    assert!(
        names.iter().enumerate().all(|(number, name)| {
            fs::read(files.path().join(name)).unwrap() == bytes(number as u64, 2_000)
        })
    );
    assert_eq!(fs::read_dir(files.path().join(".siltstone-export/incoming")).unwrap().count(), 0);
}

#[test]
fn an_upload_that_was_left_by_a_killed_run_is_removed() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (source, target) = (start(from.path()), start(to.path()));
    let (mut old, mut new) = (Client::new(&source, "old"), Client::new(&target, "new"));
    old.put_parts("film", [&bytes(3, 5 << 20), b"end"]);
    new.ask("POST", "film", &[("uploads", "")], "", b"");
    new.ask("POST", "film-of-others", &[("uploads", "")], "", b"");
    let (old_url, new_url) = (old.url.clone(), new.url.clone());
    let args = ["s3://old", "s3://new", "--server", &old_url, "--endpoint", &new_url];
    assert_eq!(counts(&report(&command_of("export", &args).output().unwrap())), [1, 0, 0, 0]);
    let uploads = new.ask("GET", "", &[("uploads", "")], "", b"").text();
    assert!(
        !uploads.contains("<Key>film</Key>") && uploads.contains("<Key>film-of-others</Key>"),
        "{uploads}"
    );
}

#[test]
fn a_source_without_tags_is_copied_and_named() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (source, target) = (start(from.path()), start(to.path()));
    let (mut old, mut new) = (Client::new(&source, "old"), Client::new(&target, "new"));
    old.ask("PUT", "a", &[], "x-amz-meta-who: me\r\nx-amz-tagging: a=b\r\n", b"a");
    let request = |head: String| match head.lines().next().is_some_and(|line| line.contains("tagging")) {
        true => {
            Verdict::Answer("HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        }
        false => Verdict::Forward(head),
    };
    let proxy = proxy::start(source.address().parse().unwrap(), Fault { request, ..Fault::default() });
    let (from_url, to_url) = (format!("http://{proxy}"), new.url.clone());
    let args = ["s3://old", "new", "--endpoint", &from_url, "--server", &to_url];
    let output = command_of("import", &args).output().unwrap();
    let told = report(&output);
    assert_eq!((status(&output), counts(&told)), (0, [1, 0, 0, 0]), "{told}");
    assert!(told["not_kept"].to_string().contains("tags"), "{told}");
    assert_eq!(new.ask("HEAD", "a", &[], "", b"").header("x-amz-meta-who").as_deref(), Some("me"));
    assert_eq!(counts(&report(&command_of("import", &args).output().unwrap())), [0, 1, 0, 0]);
}
