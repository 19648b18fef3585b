//! Multipart uploads.

mod checksums;
mod complete;
mod copies;
mod create;
mod late;
mod listings;
mod parts;
mod read;

use base64::Engine as _;
use siltstone::base::digest::Md5;
use siltstone::s3::Dialect;

use super::*;

/// The least that a part may have unless it is the last.
const MIN: usize = 5 << 20;

impl Server {
    /// Begins an upload for `b/k` and gives its id.
    fn begin(&self, lines: &[(&str, &str)]) -> String {
        self.begin_as(usual_dialect(), lines)
    }

    fn begin_as(&self, dialect: Dialect, lines: &[(&str, &str)]) -> String {
        let asked = self.request("POST", "/b/k?uploads").dialect(dialect);
        let begun = with_headers(asked, lines).send();
        assert_eq!(begun.status, 200, "{begun:?}");
        begun.one("UploadId").unwrap()
    }

    fn part<'s>(&'s self, id: &str, number: u32, body: &[u8]) -> Asked<'s> {
        self.request("PUT", &format!("/b/k?partNumber={number}&uploadId={id}")).body(body)
    }

    /// Uploads a part, which must succeed, and gives its tag.
    fn put_part(&self, id: &str, number: u32, body: &[u8]) -> String {
        let put = self.part(id, number, body).send();
        assert_eq!(put.status, 200, "{put:?}");
        put.header("ETag").unwrap().to_owned()
    }

    fn completion<'s>(&'s self, id: &str, parts: &[(u32, &str)]) -> Asked<'s> {
        self.request("POST", &format!("/b/k?uploadId={id}")).body(list_of(parts).as_bytes())
    }

    fn complete(&self, id: &str, parts: &[(u32, &str)]) -> Answer {
        self.completion(id, parts).send()
    }

    /// Makes `b/k` of these parts, numbered from 1.
    fn assemble(&self, lines: &[(&str, &str)], bodies: &[&[u8]]) -> Answer {
        let id = self.begin(lines);
        let tags: Vec<_> = (1..).zip(bodies).map(|(at, body)| (at, self.put_part(&id, at, body))).collect();
        let parts: Vec<_> = tags.iter().map(|(number, tag)| (*number, tag.as_str())).collect();
        self.complete(&id, &parts)
    }
}

fn with_headers<'s>(asked: Asked<'s>, lines: &[(&str, &str)]) -> Asked<'s> {
    lines.iter().fold(asked, |asked, (name, value)| asked.header(name, value))
}

fn list_of(parts: &[(u32, &str)]) -> String {
    let part = |(number, tag): &(u32, &str)| {
        format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>")
    };
    let parts: String = parts.iter().map(part).collect();
    format!("<CompleteMultipartUpload xmlns=\"{NAMESPACE}\">{parts}</CompleteMultipartUpload>")
}

fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn crc32(bytes: &[u8]) -> String {
    base64(&crc32fast::hash(bytes).to_be_bytes())
}

/// The composite CRC-32 of an object of these parts.
fn composite(parts: &[&[u8]]) -> String {
    let crcs: Vec<u8> = parts.iter().flat_map(|part| crc32fast::hash(part).to_be_bytes()).collect();
    format!("{}-{}", crc32(&crcs), parts.len())
}
