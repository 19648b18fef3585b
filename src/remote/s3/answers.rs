//! The meaning of answers: errors, entity tags, ranges.

use std::ops::Range;

use crate::client::Answer;
use crate::remote::{RemoteError, RemoteObject};

/// The header with the nonce of a put.
pub(super) const NONCE_HEADER: &str = "x-amz-meta-siltstone-nonce";

/// Error codes with a status of 400 that concern one try: it took too long, or its bytes were
/// changed on their way.
const OF_ONE_TRY: [&str; 4] = ["RequestTimeout", "BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch"];

/// Error codes of a remote without space, which come with several statuses.
const OF_NO_SPACE: [&str; 4] = ["QuotaExceeded", "InsufficientStorage", "StorageFull", "XMinioStorageFull"];

/// Whether a repetition may be answered in another way.
pub(super) fn is_transient(answer: &Answer) -> bool {
    match answer.status {
        // 409: another request about the name was under way. 507 is missing: a remote without space
        // has none a moment later, and a call that repeats keeps its thread from others.
        409 | 429 | 500..=506 | 508..=599 => !OF_NO_SPACE.contains(&code(answer).as_str()),
        400 => OF_ONE_TRY.contains(&code(answer).as_str()),
        _ => false,
    }
}

/// Whether the answer comes from a server that is not able to work.
pub(super) fn is_of_overload(answer: &Answer) -> bool {
    // Neither a conflict nor a damaged upload says anything about the server.
    matches!(answer.status, 429 | 500..=506 | 508..=599) && is_transient(answer)
}

/// Whether a status means neither success, nor that there is no object or already one.
pub(super) fn is_failure(status: u16) -> bool {
    !matches!(status, 200..=299 | 404 | 412)
}

/// The error for an answer that is not a success.
pub(super) fn error_of(answer: &Answer) -> RemoteError {
    let message = answer.error_message().unwrap_or_default();
    let code = code(answer);
    let text = format!("the remote answers {}: {message}", answer.status);
    // The code before the status: an upload that took too long has the status of a malformed one.
    if OF_NO_SPACE.contains(&code.as_str()) {
        return RemoteError::Full(text);
    }
    if OF_ONE_TRY.contains(&code.as_str()) {
        return RemoteError::Unavailable(text);
    }
    // A missing bucket has the status of a missing object.
    if code == "NoSuchBucket" {
        return RemoteError::Refused(text);
    }
    RemoteError::of_status(answer.status, &message)
}

fn code(answer: &Answer) -> String {
    let message = answer.error_message().unwrap_or_default();
    message.split(':').next().unwrap_or_default().to_owned()
}

/// The MD5 in the entity tag of an answer, where it is one.
pub(super) fn md5_of(answer: &Answer) -> Option<[u8; 16]> {
    // With keys of the client or of a key service, tags look like an MD5 and are none (S3 API
    // reference, "Object").
    let encrypted = answer.header("x-amz-server-side-encryption").is_some_and(|kind| kind != "AES256");
    let own_key = answer.header("x-amz-server-side-encryption-customer-algorithm").is_some();
    let tag = answer.header("etag").filter(|_| !encrypted && !own_key)?;
    md5_of_tag(&tag)
}

/// The MD5 that an entity tag is: 32 hexadecimal digits, mostly in quotes.
pub(super) fn md5_of_tag(tag: &str) -> Option<[u8; 16]> {
    let digits = tag.trim().trim_matches('"');
    let all = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    all.then(|| u128::from_str_radix(digits, 16).ok().map(u128::to_be_bytes)).flatten()
}

/// The attributes in an answer to HEAD.
pub(super) fn object_of(name: &str, answer: &Answer) -> Result<RemoteObject, RemoteError> {
    let length = answer.header("content-length").and_then(|length| length.parse().ok());
    let length =
        length.ok_or_else(|| RemoteError::Wrong(format!("the answer to HEAD of {name} has no length")))?;
    Ok(RemoteObject {
        name: name.to_owned(),
        length,
        nonce: answer.header(NONCE_HEADER),
        md5: md5_of(answer),
    })
}

/// Checks that an answer has the range that was asked for, as far as the object has it (RFC 9110,
/// section 14.4). Returns the length of the object.
pub(super) fn check_range(answer: &Answer, range: &Range<u64>, received: u64) -> Result<u64, RemoteError> {
    let told = answer.header("content-range").unwrap_or_default();
    let named = content_range(&told).filter(|(named, length)| {
        // A server that ignores the range answers 200 with the whole object, whose first bytes
        // would pass for those of the range.
        answer.status == 206 && named.start == range.start && named.end == range.end.min(*length)
    });
    let Some((named, length)) = named else {
        return Err(wrong_range(range, &format!("answers {} with {told:?}", answer.status)));
    };
    // The head may be right, and the body cut off by a proxy that ends it well.
    if received != named.end - named.start {
        return Err(wrong_range(range, &format!("sends {received} bytes")));
    }
    Ok(length)
}

fn wrong_range(range: &Range<u64>, what: &str) -> RemoteError {
    RemoteError::Wrong(format!("asked for bytes {}-{}, the remote {what}", range.start, range.end - 1))
}

/// The range that a `Content-Range` names, and the length of the object.
fn content_range(value: &str) -> Option<(Range<u64>, u64)> {
    let (range, length) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let range = first.parse().ok()?..last.parse::<u64>().ok()?.checked_add(1)?;
    let length = length.parse().ok()?;
    (range.start < range.end && range.end <= length).then_some((range, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_with_32_digits_are_an_md5_and_others_are_none() {
        let digits = "00112233445566778899aabbccddeeff";
        let md5 = u128::from_str_radix(digits, 16).unwrap().to_be_bytes();
        assert_eq!(md5_of_tag(&format!("\"{digits}\"")), Some(md5));
        assert_eq!(md5_of_tag(&digits.to_uppercase()), Some(md5));
        for none in [
            format!("\"{digits}-2\""),
            "\"\"".into(),
            "+0112233445566778899aabbccddeeff".into(),
            digits[1..].into(),
        ] {
            assert_eq!(md5_of_tag(&none), None, "{none}");
        }
    }
}
