//! The parameters of the headers of a form and of its parts, as in `form-data; name="file"` (RFC
//! 9110, section 5.6.6).

/// The value of the parameter `wanted`; `None` if it is missing, if it is present twice, or if the
/// text is malformed.
pub(super) fn get(text: &str, wanted: &str) -> Option<String> {
    let mut found = None;
    let mut rest = text.split_once(';')?.1;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ';']);
        if rest.is_empty() {
            return found;
        }
        let (name, after) = rest.split_once('=')?;
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => token(after),
        };
        rest = after;
        if name.trim_ascii().eq_ignore_ascii_case(wanted) && found.replace(value).is_some() {
            return None;
        }
    }
}

/// A value without quotes, and the text after it.
fn token(text: &str) -> (String, &str) {
    let (value, rest) = text.split_at(text.find(';').unwrap_or(text.len()));
    (value.trim_ascii().to_owned(), rest)
}

/// A quoted value up to its second quote, and the text after it. A backslash before anything but a
/// quote is a character of the value: browsers do not escape quotes of a path.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                let rest = text[at + 1..].trim_start_matches([' ', '\t']);
                return (rest.is_empty() || rest.starts_with(';')).then_some((value, rest));
            }
            '\\' if chars.peek().is_some_and(|(_, next)| *next == '"') => {
                value.push('"');
                chars.next();
            }
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_tokens_or_quoted() {
        let text = "form-data; name=file ; FileName=\"a;b=\\\"c\\\" \\d\"; x=\"\" ;";
        assert_eq!(get(text, "name").as_deref(), Some("file"));
        assert_eq!(get(text, "filename").as_deref(), Some("a;b=\"c\" \\d"));
        assert_eq!(get(text, "x").as_deref(), Some(""));
        assert_eq!(get(text, "y"), None);
        assert_eq!(get("form-data; name=\"ü\"", "name").as_deref(), Some("ü"));
    }

    #[test]
    fn malformed_and_repeated_parameters_are_none() {
        for text in [
            "",
            "form-data",
            "a; name",
            "a; name=\"x",
            "a; name=\"x\"y",
            "a; name=x; Name=x",
            "a; name=\"x\\\"",
        ] {
            assert_eq!(get(text, "name"), None, "{text}");
        }
    }
}
