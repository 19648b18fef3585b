//! The forms before 2020: xl.json, and plain files of FS mode.

use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use ring::digest::{SHA256, digest};
use siltstone::base::digest::{Md5, to_hex};

use super::super::bytes;
use super::super::import::counts;
use super::writer::{DEPLOYMENT, MinioDrives, highway_hash, shards};
use super::{imported, long_body, names, served};

/// BLAKE2b-512 of 64 bytes `a` as another implementation computes it.
const BLAKE2B_OF_64_A: &str = "29119322fbf7552c76c608d4d61bd648175dfc856f714992a950da978d5609bac2ce1dea8e12d06b1dba888c897ba37f905386620e08ec992b2ae7ffb68fd7ea";

/// Writes a key in the form of xl.json.
fn put_xl_json(drives: &MinioDrives, key: &str, parts: &[Vec<u8>], algorithm: &str) {
    let path = format!("photos/{key}");
    let distribution = drives.distribution(&path);
    for at in 0..drives.paths.len() {
        let mut sums = Vec::new();
        let mut listed = Vec::new();
        for (number, part) in (1..).zip(parts) {
            let mut file = Vec::new();
            for block in part.chunks(drives.block_bytes as usize) {
                file.extend(&shards(block, drives.data, drives.parity)[distribution[at] - 1]);
            }
            let hash = match algorithm {
                "sha256" => to_hex(digest(&SHA256, &file).as_ref()),
                "highwayhash256" => to_hex(&highway_hash(&file)),
                "blake2b" => BLAKE2B_OF_64_A.to_owned(),
                _ => {
                    file = drives.shard_file(part, distribution[at]);
                    String::new()
                }
            };
            sums.push(format!(r#"{{"name":"part.{number}","algorithm":"{algorithm}","hash":"{hash}"}}"#));
            let size = part.len();
            listed.push(format!(
                r#"{{"number":{number},"name":"part.{number}","etag":"","size":{size},"actualSize":{size}}}"#
            ));
            drives.write(at, &format!("{path}/part.{number}"), &file);
        }
        let size: usize = parts.iter().map(Vec::len).sum();
        let etag = to_hex(&Md5::of(&parts.concat()));
        let (data, parity, block, index) = (drives.data, drives.parity, drives.block_bytes, distribution[at]);
        let text = format!(
            r#"{{"version":"1.0.1","format":"xl","stat":{{"size":{size},"modTime":"2018-03-04T05:06:07.123456789Z"}},
            "erasure":{{"algorithm":"klauspost/reedsolomon/vandermonde","data":{data},"parity":{parity},"blockSize":{block},
            "index":{index},"distribution":{distribution:?},"checksum":[{}]}},"minio":{{"release":"2018"}},
            "meta":{{"md5Sum":"{etag}","content-type":"image/png","X-Amz-Meta-Who":"me"}},"parts":[{}]}}"#,
            sums.join(","),
            listed.join(",")
        );
        drives.write(at, &format!("{path}/xl.json"), text.as_bytes());
    }
}

#[test]
fn xl_json_is_read_with_every_kind_of_checksum() {
    let drives = MinioDrives { block_bytes: 10 << 20, ..MinioDrives::new(2, 2) };
    let body = bytes(1, 300_001);
    for algorithm in ["sha256", "highwayhash256", "highwayhash256S"] {
        put_xl_json(&drives, algorithm, std::slice::from_ref(&body), algorithm);
    }
    // All four shards of 128 bytes `a` are 64 of them.
    put_xl_json(&drives, "blake2b", &[vec![b'a'; 128]], "blake2b");
    put_xl_json(&drives, "rotten", std::slice::from_ref(&body), "sha256");
    let rotten = drives.paths[1].join("photos/rotten/part.1");
    drives.change(&rotten, |bytes| bytes[77] ^= 1);
    let data = tempfile::tempdir().unwrap();
    let (status, report) = imported(&drives, data.path(), &[]);
    assert_eq!((status, counts(&report)), (1, [5, 0, 0, 0]), "{report}");
    assert_eq!(names(&report, "damage"), [format!("{}: its hash does not match", rotten.display())]);
    let (_server, mut client) = served(&data, "photos");
    for key in ["sha256", "highwayhash256", "highwayhash256S", "rotten"] {
        assert!(client.body(key) == body, "{key}");
    }
    assert_eq!(client.body("blake2b"), vec![b'a'; 128]);
    let head = client.ask("HEAD", "rotten", &[], "", b"");
    assert_eq!(head.header("x-amz-meta-who").as_deref(), Some("me"));
    assert_eq!(head.header("last-modified").as_deref(), Some("Sun, 04 Mar 2018 05:06:07 GMT"));
}

