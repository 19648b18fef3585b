//! The small values of requests and of the users file: ranges, dates, queries, names, tags, copy
//! sources, checksums.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone::auth::Users;
use siltstone::base::{ChecksumAlgorithm, Timestamp};
use siltstone::s3::checksum;
use siltstone::s3::conditions::{ReadConditions, delete_condition, write_condition};
use siltstone::s3::range::ByteRange;
use siltstone::s3::{
    BucketName, CopySourceHeader, Dialect, Headers, ObjectKey, QueryParams, VendorHeaders, metadata, tags, uri,
};

fn headers(value: &[u8]) {
    let mut headers = Headers::default();
    for name in ["x-svc-copy-source", "x-svc-tagging", "x-svc-meta-a", "x-svc-checksum-crc32", "expires"] {
        headers.push(name, value);
    }
    for name in ["x-svc-if-match-size", "x-svc-if-match-last-modified-time"] {
        headers.push(name, value);
    }
    for name in ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "content-md5"] {
        headers.push(name, value);
    }
    let vendor = VendorHeaders::new(&headers, Dialect::Svc);
    if let Ok(found) = tags::from_header(vendor) {
        let _ = tags::check(&found, tags::TagHolder::Object);
    }
    let _ = CopySourceHeader::from_headers(vendor);
    let _ = metadata::collect(&headers, vendor);
    let _ = write_condition(&headers);
    let _ = delete_condition(&headers, vendor);
    let _ = ReadConditions::from_headers(&headers).decide("\"etag\"", Timestamp::from_millis(1), Timestamp::from_millis(2));
}

fuzz_target!(|bytes: &[u8]| {
    headers(bytes);
    for algorithm in ChecksumAlgorithm::ALL {
        if let Ok(value) = checksum::parse_value(algorithm, bytes) {
            assert_eq!(value.len(), algorithm.value_len());
        }
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(range) = ByteRange::parse(text) {
        for size in [0, 1, 100, u64::MAX] {
            if let Some(found) = range.resolve(size) {
                assert!(found.start < found.end && found.end <= size, "{found:?} of {size}");
            }
        }
    }
    for time in
        [Timestamp::parse_http_date(text), Timestamp::parse_iso_basic(text), Timestamp::parse_iso8601(text)]
            .into_iter()
            .flatten()
    {
        let _ = (time.to_http_date(), time.to_iso8601(), time.to_iso_basic());
    }
    let _ = (QueryParams::parse(text), BucketName::new(text), ObjectKey::new(text.to_owned()), Users::parse(text));
    if let Ok(path) = uri::decode_path(text) {
        assert!(path.len() <= text.len());
        assert_eq!(uri::decode_query(&uri::encode_listed(&path)).as_deref(), Ok(path.as_str()));
    }
});
