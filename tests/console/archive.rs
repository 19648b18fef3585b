//! Downloads of several objects as one archive.

use siltstone::s3::Method;

use super::harness::{Answer, Browser, Site};

/// The entries of an archive: name, kind, content. It must be whole.
fn entries(mut archive: &[u8]) -> Vec<(String, char, Vec<u8>)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().trim_end_matches('\0').to_owned();
    let mut found = Vec::new();
    let mut long_name = None;
    loop {
        let (header, rest) = archive.split_at(512);
        if header.iter().all(|byte| *byte == 0) {
            assert_eq!(rest, [0; 512], "two blocks of zeros and nothing after them");
            return found;
        }
        let mut blank = header.to_vec();
        blank[148..156].fill(b' ');
        let sum: u32 = blank.iter().map(|byte| u32::from(*byte)).sum();
        assert_eq!(u32::from_str_radix(&text(&header[148..154]), 8).unwrap(), sum);
        let size = usize::from_str_radix(&text(&header[124..136]), 8).unwrap();
        let (content, padded) = rest.split_at(size);
        archive = &padded[size.next_multiple_of(512) - size..];
        if header[156] == b'x' {
            let records = text(content);
            long_name =
                records.split_once(" path=").map(|(_, rest)| rest.split('\n').next().unwrap().to_owned());
            continue;
        }
        let name = long_name.take().unwrap_or_else(|| text(&header[..100]));
        found.push((name, char::from(header[156]), content.to_vec()));
    }
}

/// The entries of a zip archive by its central directory: name, whether it is a directory, content. It
/// must be whole, every content in its place with its checksum.
fn zip_entries(archive: &[u8]) -> Vec<(String, bool, Vec<u8>)> {
    let two = |at: usize| usize::from(u16::from_le_bytes(archive[at..at + 2].try_into().unwrap()));
    let four = |at: usize| u32::from_le_bytes(archive[at..at + 4].try_into().unwrap());
    let end = archive.len() - 22;
    assert_eq!(archive[end..end + 4], *b"PK\x05\x06");
    let mut at = four(end + 16) as usize;
    assert_eq!(at + four(end + 12) as usize, end);
    let mut found = Vec::new();
    let mut next_local = 0;
    for _ in 0..two(end + 10) {
        assert_eq!(archive[at..at + 4], *b"PK\x01\x02");
        let name = &archive[at + 46..at + 46 + two(at + 28)];
        let size = four(at + 24) as usize;
        let local = four(at + 42) as usize;
        assert_eq!(local, next_local);
        assert_eq!(archive[local..local + 4], *b"PK\x03\x04");
        assert_eq!((two(local + 6), two(local + 8)), (two(at + 8), 0), "the same flags, stored");
        assert_eq!(&archive[local + 30..local + 30 + two(local + 26)], name);
        let content_at = local + 30 + two(local + 26) + two(local + 28);
        let content = &archive[content_at..content_at + size];
        assert_eq!(crc32fast::hash(content), four(at + 16));
        next_local = content_at + size;
        if two(at + 8) & 8 != 0 {
            assert_eq!(archive[next_local..next_local + 4], *b"PK\x07\x08");
            assert_eq!((four(next_local + 4), four(next_local + 8)), (four(at + 16), size as u32));
            next_local += 16;
        }
        let is_directory = four(at + 38) & 0x10 != 0;
        found.push((String::from_utf8(name.to_vec()).unwrap(), is_directory, content.to_vec()));
        at += 46 + two(at + 28) + two(at + 30) + two(at + 32);
    }
    assert_eq!(at, end);
    found
}

/// Submits the form of the question.
fn confirm(browser: &mut Browser<'_>, page: &Answer) -> Answer {
    let (_, form) = page.text().split_once("data-download").unwrap();
    let fields: Vec<_> = form
        .split("type=\"hidden\" name=\"")
        .skip(1)
        .map(|field| {
            let mut parts = field.split('"');
            (parts.next().unwrap(), parts.nth(1).unwrap())
        })
        .collect();
    browser.post("archive", &fields)
}

