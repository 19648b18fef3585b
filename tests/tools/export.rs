//! `export` from a server, into directories and into another server, and `import` of what was
//! exported.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::Value;
use siltstone::base::digest::Md5;

use super::import::{Client, command_of, counts, report, start};
use super::{bytes, status, stderr};
use crate::support::proxy::{self, Fault, Verdict, with_head, without};

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
    let mut lines: Vec<Value> =
        text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let end = lines.pop().unwrap();
    assert_eq!(end["end_of_versions"], lines.len());
    lines
}

#[test]
fn a_bucket_comes_back_from_a_directory_as_it_was() {
    let from = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let source = start(from.path());
    let target = start(to.path());
    let mut old = Client::new(&source, "old");
    let mut new = Client::new(&target, "new");
    fill(&mut old);
    old.put_parts("film", [&bytes(3, 6 << 20), &bytes(4, 700_000)]);
    let dir = files.path().join("out");
    let old_url = old.url.clone();
    let new_url = new.url.clone();
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
    let from = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let source = start(from.path());
    let target = start(to.path());
    let mut old = Client::new(&source, "old");
    let mut new = Client::new(&target, "new");
    old.enable_versions();
    new.enable_versions();
    old.ask("PUT", "p/note", &[], "x-amz-meta-who: me\r\n", b"first");
    old.ask("DELETE", "p/note", &[], "", b"");
    old.ask("PUT", "p/note", &[], "", b"third");
    old.ask("PUT", "p/gone", &[], "", b"once");
    old.ask("DELETE", "p/gone", &[], "", b"");
    let dir = files.path().to_str().unwrap();
    let old_url = old.url.clone();
    let new_url = new.url.clone();
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
    let from = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    let source = start(from.path());
    let target = start(to.path());
    let mut old = Client::new(&source, "old");
    let mut new = Client::new(&target, "new");
    let mut current = Client::new(&target, "current");
    old.enable_versions();
    new.enable_versions();
    fill(&mut old);
    old.ask("PUT", "a", &[], "", b"second");
    old.ask("DELETE", "a-x", &[], "", b"");
    old.put_parts("film", [&bytes(3, 6 << 20), &bytes(4, 700_000)]);
    let old_url = old.url.clone();
    let new_url = new.url.clone();
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
    let from = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
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
    let from = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    let source = start(from.path());
    let target = start(to.path());
    let mut old = Client::new(&source, "old");
    let mut new = Client::new(&target, "new");
    old.put_parts("film", [&bytes(3, 5 << 20), b"end"]);
    new.ask("POST", "film", &[("uploads", "")], "", b"");
    new.ask("POST", "film-of-others", &[("uploads", "")], "", b"");
    let old_url = old.url.clone();
    let new_url = new.url.clone();
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
    let from = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    let source = start(from.path());
    let target = start(to.path());
    let mut old = Client::new(&source, "old");
    let mut new = Client::new(&target, "new");
    old.ask("PUT", "a", &[], "x-amz-meta-who: me\r\nx-amz-tagging: a=b\r\n", b"a");
    let request = |head: String| match head.lines().next().is_some_and(|line| line.contains("tagging")) {
        true => {
            Verdict::Answer("HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        }
        false => Verdict::Forward(head),
    };
    let proxy = proxy::start(source.address().parse().unwrap(), Fault { request, ..Fault::default() });
    let from_url = format!("http://{proxy}");
    let to_url = new.url.clone();
    let args = ["s3://old", "new", "--endpoint", &from_url, "--server", &to_url];
    let output = command_of("import", &args).output().unwrap();
    let told = report(&output);
    assert_eq!((status(&output), counts(&told)), (0, [1, 0, 0, 0]), "{told}");
    assert!(told["not_kept"].to_string().contains("tags"), "{told}");
    assert_eq!(new.ask("HEAD", "a", &[], "", b"").header("x-amz-meta-who").as_deref(), Some("me"));
    assert_eq!(counts(&report(&command_of("import", &args).output().unwrap())), [0, 1, 0, 0]);
}

/// An answer with this body and no other headers.
fn answered(body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

fn body_of(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
}

fn is_listing(head: &str) -> bool {
    head.starts_with("GET /old?") && head.contains("list-type=2")
}

/// Changes one byte of the first body of an object that passes.
fn change_once(head: &str, mut answer: Vec<u8>) -> Vec<u8> {
    static CHANGED: AtomicU64 = AtomicU64::new(0);
    let is_object = head.starts_with("GET /old/film HTTP") || head.starts_with("GET /old/film?versionId");
    if is_object && CHANGED.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
        *answer.last_mut().unwrap() ^= 1;
    }
    answer
}

#[test]
fn a_byte_that_changes_on_the_way_replaces_no_good_copy() {
    for versioned in [false, true] {
        let from = tempfile::tempdir().unwrap();
        let to = tempfile::tempdir().unwrap();
        let source = start(from.path());
        let target = start(to.path());
        let mut old = Client::new(&source, "old");
        let mut new = Client::new(&target, "new");
        if versioned {
            old.enable_versions();
            new.enable_versions();
        } else {
            new.ask("PUT", "film", &[], "", b"the good copy of before");
        }
        old.ask("PUT", "film", &[], "", b"the film");
        let fault = Fault { answer: change_once, ..Fault::default() };
        let proxy = proxy::start(source.address().parse().unwrap(), fault);
        let from_url = format!("http://{proxy}");
        let to_url = new.url.clone();
        let args = ["s3://old", "new", "--endpoint", &from_url, "--server", &to_url];
        let output = command_of("import", &args).output().unwrap();
        assert_eq!(counts(&report(&output)), [1, 0, 0, 0], "{}", report(&output));
        assert_eq!(new.body("film"), b"the film");
        assert_eq!(new.history(), old.history());
        let again = command_of("import", &args).output().unwrap();
        assert_eq!(counts(&report(&again)), [0, 1, 0, 0], "{}", report(&again));
    }
}

/// Changes a byte of each body of an object that passes.
fn change_always(head: &str, mut answer: Vec<u8>) -> Vec<u8> {
    if head.starts_with("GET /old/film HTTP") {
        *answer.last_mut().unwrap() ^= 1;
    }
    answer
}

#[test]
fn bytes_that_are_never_those_of_the_source_are_a_failure_and_replace_nothing() {
    let from = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    let source = start(from.path());
    let target = start(to.path());
    let mut old = Client::new(&source, "old");
    let mut new = Client::new(&target, "new");
    let fault = Fault { answer: change_always, ..Fault::default() };
    let proxy = proxy::start(source.address().parse().unwrap(), fault);
    let from_url = format!("http://{proxy}");
    let to_url = new.url.clone();
    let args = ["s3://old", "new", "--endpoint", &from_url, "--server", &to_url];
    new.ask("PUT", "film", &[], "", b"the good copy of before");
    old.ask("PUT", "film", &[], "", b"the film");
    let output = command_of("import", &args).output().unwrap();
    assert_eq!((status(&output), counts(&report(&output))), (1, [0, 0, 1, 0]), "{}", report(&output));
    assert_eq!(new.body("film"), b"the good copy of before");
    // In parts, too, which are compared before they are put together.
    old.put_parts("film", [&vec![1; 5 << 20], b"end"]);
    let output = command_of("import", &args).output().unwrap();
    assert_eq!((status(&output), counts(&report(&output))), (1, [0, 0, 1, 0]), "{}", report(&output));
    assert_eq!(new.body("film"), b"the good copy of before");
    let uploads = new.ask("GET", "", &[("uploads", "")], "", b"").text();
    assert!(!uploads.contains("<Upload>"), "{uploads}");
}

/// A server that answers the length of the whole object where that of a part is asked for.
fn hide_parts(head: &str, answer: Vec<u8>) -> Vec<u8> {
    match head.contains("partNumber=") {
        true => with_head(&answer, |head| {
            let others = without(head, "content-length");
            others.replacen("\r\n", "\r\nContent-Length: 5242883\r\n", 1)
        }),
        false => answer,
    }
}

#[test]
fn an_object_whose_parts_the_source_does_not_tell_is_copied_once() {
    for versioned in [false, true] {
        let from = tempfile::tempdir().unwrap();
        let to = tempfile::tempdir().unwrap();
        let source = start(from.path());
        let target = start(to.path());
        let mut old = Client::new(&source, "old");
        let mut new = Client::new(&target, "new");
        if versioned {
            old.enable_versions();
            new.enable_versions();
        }
        let etag = old.put_parts("film", [&vec![1; 5 << 20], b"end"]);
        let proxy =
            proxy::start(source.address().parse().unwrap(), Fault { answer: hide_parts, ..Fault::default() });
        let from_url = format!("http://{proxy}");
        let to_url = new.url.clone();
        let args = ["s3://old", "new", "--endpoint", &from_url, "--server", &to_url];
        let told = report(&command_of("import", &args).output().unwrap());
        assert_eq!(counts(&told), [1, 0, 0, 0], "{told}");
        assert!(told["not_kept"].to_string().contains("ETag"), "{told}");
        let head = new.ask("HEAD", "film", &[], "", b"");
        assert_eq!(head.header("x-amz-meta-siltstone-source-etag").unwrap(), etag.trim_matches('"'));
        let told = report(&command_of("import", &args).output().unwrap());
        assert_eq!(counts(&told), [0, 1, 0, 0], "{told}");
        // Another object of the same length is noticed.
        if !versioned {
            old.put_parts("film", [&vec![2; 5 << 20], b"end"]);
            let told = report(&command_of("import", &args).output().unwrap());
            assert_eq!(counts(&told), [1, 0, 0, 0], "{told}");
        }
    }
}

/// A listing that names a key which XML cannot carry, without encoding names.
fn add_odd_key(head: &str, answer: Vec<u8>) -> Vec<u8> {
    if !is_listing(head) {
        return answer;
    }
    let body = body_of(&answer).replace("<EncodingType>url</EncodingType>", "");
    let odd = ["one\u{1}key", "other&#x1f;key"]
        .map(|key| format!("<Contents><Key>{key}</Key><Size>3</Size><ETag>e</ETag></Contents>"));
    answered(&body.replace("</ListBucketResult>", &format!("{}</ListBucketResult>", odd.concat())))
}

#[test]
fn a_key_that_a_listing_cannot_tell_is_a_failure_of_its_own() {
    let from = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    let source = start(from.path());
    let target = start(to.path());
    let mut old = Client::new(&source, "old");
    let mut new = Client::new(&target, "new");
    old.ask("PUT", "a", &[], "", b"a");
    old.ask("PUT", "z", &[], "", b"z");
    let proxy =
        proxy::start(source.address().parse().unwrap(), Fault { answer: add_odd_key, ..Fault::default() });
    let from_url = format!("http://{proxy}");
    let to_url = new.url.clone();
    let args = ["s3://old", "new", "--endpoint", &from_url, "--server", &to_url];
    let output = command_of("import", &args).output().unwrap();
    let told = report(&output);
    assert_eq!((status(&output), counts(&told)), (1, [2, 0, 2, 0]), "{told}");
    let failures = told["failures"].to_string();
    assert!(failures.contains("one\\u0001key") && failures.contains("other\\u001fkey"), "{failures}");
    assert_eq!((new.body("a"), new.body("z")), (b"a".to_vec(), b"z".to_vec()));
}

/// A page after which another one follows at that place.
fn page_before(place: &str) -> Vec<u8> {
    answered(&format!(
        "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>{place}</NextContinuationToken>\
         <Contents><Key>a</Key><Size>1</Size></Contents></ListBucketResult>"
    ))
}

/// Every page says that another one follows it, at the same place.
fn repeat_pages(head: &str, answer: Vec<u8>) -> Vec<u8> {
    if is_listing(head) { page_before("once-more") } else { answer }
}

/// Every page is the same, and names a place that no page named before.
fn repeat_keys(head: &str, answer: Vec<u8>) -> Vec<u8> {
    static PAGE: AtomicU64 = AtomicU64::new(0);
    let place = format!("once-more-{}", PAGE.fetch_add(1, Ordering::Relaxed));
    if is_listing(head) { page_before(&place) } else { answer }
}

#[test]
fn a_listing_whose_pages_repeat_ends_with_an_error_that_names_the_place() {
    for answer in [repeat_pages as fn(&str, Vec<u8>) -> Vec<u8>, repeat_keys] {
        let from = tempfile::tempdir().unwrap();
        let to = tempfile::tempdir().unwrap();
        let source = start(from.path());
        let target = start(to.path());
        let mut old = Client::new(&source, "old");
        let new = Client::new(&target, "new");
        old.ask("PUT", "a", &[], "", b"a");
        let proxy = proxy::start(source.address().parse().unwrap(), Fault { answer, ..Fault::default() });
        let from_url = format!("http://{proxy}");
        let to_url = new.url.clone();
        let args = ["s3://old", "new", "--endpoint", &from_url, "--server", &to_url];
        let output = command_of("import", &args).output().unwrap();
        let told = report(&output);
        assert_eq!(status(&output), 1, "{told}");
        assert!(told["unfinished"].to_string().contains("once-more"), "{told}");
    }
}

#[test]
fn metadata_beyond_ascii_are_the_same_in_a_copy() {
    let from = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    let source = start(from.path());
    let target = start(to.path());
    let mut old = Client::new(&source, "old");
    let mut new = Client::new(&target, "new");
    let lines = "x-amz-meta-who: M\u{fc}ller  und \u{65e5}\u{672c}\r\nx-amz-meta-word: =?UTF-8?B?w7w=?=\r\n\
        Content-Disposition: attachment; filename=\"\u{fc}.txt\"\r\nx-amz-meta-plain: =?UTF-8?Q?a?=\r\n";
    old.ask("PUT", "a", &[], lines, b"a");
    let from_url = old.url.clone();
    let to_url = new.url.clone();
    let args = ["s3://old", "new", "--endpoint", &from_url, "--server", &to_url];
    let told = report(&command_of("import", &args).output().unwrap());
    assert_eq!(counts(&told), [1, 0, 0, 0], "{told}");
    let names = ["x-amz-meta-who", "x-amz-meta-word", "content-disposition", "x-amz-meta-plain"];
    let kept = |client: &mut Client| {
        let head = client.ask("HEAD", "a", &[], "", b"");
        names.map(|name| head.header(name).unwrap())
    };
    let of_copy = kept(&mut new);
    assert_eq!(of_copy, kept(&mut old));
    assert!(of_copy[0].starts_with("=?UTF-8?B?") && of_copy[3] == "=?UTF-8?Q?a?=", "{of_copy:?}");
    assert_eq!(counts(&report(&command_of("import", &args).output().unwrap())), [0, 1, 0, 0]);
    // Through a directory, too.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let out = ["s3://old", path, "--server", &from_url];
    assert_eq!(status(&command_of("export", &out).output().unwrap()), 0);
    new.ask("DELETE", "a", &[], "", b"");
    let back = [path, "new", "--server", &to_url];
    assert_eq!(counts(&report(&command_of("import", &back).output().unwrap())), [1, 0, 0, 0]);
    assert_eq!(kept(&mut new), kept(&mut old));
}

#[test]
fn metadata_with_spaces_in_a_row_are_copied() {
    let from = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    let source = start(from.path());
    let target = start(to.path());
    let mut old = Client::new(&source, "old");
    let mut new = Client::new(&target, "new");
    old.ask("PUT", "a", &[], "x-amz-meta-who: me  and \t you\r\n", b"a");
    let from_url = old.url.clone();
    let to_url = new.url.clone();
    let args = ["s3://old", "new", "--endpoint", &from_url, "--server", &to_url];
    let told = report(&command_of("import", &args).output().unwrap());
    assert_eq!(counts(&told), [1, 0, 0, 0], "{told}");
    let kept = |client: &mut Client| client.ask("HEAD", "a", &[], "", b"").header("x-amz-meta-who");
    assert_eq!(kept(&mut new), kept(&mut old));
    assert_eq!(counts(&report(&command_of("import", &args).output().unwrap())), [0, 1, 0, 0]);
}

#[test]
fn no_link_leads_an_export_or_an_import_out_of_its_directory() {
    let store = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let server = start(store.path());
    let mut old = Client::new(&server, "old");
    let mut new = Client::new(&server, "new");
    for key in ["plain", "linked", "sub/within", "away/one"] {
        old.ask("PUT", key, &[], "", key.as_bytes());
    }
    let dir = files.path().join("out");
    let outside = files.path().join("outside");
    fs::create_dir_all(dir.join("real")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    symlink("real", dir.join("sub")).unwrap();
    symlink(&outside, dir.join("away")).unwrap();
    symlink(outside.join("secret"), dir.join("linked")).unwrap();
    let url = old.url.clone();
    let dir_name = dir.to_str().unwrap();
    let out = command_of("export", &["s3://old", dir_name, "--server", &url]).output().unwrap();
    let told = report(&out);
    assert_eq!((status(&out), counts(&told)), (1, [3, 0, 1, 0]), "{told}");
    assert!(told["failures"][0]["why"].as_str().unwrap().contains("leads out of the directory"), "{told}");
    assert_eq!(fs::read(outside.join("secret")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(fs::read(dir.join("linked")).unwrap(), b"linked");
    assert_eq!(fs::read(dir.join("real/within")).unwrap(), b"sub/within");

    // Somebody who may write in the directory puts links in the place of files.
    for name in ["plain", "linked"] {
        fs::remove_file(dir.join(name)).unwrap();
    }
    fs::write(outside.join("plain"), "plain").unwrap();
    symlink(outside.join("plain"), dir.join("plain")).unwrap();
    symlink("../outside/secret", dir.join("linked")).unwrap();
    fs::create_dir_all(dir.join("nothing/in")).unwrap();
    let back = [dir_name, "new", "--server", &url];
    let out = command_of("import", &back).output().unwrap();
    let told = report(&out);
    assert_eq!(status(&out), 1, "{told}");
    assert!(told["failures"].to_string().contains("leads out of the directory"), "{told}");
    let keys: BTreeSet<_> = new.history().into_iter().map(|line| format!("{line:?}")).collect();
    assert!(keys.iter().all(|line| !line.contains("plain") && !line.contains("linked")), "{keys:?}");
    assert!(new.body("sub/within") == b"sub/within");
    assert_eq!(told["empty_directories_count"], 1, "{told}");
    assert!(told["empty_directories"][0].as_str().unwrap().ends_with("nothing/in"), "{told}");

    // A manifest that lost its end is none.
    let path = dir.join(".siltstone-export/manifest.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let cut = text.trim_end().rfind('\n').unwrap() + 1;
    fs::write(&path, &text[..cut]).unwrap();
    let out = command_of("import", &back).output().unwrap();
    assert!(status(&out) == 2 && stderr(&out).contains("last line is missing"), "{}", stderr(&out));
    fs::write(&path, text.replacen("\"siltstone_export\":2", "\"siltstone_export\":1", 1)).unwrap();
    assert!(status(&command_of("import", &back).output().unwrap()) != 0);
    fs::write(&path, text[..cut].replacen("\"siltstone_export\":2", "\"siltstone_export\":1", 1)).unwrap();
    let told = report(&command_of("import", &back).output().unwrap());
    assert!(told["unfinished"].is_null(), "{told}");
}