#[test]
fn plain_files_are_imported_with_their_metadata() {
    let drives = MinioDrives::new(1, 0);
    drives.write(
        0,
        ".minio.sys/format.json",
        format!(r#"{{"version":"1","format":"fs","id":"{DEPLOYMENT}","fs":{{"version":"2"}}}}"#).as_bytes(),
    );
    let parts = [bytes(1, 5 << 20), bytes(2, 100)];
    let digests: Vec<u8> = parts.iter().flat_map(|part| Md5::of(part)).collect();
    let etag = format!("{}-2", to_hex(&Md5::of(&digests)));
    drives.write(0, "photos/2018/cat.png", b"a cat");
    drives.write(0, "photos/2018/film", &parts.concat());
    drives.write(0, "photos/bare.html", b"<p>");
    drives.write(0, "photos/torn", b"x");
    let json = |key: &str, meta: &str, parts: &str| {
        let text = format!(
            r#"{{"version":"1.0.2","format":"fs","minio":{{"release":"2021"}},"meta":{{{meta}}},"parts":[{parts}]}}"#
        );
        drives.write(0, &format!(".minio.sys/buckets/photos/{key}/fs.json"), text.as_bytes());
    };
    let cat = to_hex(&Md5::of(b"a cat"));
    json("2018/cat.png", &format!(r#""etag":"{cat}","content-type":"image/png","X-Amz-Meta-Who":"me""#), "");
    let sizes = format!(
        r#"{{"number":1,"size":{0},"actualSize":{0}}},{{"number":2,"size":100,"actualSize":100}}"#,
        5 << 20
    );
    json("2018/film", &format!(r#""etag":"{etag}""#), &sizes);
    // Of a key that was deleted.
    json("2018/gone", r#""etag":"00000000000000000000000000000000""#, "");
    drives.write(0, ".minio.sys/buckets/photos/torn/fs.json", b"{\"version\":");
    let time = UNIX_EPOCH + Duration::from_millis(1_520_000_000_250);
    fs::File::open(drives.paths[0].join("photos/2018/cat.png")).unwrap().set_modified(time).unwrap();
    let data = tempfile::tempdir().unwrap();
    let (status, report) = imported(&drives, data.path(), &[]);
    assert_eq!((status, counts(&report)), (1, [4, 0, 0, 0]), "{report}");
    assert_eq!(names(&report, "unproven").len(), 2, "{report}");
    assert!(names(&report, "damage")[0].contains("torn/fs.json: EOF"), "{report}");
    let (again, second) = imported(&drives, data.path(), &[]);
    assert_eq!((again, counts(&second)), (1, [0, 4, 0, 0]), "{second}");
    let (_server, mut client) = served(&data, "photos");
    assert_eq!(client.body("2018/cat.png"), b"a cat");
    assert!(long_body(&mut client, "2018/film", (5 << 20) + 100) == parts.concat());
    let head = client.ask("HEAD", "2018/cat.png", &[], "", b"");
    assert_eq!(head.header("x-amz-meta-who").as_deref(), Some("me"));
    assert_eq!(head.header("last-modified").as_deref(), Some("Fri, 02 Mar 2018 14:13:20 GMT"));
    assert_eq!(client.ask("HEAD", "2018/film", &[], "", b"").header("etag"), Some(format!("\"{etag}\"")));
    let bare = client.ask("HEAD", "bare.html", &[], "", b"");
    assert_eq!(bare.header("content-type").as_deref(), Some("text/html"));
}