#[test]
fn folders_and_objects_come_as_one_archive() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let long = "x".repeat(150);
    let large = vec![7; 300_000];
    for (key, content) in [
        ("at/dir/a.txt", &b"first"[..]),
        ("at/dir/empty", b""),
        ("at/dir/sub/", b""),
        (&*format!("at/dir/{long}"), b"long"),
        ("at/dir/ü b", &large),
        ("at/alone", b"alone"),
        ("at/other", b"other"),
        ("out", b"out"),
    ] {
        browser.put("b", key, &[], content);
    }
    let fields = [("bucket", "b"), ("at", "at%2F"), ("folder", "at%2Fdir%2F"), ("object", "at%2Falone")];
    let page = browser.post("archive", &fields);
    assert!(page.text().contains("Download 6 objects (293.0 KiB)"), "{}", page.text());
    let answer = confirm(&mut browser, &page);
    assert_eq!(answer.header("Content-Type"), Some("application/x-tar"));
    assert_eq!(answer.header("Content-Disposition"), Some("attachment; filename*=UTF-8''at.tar"));
    assert_eq!(
        entries(&answer.body),
        [
            ("alone".to_owned(), '0', b"alone".to_vec()),
            ("dir/a.txt".to_owned(), '0', b"first".to_vec()),
            ("dir/empty".to_owned(), '0', Vec::new()),
            ("dir/sub/".to_owned(), '5', Vec::new()),
            (format!("dir/{long}"), '0', b"long".to_vec()),
            ("dir/ü b".to_owned(), '0', large),
        ]
    );
    let page = browser.post("archive", &[("bucket", "b"), ("folder", "")]);
    assert!(page.text().contains("Download 8 objects"), "{}", page.text());
    let answer = confirm(&mut browser, &page);
    assert_eq!(answer.header("Content-Disposition"), Some("attachment; filename*=UTF-8''b.tar"));
    assert_eq!(entries(&answer.body).len(), 8);
}

#[test]
fn objects_under_keys_of_their_clients_are_named_and_left_out() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let encoded = |bytes: &[u8]| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes);
    let key = encoded(&[7; 32]);
    let md5 = encoded(&siltstone::base::digest::Md5::of(&[7; 32]));
    let customer = [
        ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
        ("x-amz-server-side-encryption-customer-key", &*key),
        ("x-amz-server-side-encryption-customer-key-md5", &*md5),
    ];
    browser.put("b", "at/closed", &customer, b"closed");
    browser.put("b", "at/kept", &[("x-amz-server-side-encryption", "aws:kms")], b"kept");
    browser.put("b", "alone", &customer, b"alone");
    let fields = [("bucket", "b"), ("folder", "at%2F"), ("object", "alone")];
    let page = browser.post("archive", &fields);
    let text = page.text();
    assert!(
        text.contains("Download 1 object") && text.contains("at/closed") && text.contains("alone"),
        "{text}"
    );
    let answer = confirm(&mut browser, &page);
    assert_eq!(entries(&answer.body), [("at/kept".to_owned(), '0', b"kept".to_vec())]);
}

#[test]
fn a_zip_archive_has_the_same_objects_under_names_that_windows_takes() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let large = vec![7; 300_000];
    for (key, content) in [
        ("at/a: b?.txt", &b"first"[..]),
        ("at/empty", b""),
        ("at/sub/", b""),
        ("at/ü b", &large),
        ("at/../up", b"up"),
        ("at/nul.txt", b"device"),
    ] {
        browser.put("b", key, &[], content);
    }
    let asked =
        [("bucket", "b"), ("at", "at%2F"), ("folder", "at%2F"), ("confirmed", "1"), ("format", "zip")];
    let answer = browser.post("archive", &asked);
    assert_eq!(answer.header("Content-Type"), Some("application/zip"));
    assert_eq!(answer.header("Content-Disposition"), Some("attachment; filename*=UTF-8''at.zip"));
    assert_eq!(
        zip_entries(&answer.body),
        [
            ("__/up".to_owned(), false, b"up".to_vec()),
            ("a_ b_.txt".to_owned(), false, b"first".to_vec()),
            ("empty".to_owned(), false, Vec::new()),
            ("_nul.txt".to_owned(), false, b"device".to_vec()),
            ("sub/".to_owned(), true, Vec::new()),
            ("ü b".to_owned(), false, large),
        ]
    );
    let other = [("bucket", "b"), ("folder", ""), ("confirmed", "1"), ("format", "rar")];
    assert_eq!(browser.post("archive", &other).status, 400);
}

