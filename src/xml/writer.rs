//! A writer of documents: a root in a namespace, elements, text. All text is escaped here.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};

use xmlwriter::{Indent, Options, XmlWriter};

/// The XML declaration of every document.
pub const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

/// A document under construction. The tags of the root are written by `xmlwriter`; its content is
/// appended directly, since a listing has thousands of elements, each of which would pass the
/// formatter of the crate.
pub struct Writer {
    text: String,
    /// The start of the content of the root.
    start: usize,
    /// The end tag of the root.
    end: String,
}

impl Writer {
    /// Begins a document with its root element. `namespace` is declared as the default one.
    pub fn new(root: &str, namespace: Option<&str>) -> Self {
        Self::with_capacity(root, namespace, 0)
    }

    /// As [`Writer::new`], with a capacity in bytes.
    pub fn with_capacity(root: &str, namespace: Option<&str>, capacity: usize) -> Self {
        let mut inner = XmlWriter::new(Options { indent: Indent::None, ..Options::default() });
        inner.start_element(root);
        if let Some(uri) = namespace {
            inner.write_attribute("xmlns", &*escape(uri));
        }
        // With text, even empty, the element gets an end tag.
        inner.write_text("");
        let mut tags = inner.end_document();
        let end = tags.split_off(tags.rfind("</").unwrap_or(tags.len()));
        let mut text = String::with_capacity(capacity);
        text.extend([DECLARATION, &tags]);
        Self { start: text.len(), text, end }
    }

    /// Writes an element whose content `fill` writes.
    pub fn element(&mut self, name: &str, fill: impl FnOnce(&mut Self)) {
        self.tag("<", name);
        let start = self.text.len();
        fill(self);
        if self.text.len() > start {
            self.tag("</", name);
        } else {
            self.text.insert(start - 1, '/');
        }
    }

    /// Writes an element with attributes, whose values need no escaping.
    pub fn element_with_attributes(
        &mut self,
        name: &str,
        attributes: &[(&str, &str)],
        fill: impl FnOnce(&mut Self),
    ) {
        for part in ["<", name] {
            self.text.push_str(part);
        }
        for (attribute, value) in attributes {
            write!(self.text, " {attribute}=\"{value}\"").expect("a String takes whatever is written");
        }
        self.text.push('>');
        fill(self);
        self.tag("</", name);
    }

    /// Writes an element with text.
    pub fn leaf(&mut self, name: &str, text: &str) {
        self.element(name, |element| element.text(text));
    }

    /// Writes an element with a number, a date or another value that needs no escaping.
    pub fn plain(&mut self, name: &str, value: impl Display) {
        self.element(name, |element| {
            write!(element.text, "{value}").expect("a String takes whatever is written");
        });
    }

    /// Writes text into the open element.
    pub fn text(&mut self, text: &str) {
        self.text.push_str(&escape(text));
    }

    /// Closes the root and returns the document.
    pub fn finish(mut self) -> Vec<u8> {
        if self.text.len() > self.start {
            self.text.push_str(&self.end);
        } else {
            self.text.insert(self.start - 1, '/');
        }
        self.text.into_bytes()
    }

    fn tag(&mut self, before: &str, name: &str) {
        for part in [before, name, ">"] {
            self.text.push_str(part);
        }
    }
}

/// Escapes text. Control characters become numeric references, as in S3. Tab and carriage return
/// are valid in XML 1.0 and survive all parsers that way; for the others the parser must be
/// lenient, or the client use `encoding-type=url`. Line feeds are not escaped: they survive, and
/// make documents legible.
fn escape(text: &str) -> Cow<'_, str> {
    // Testing every byte without an early exit is faster, since it is vectorised.
    if !text.bytes().fold(false, |found, byte| found | is_special(byte)) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\n' => escaped.push('\n'),
            '\0'..='\x1f' | '\x7f' => {
                write!(escaped, "&#x{:x};", u32::from(c)).expect("a String takes whatever is written");
            }
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

/// Replaces all characters that are not valid in XML (XML 1.0, section 2.2) by U+FFFD, for text
/// that must be readable by all parsers and need not be exact.
pub fn legible(text: &str) -> Cow<'_, str> {
    let illegal =
        |c: char| matches!(c, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\u{fffe}' | '\u{ffff}');
    if text.contains(illegal) { Cow::Owned(text.replace(illegal, "\u{fffd}")) } else { Cow::Borrowed(text) }
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'&' | b'<' | b'>' | 0..=0x1f | 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::Document;

    #[test]
    fn a_document_begins_with_its_declaration_and_its_root_names_the_namespace() {
        let mut writer = Writer::new("Root", Some("http://example.com/"));
        writer.leaf("Name", "a");
        writer.element("Owner", |w| {
            w.plain("ID", 7);
            w.leaf("Empty", "");
        });
        assert_eq!(
            String::from_utf8(writer.finish()).unwrap(),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <Root xmlns=\"http://example.com/\"><Name>a</Name><Owner><ID>7</ID><Empty/></Owner></Root>"
        );
    }

    #[test]
    fn markup_and_control_characters_are_escaped() {
        assert_eq!(escape("plain ü"), "plain ü");
        assert_eq!(escape("a&<b>\r\n\t\u{1}"), "a&amp;&lt;b&gt;&#xd;\n&#x9;&#x1;");
    }

    #[test]
    fn legible_text_is_read_by_every_parser() {
        assert_eq!(legible("a\tb\n"), "a\tb\n");
        assert_eq!(legible("a\0b\u{1f}c\u{ffff}"), "a\u{fffd}b\u{fffd}c\u{fffd}");
        for c in (0..=0x1_0400).filter_map(char::from_u32) {
            let mut writer = Writer::new("Root", None);
            writer.text(&legible(&c.to_string()));
            let bytes = writer.finish();
            assert!(Document::parse(&bytes).is_ok(), "{c:?}");
        }
    }

    #[test]
    fn written_text_reads_back() {
        for text in ["", " blank ", "a&<b>]]>\r\n\t", "grün", "\"'"] {
            let mut writer = Writer::new("Root", None);
            writer.leaf("Text", text);
            let bytes = writer.finish();
            let document = Document::parse(&bytes).unwrap();
            assert_eq!(document.root().child("Text").unwrap().unwrap().text(), text);
        }
    }
}
