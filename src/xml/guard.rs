//! Limits on documents, checked before parsing, so that parsing never costs far more than the size
//! of the text.

use memchr::{memchr, memchr_iter};

use super::XmlError;

/// Depth of nested elements. The deepest body of the protocol has five.
const DEPTH_MAX: usize = 32;
/// Attributes of one element: a parser compares each with every other.
const ATTRIBUTES_MAX: usize = 32;
/// Namespaces declared in one document: a parser may copy those in scope for each element.
const NAMESPACES_MAX: usize = 64;

/// Checks the shape of a document, not its grammar: a document that passes may still be malformed.
///
/// # Errors
/// A document type declaration, an unfinished tag, or more depth, attributes or namespaces than any
/// request has.
pub(super) fn check(text: &str) -> Result<(), XmlError> {
    let mut rest = text;
    let mut shape = Shape::default();
    while let Some(at) = memchr(b'<', rest.as_bytes()) {
        rest = &rest[at..];
        let end = end_of_markup(rest).ok_or_else(|| XmlError::new("a tag does not end"))?;
        shape.count(&rest[..end])?;
        rest = &rest[end..];
    }
    Ok(())
}

/// The counts so far.
#[derive(Default)]
struct Shape {
    depth: usize,
    namespaces: usize,
}

impl Shape {
    /// Counts one piece of markup, from its `<` to its end.
    fn count(&mut self, markup: &str) -> Result<(), XmlError> {
        match markup.as_bytes() {
            [_, b'!', ..] if markup.starts_with("<!DOCTYPE") => {
                return Err(XmlError::new("a document type declaration is not accepted"));
            }
            [_, b'!' | b'?', ..] => return Ok(()),
            [_, b'/', ..] => {
                self.depth = self.depth.saturating_sub(1);
                return Ok(());
            }
            _ => {}
        }
        self.depth += usize::from(!markup.ends_with("/>"));
        let attributes = memchr_iter(b'=', markup.as_bytes()).count();
        // Tags without attributes have no namespace, and searching thousands of them would take as
        // long as parsing.
        if attributes > 0 {
            self.namespaces += markup.matches("xmlns").count();
        }
        if self.depth > DEPTH_MAX || attributes > ATTRIBUTES_MAX || self.namespaces > NAMESPACES_MAX {
            return Err(XmlError::new("too deep, or too many attributes or namespaces"));
        }
        Ok(())
    }
}

/// The length of the markup at the start of `text`.
fn end_of_markup(text: &str) -> Option<usize> {
    if let [_, b'!' | b'?', ..] = text.as_bytes() {
        for (start, end) in [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")] {
            if let Some(inner) = text.strip_prefix(start) {
                return inner.find(end).map(|at| start.len() + at + end.len());
            }
        }
    }
    let mut quote = None;
    text.bytes().position(|byte| closes_tag(byte, &mut quote)).map(|at| at + 1)
}

/// Whether `byte` ends a tag; a `>` between quotes does not.
fn closes_tag(byte: u8, quote: &mut Option<u8>) -> bool {
    match (*quote, byte) {
        (Some(open), b) if open == b => *quote = None,
        (None, b'"' | b'\'') => *quote = Some(byte),
        (None, b'>') => return true,
        _ => {}
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_bodies_pass() {
        for text in [
            "",
            "<a/>",
            "<?xml version='1.0'?><a xmlns=\"u\" b='>'><b>x=y====</b><!-- < = > --><c/></a>",
            "<a><![CDATA[<<<b c='d'>]]></a>",
        ] {
            assert!(check(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn document_types_are_refused() {
        assert!(check("<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>").is_err());
    }

    #[test]
    fn shapes_that_cost_more_than_their_size_are_refused() {
        let deep = "<a>".repeat(DEPTH_MAX + 1);
        let wide = format!("<a {}/>", "b='' ".repeat(ATTRIBUTES_MAX + 1));
        let hidden = format!("<a b='>' {}/>", "c=\"\" ".repeat(ATTRIBUTES_MAX));
        let named = "<a xmlns=''/>".repeat(NAMESPACES_MAX + 1);
        for text in [deep, wide, hidden, named] {
            assert!(check(&text).is_err(), "{text}");
        }
        assert!(check(&"<a></a>".repeat(DEPTH_MAX * 4)).is_ok());
    }

    #[test]
    fn unfinished_markup_is_refused() {
        for text in ["<", "<a", "<a b='>", "<!-- ", "<![CDATA[x", "<?xml"] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