#[test]
fn names_in_an_archive_stay_below_its_directory() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    for key in ["../evil", "/etc/cron.d/x", "a/../../b", "a\\..\\c", "d", "d/e", "tab\there", "<script>"] {
        browser.put("b", key, &[], b"x");
    }
    let page = browser.post("archive", &[("bucket", "b"), ("folder", "")]);
    let names: Vec<_> =
        entries(&confirm(&mut browser, &page).body).into_iter().map(|(name, _, _)| name).collect();
    let expected = ["__/evil", "etc/cron.d/x", "<script>", "a/__/__/b", "a_.._c", "d~2", "d/e", "tab_here"];
    assert_eq!(names, expected);
}

#[test]
fn unreadable_objects_are_named_before_and_left_out() {
    use crate::support::users::{allow, user};

    let site = Site::new();
    site.replace_users(
        &(user("owner", &["*"], &["*"])
            + &user("some", &["ListBucket"], &["b"])
            + &allow(&["GetObject"], &["b/open/*"])),
    );
    let mut owner = site.signed_in("owner");
    for key in ["open/a", "secret/<b>", "secret/c"] {
        owner.put("b", key, &[], b"content");
    }
    let mut some = site.signed_in("some");
    let page = some.post("archive", &[("bucket", "b"), ("folder", ""), ("object", "secret%2Fc")]);
    assert!(page.text().contains("Download 1 object (7 B)"), "{}", page.text());
    assert!(page.text().contains("<li>secret/&#60;b&#62;</li>") && page.text().contains("<li>secret/c</li>"));
    let names: Vec<_> = entries(&confirm(&mut some, &page).body).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["open/a"]);
    let page = some.post("archive", &[("bucket", "b"), ("folder", "secret%2F")]);
    assert!(page.text().contains("There is nothing to download."));
    let asked = [("bucket", "b"), ("folder", "secret%2F"), ("confirmed", "1")];
    assert_eq!(some.post("archive", &asked).status, 404);
    site.server.store.create_bucket("other", "owner").unwrap();
    assert_eq!(some.post("archive", &[("bucket", "other"), ("folder", "")]).status, 403);
    let forged = owner.post_with("archive", &asked, &[("sec-fetch-site", "cross-site")]);
    assert_eq!(forged.status, 403);
}

#[test]
fn a_change_in_the_middle_cuts_the_archive() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let all = [("bucket", "b"), ("folder", ""), ("confirmed", "1")];
    let fill = |browser: &mut Browser<'_>| {
        for key in ["1", "2", "3"] {
            browser.put("b", key, &[], key.as_bytes());
        }
    };
    fill(&mut browser);
    let changes: [fn(&Site); 4] = [
        |site| site.signed_in("owner").put("b", "2", &[], b"x"),
        |site| site.signed_in("owner").put("b", "2", &[], b"longer"),
        |site| drop(site.signed_in("owner").s3(Method::Delete, "bucket=b&key=2", &[], b"")),
        |site| site.replace_users(&Site::users("rotated-secret-key")),
    ];
    for change in changes {
        fill(&mut browser);
        let (length, mut source) = browser.stream("archive", &all);
        let mut first = [0; 1024];
        assert_eq!(source.read(&mut first[..512]).unwrap(), 512);
        change(&site);
        let mut read = 512;
        let cut = loop {
            match source.read(&mut first) {
                Ok(0) => break false,
                Ok(more) => read += more as u64,
                Err(_) => break true,
            }
        };
        assert!(cut && read < length, "{read} of {length}");
    }
}

#[test]
fn the_length_of_an_archive_is_announced() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    for n in 0..300 {
        browser.put("b", &format!("{n:0>3}/{}", "n".repeat(n)), &[], &vec![1; n * 7]);
    }
    for format in ["tar", "zip"] {
        let all = [("bucket", "b"), ("folder", ""), ("confirmed", "1"), ("format", format)];
        let (length, mut source) = browser.stream("archive", &all);
        let mut read = 0;
        let mut piece = [0; 1000];
        loop {
            match source.read(&mut piece).unwrap() {
                0 => break,
                more => read += more as u64,
            }
        }
        assert_eq!(read, length, "{format}");
        assert_eq!(source.read(&mut piece).unwrap(), 0, "the end stays the end");
    }
}
