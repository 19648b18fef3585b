//! Checks of requests: what a proxy between client and server may do to them.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use siltstone::client::encoded;
use siltstone::xml::Document;

use super::finding::Finding;
use super::session::{Ask, Session};
use super::wire::Reply;

/// The wait for an answer that has to come at once.
const AT_ONCE: Duration = Duration::from_secs(3);
/// A body above the limit of common proxies, such as 1 MiB (nginx, `client_max_body_size`).
const LARGE_BYTES: usize = 8 << 20;
/// Names that proxies like to change: each segment tests one change.
const NAMES: [&str; 9] =
    ["a b+c", "\u{fc}", "UPPER", "x//y", "x/./y", "x/u/../y", "p%2Fq", "a;b:c@&=$,!'()*", "end/"];

/// The check and its result.
type Checked = io::Result<Option<Finding>>;

/// A check of the requests below a key.
pub(super) type Check = (&'static str, fn(&Session, &str) -> Checked);

/// The checks, each below a key of its own.
pub(super) const CHECKS: [Check; 13] = [
    ("body-changed", body_changed),
    ("compression", compression),
    ("headers-dropped", headers_dropped),
    ("etag-weakened", etag_weakened),
    ("length-dropped", length_dropped),
    ("body-limit", body_limit),
    ("path-changed", path_changed),
    ("expect-continue", expect_continue),
    ("buffering", buffering),
    ("aws-chunked", aws_chunked),
    ("transfer-chunked", transfer_chunked),
    ("range", range),
    ("conditions", conditions),
];

/// A text that compresses well.
fn sample() -> Vec<u8> {
    "the quick brown fox jumps over the lazy dog\r\n".repeat(1_000).into_bytes()
}

fn put(session: &Session, key: &str, body: &[u8]) -> io::Result<Reply> {
    let headers = [
        ("content-type", "text/plain"),
        ("content-language", "en"),
        ("cache-control", "max-age=60"),
        ("x-amz-meta-doctor", "a, b"),
    ];
    session.ask(Ask { method: "PUT", key, body, headers: &headers, ..Ask::default() })
}

fn get(session: &Session, key: &str, headers: &[(&str, &str)]) -> io::Result<Reply> {
    session.ask(Ask { key, headers, ..Ask::default() })
}

fn refused(check: &'static str, what: &str, reply: &Reply) -> Finding {
    let what = format!("{what} is answered with {}", reply.refusal());
    Finding::error(check, what, "let the proxy pass methods, paths, headers and bodies of requests unchanged")
}

fn body_changed(session: &Session, key: &str) -> Checked {
    let stored = put(session, key, &sample())?;
    if !stored.is_good() {
        return Ok(Some(refused("body-changed", "PUT of 44 KiB", &stored)));
    }
    let reply = get(session, key, &[])?;
    let change =
        "switch off filters of bodies: sub_filter (nginx), mod_substitute, minifiers and scanners of a CDN";
    let what = format!(
        "{} bytes come back otherwise than they were put ({} bytes)",
        reply.body.len(),
        sample().len()
    );
    Ok((reply.body != sample()).then(|| Finding::error("body-changed", what, change)))
}

fn compression(session: &Session, key: &str) -> Checked {
    put(session, key, &sample())?;
    let reply = get(session, key, &[("accept-encoding", "gzip, br")])?;
    let Some(coding) = reply.header("content-encoding") else { return Ok(None) };
    let what = format!(
        "answers are compressed ({coding}), so that lengths, ETags and ranges no longer fit the bytes"
    );
    let change = "gzip off; (nginx), no encode line (Caddy), compress middleware off (Traefik) for this host";
    Ok(Some(Finding::error("compression", what, change)))
}

fn headers_dropped(session: &Session, key: &str) -> Checked {
    put(session, key, &sample())?;
    let reply = session.ask(Ask { method: "HEAD", key, ..Ask::default() })?;
    let wanted = [
        ("content-type", "text/plain"),
        ("content-language", "en"),
        ("cache-control", "max-age=60"),
        ("x-amz-meta-doctor", "a, b"),
    ];
    let mut lost: Vec<_> = wanted
        .iter()
        .filter(|(name, value)| reply.header(name) != Some(value))
        .map(|(name, _)| *name)
        .collect();
    lost.extend(["etag", "last-modified"].iter().filter(|name| reply.header(name).is_none()));
    let what = format!("these headers do not come through: {}", lost.join(", "));
    let change = "remove lines that hide or replace headers: proxy_hide_header, proxy_set_header, add_header, header rules of a CDN";
    Ok((!lost.is_empty()).then(|| Finding::error("headers-dropped", what, change)))
}

fn etag_weakened(session: &Session, key: &str) -> Checked {
    put(session, key, &sample())?;
    let reply = get(session, key, &[("accept-encoding", "gzip")])?;
    let weak = reply.header("etag").is_some_and(|etag| etag.starts_with("W/"));
    let what = "ETags come as weak ones (W/), which If-Match and checksums of clients do not take";
    Ok(weak.then(|| {
        Finding::error("etag-weakened", what, "gzip off; and no other filter of bodies for this host")
    }))
}

fn length_dropped(session: &Session, key: &str) -> Checked {
    put(session, key, &sample())?;
    let reply = session.ask(Ask { method: "HEAD", key, ..Ask::default() })?;
    let length = sample().len().to_string();
    if reply.header("content-length") != Some(&length) {
        let what = format!("HEAD tells the length {:?}", reply.header("content-length").unwrap_or("none"));
        let change = "let the proxy keep Content-Length on answers to HEAD, and send HEAD as HEAD";
        return Ok(Some(Finding::error("length-dropped", what, change)));
    }
    let reply = get(session, key, &[])?;
    let what = format!(
        "GET tells the length {:?}: clients that need it before the bytes (mounts, downloads in parts, progress bars) fail or read all at once",
        reply.header("content-length").unwrap_or("none")
    );
    let change = "let the proxy pass answers with their Content-Length and not in chunks: no filter of bodies, no compression, HTTP/1.1 to \
                  the server";
    Ok((reply.header("content-length") != Some(&length))
        .then(|| Finding::error("length-dropped", what, change)))
}

fn body_limit(session: &Session, key: &str) -> Checked {
    let reply = match put(session, key, &vec![b'x'; LARGE_BYTES]) {
        Ok(reply) if reply.status != 413 => return Ok(None),
        Ok(reply) => reply.refusal(),
        Err(error) => error.to_string(),
    };
    let what = format!("a PUT of 8 MiB fails: {reply}");
    let change =
        "client_max_body_size 0; (nginx), LimitRequestBody 0 (Apache), no request_body max_size (Caddy)";
    Ok(Some(Finding::error("body-limit", what, change)))
}

fn path_changed(session: &Session, key: &str) -> Checked {
    let mut sent = BTreeSet::new();
    for name in NAMES {
        let path: Vec<_> = name.split('/').map(|segment| encoded(segment).to_string()).collect();
        let reply = put(session, &format!("{key}/{}", path.join("/")), b"")?;
        if !reply.is_good() {
            return Ok(Some(path_finding(&format!(
                "a PUT of the key {name:?} is answered with {}",
                reply.refusal()
            ))));
        }
        sent.insert(format!("{key}/{name}"));
    }
    let prefix = format!("{key}/");
    let query = [("encoding-type", "url"), ("list-type", "2"), ("prefix", &*prefix)];
    let page = session.ask(Ask { query: &query, ..Ask::default() })?;
    let stored = names_of(&page);
    let changed: Vec<_> = stored.symmetric_difference(&sent).map(|name| format!("{name:?}")).collect();
    let what = format!("keys are stored under other names: {}", changed.join(", "));
    Ok((!changed.is_empty()).then(|| path_finding(&what)))
}

fn path_finding(what: &str) -> Finding {
    let change = "proxy_pass without a path, and merge_slashes off; (nginx), AllowEncodedSlashes NoDecode and nocanon (Apache), \
                  no rewrite of paths elsewhere";
    Finding::error("path-changed", what, change)
}

/// The keys of a listing.
fn names_of(page: &Reply) -> BTreeSet<String> {
    let Ok(document) = Document::parse(&page.body) else { return BTreeSet::new() };
    let contents = document.root().children().filter(|child| child.name() == "Contents");
    let mut names = BTreeSet::new();
    for key in contents.filter_map(|entry| entry.child_text("Key").ok().flatten()) {
        let key = key.replace('+', " ");
        names.insert(percent_encoding::percent_decode_str(&key).decode_utf8_lossy().into_owned());
    }
    names
}

fn expect_continue(session: &Session, key: &str) -> Checked {
    let body = sample();
    let ask = Ask { method: "PUT", key, body: &body, ..Ask::default() };
    let (reply, continued) = session.ask_expecting(ask, AT_ONCE)?;
    let change = "let the proxy pass Expect (HTTP/1.1 to the server: proxy_http_version 1.1;), or make clients not send it";
    if !reply.is_good() {
        let what = format!("a PUT with Expect: 100-continue is answered with {}", reply.refusal());
        return Ok(Some(Finding::error("expect-continue", what, change)));
    }
    let what = "Expect: 100-continue is not answered with 100, so that clients wait a second or more before each body";
    Ok((!continued).then(|| Finding::warning("expect-continue", what, change)))
}

fn buffering(session: &Session, key: &str) -> Checked {
    let body = vec![0; 1 << 20];
    let ask = Ask { method: "PUT", key, body: &body, ..Ask::default() };
    let reply = session.ask_without_body(ask, AT_ONCE)?;
    let what = "a request that has to be refused by its head is not answered before its body: uploads are held back by a proxy";
    let change =
        "proxy_request_buffering off; and proxy_buffering off; (nginx), buffering middleware off (Traefik)";
    Ok(reply.is_none().then(|| Finding::warning("buffering", what, change)))
}

/// A body in the form of AWS's clients, with a checksum after it (S3 API reference, "Trailing
/// checksums").
fn with_trailer(body: &[u8]) -> Vec<u8> {
    let checksum = STANDARD.encode(crc32fast::hash(body).to_be_bytes());
    let start = format!("{:x}\r\n", body.len());
    let end = format!("\r\n0\r\nx-amz-checksum-crc32:{checksum}\r\n\r\n");
    [start.as_bytes(), body, end.as_bytes()].concat()
}

fn put_with_trailer(session: &Session, key: &str, chunked: bool) -> io::Result<(Reply, bool)> {
    let body = with_trailer(&sample());
    let length = sample().len().to_string();
    let headers = [
        ("content-encoding", "aws-chunked"),
        ("x-amz-decoded-content-length", &*length),
        ("x-amz-trailer", "x-amz-checksum-crc32"),
    ];
    let hash = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
    let stored = session.ask(Ask {
        method: "PUT",
        key,
        headers: &headers,
        body: &body,
        hash,
        chunked,
        ..Ask::default()
    })?;
    // The server has compared the checksum; a coding that was not removed makes the object longer.
    let whole = stored.is_good() && get(session, key, &[])?.body.len() == sample().len();
    Ok((stored, whole))
}

fn aws_chunked(session: &Session, key: &str) -> Checked {
    let (reply, whole) = put_with_trailer(session, key, false)?;
    let change = "let the proxy pass Content-Encoding, x-amz- headers and bodies unchanged; until then \
                  request_checksum_calculation = when_required in the clients' AWS configuration";
    let what = format!("an upload in aws-chunked form with a trailing checksum fails: {}", reply.refusal());
    Ok((!whole).then(|| Finding::error("aws-chunked", what, change)))
}

fn transfer_chunked(session: &Session, key: &str) -> Checked {
    let (reply, whole) = put_with_trailer(session, key, true)?;
    let change = "let the proxy pass Transfer-Encoding: chunked (proxy_http_version 1.1; proxy_request_buffering off;)";
    let what = format!("an upload of unknown length (Transfer-Encoding: chunked) fails: {}", reply.refusal());
    Ok((!whole).then(|| Finding::error("transfer-chunked", what, change)))
}

fn range(session: &Session, key: &str) -> Checked {
    put(session, key, &sample())?;
    let reply = get(session, key, &[("range", "bytes=4-8")])?;
    let right = reply.status == 206 && reply.body == b"quick" && reply.header("content-range").is_some();
    let what = format!("a range is answered with {} and {} bytes", reply.status, reply.body.len());
    let change =
        "let the proxy pass Range and 206 (proxy_force_ranges and slices off, no cache without ranges)";
    Ok((!right).then(|| Finding::error("range", what, change)))
}

fn conditions(session: &Session, key: &str) -> Checked {
    let etag = put(session, key, b"first")?.header("etag").unwrap_or_default().to_owned();
    let headers = [("if-none-match", "*")];
    let put =
        session.ask(Ask { method: "PUT", key, headers: &headers, body: b"second", ..Ask::default() })?;
    let change = "let the proxy pass If-Match and If-None-Match; locks and table formats rely on them";
    if put.status != 412 {
        let what = format!(
            "a PUT with If-None-Match: * over an object is answered with {} in place of 412",
            put.refusal()
        );
        return Ok(Some(Finding::error("conditions", what, change)));
    }
    let got = get(session, key, &[("if-none-match", &etag)])?;
    let what = format!(
        "a GET with If-None-Match of the same ETag is answered with {} in place of 304",
        got.refusal()
    );
    Ok((got.status != 304).then(|| Finding::warning("conditions", what, change)))
}
