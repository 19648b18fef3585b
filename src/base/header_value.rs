//! Header values as they are signed.

/// The words of a header value. Joined by single spaces they are the form that is signed: without
/// surrounding whitespace, and with one space for each run of whitespace inside. A server and its
/// clients have to agree on it.
pub fn signed_words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b' ' || byte == b'\t').filter(|word| !word.is_empty())
}
