//! Pages of listings with characters that XML cannot carry, as servers write them that do not
//! encode names.

use crate::xml::Document;

/// The characters that stand for others while a page is read: of control characters by their code,
/// then of all that is not known.
const MARKS: u32 = 33;
const UNTOLD: u32 = 32;
/// The private use area, of which a page has some range free.
const PRIVATE_FROM: u32 = 0xE000;
const PRIVATE_THROUGH: u32 = 0xF8FF;

/// The text of a page that can be parsed.
pub(super) struct LenientPage {
    text: Vec<u8>,
    /// The first of the characters that stand for others; `None` in a page that was well-formed.
    marks: Option<u32>,
}

impl LenientPage {
    /// The page as it came, or with marks in place of characters that XML cannot carry.
    pub(super) fn of(page: Vec<u8>) -> Self {
        if Document::parse(&page).is_ok() {
            return Self { text: page, marks: None };
        }
        let text = String::from_utf8_lossy(&page);
        for from in (PRIVATE_FROM..=PRIVATE_THROUGH - MARKS).step_by(MARKS as usize) {
            if !text.chars().any(|c| is_mark(c, from)) {
                return Self { text: marked(&text, from).into_bytes(), marks: Some(from) };
            }
        }
        Self { text: page, marks: None }
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// A text of the page with the characters that marks stand for; `None` for one without any.
    pub(super) fn restored(&self, text: &str) -> Option<String> {
        let from = self.marks?;
        if !text.chars().any(|c| is_mark(c, from)) {
            return None;
        }
        Some(text.chars().map(|c| original(c, from)).collect())
    }
}

/// Whether XML cannot carry a character (XML 1.0, production 2).
fn is_foreign(code: u32) -> bool {
    match char::from_u32(code) {
        Some('\t' | '\n' | '\r') => false,
        Some(c) => c < ' ' || matches!(c, '\u{fffe}' | '\u{ffff}'),
        None => true,
    }
}

fn mark(code: u32, from: u32) -> char {
    let nth = if code < UNTOLD { code } else { UNTOLD };
    char::from_u32(from + nth).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Whether a character is one of the marks that begin at `from`.
fn is_mark(c: char, from: u32) -> bool {
    (from..from + MARKS).contains(&u32::from(c))
}

/// The character that a mark stands for; any other character itself.
fn original(c: char, from: u32) -> char {
    match u32::from(c).wrapping_sub(from) {
        code if code < UNTOLD => char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER),
        UNTOLD => char::REPLACEMENT_CHARACTER,
        _ => c,
    }
}

fn marked(text: &str, from: u32) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let reference = if c == '&' { character_reference(rest) } else { None };
        let (code, length) = reference.unwrap_or((u32::from(c), c.len_utf8()));
        match is_foreign(code) || c == char::REPLACEMENT_CHARACTER {
            true => out.push(mark(code, from)),
            false => out.push_str(&rest[..length]),
        }
        rest = &rest[length..];
    }
    out
}

/// The code and the length of the reference to a character that `text` begins with.
fn character_reference(text: &str) -> Option<(u32, usize)> {
    let end = text.bytes().take(16).position(|byte| byte == b';')?;
    let number = text[..end].strip_prefix("&#")?;
    let code = match number.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => number.parse(),
    };
    Some((code.ok()?, end + 1))
}
