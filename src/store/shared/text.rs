//! Keys as text.

/// A key or a common prefix as text. Both are UTF-8, unless the disk is damaged: a delimiter is
/// UTF-8, too, so that it never ends within a character.
pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
