//! The beginnings of texts that others choose, which must not decide how much memory a list takes.

/// The longest beginning of `text` of at most `max_bytes` bytes that ends between characters.
pub fn beginning_of(text: &str, max_bytes: usize) -> &str {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        let cuts: Vec<_> = (0..6).map(|max_bytes| beginning_of("aüb", max_bytes)).collect();
        assert_eq!(cuts, ["", "a", "a", "aü", "aüb", "aüb"]);
    }
}
