//! A reader of request bodies. Namespaces are ignored, since clients may omit them.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr_iter;
use roxmltree::{Node, ParsingOptions};

use super::guard;

/// The most nodes of a document. A list of 10,000 parts, each with a checksum and whitespace
/// between elements, has 90,000.
const NODES_MAX: u32 = 200_000;

/// An error in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XmlError(String);

impl XmlError {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for XmlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for XmlError {}

/// The sizes of a node and of an attribute in memory.
const NODE_BYTES: u64 = 72;
const ATTRIBUTE_BYTES: u64 = 48;

/// An upper bound of the memory of the parsed document, besides its text. For malformed text, of
/// the memory until the error is found.
///
/// # Errors
/// The text has more nodes than any request.
pub fn tree_bytes_max(text: &[u8]) -> Result<u64, XmlError> {
    let room = check_nodes(text)?;
    // The parser reserves one node for each `<`. Text between tags adds nodes; the vector then
    // grows, and for a moment the old and the doubled capacity coexist.
    let without =
        |byte, next| text.windows(2).filter(|pair| pair[0] == byte && pair[1] != next).count() as u64;
    let nodes = if without(b'<', b'/') + without(b'>', b'<') < room { room } else { 3 * (room + 1) };
    Ok(NODE_BYTES * nodes + ATTRIBUTE_BYTES * memchr_iter(b'=', text).count() as u64)
}

/// Counts the tags of a text.
fn check_nodes(text: &[u8]) -> Result<u64, XmlError> {
    let tags = memchr_iter(b'<', text).count() as u64;
    if tags > NODES_MAX.into() { Err(XmlError::new("too many elements")) } else { Ok(tags) }
}

/// A well-formed document. The caller bounds its size; for its memory see [`tree_bytes_max`].
pub struct Document<'a>(roxmltree::Document<'a>);

impl<'a> Document<'a> {
    /// Parses a document of UTF-8 text.
    ///
    /// # Errors
    /// Other encodings, malformed text, a document type declaration, or a shape beyond the limits.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, XmlError> {
        let text = std::str::from_utf8(bytes).map_err(|_| XmlError::new("the text is not UTF-8"))?;
        guard::check(text)?;
        check_nodes(bytes)?;
        let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
        roxmltree::Document::parse_with_options(text, options)
            .map(Self)
            .map_err(|e| XmlError::new(e.to_string()))
    }

    /// The root element.
    pub fn root(&self) -> Element<'_> {
        Element(self.0.root_element())
    }
}

/// An element of a document.
#[derive(Clone, Copy)]
pub struct Element<'d>(Node<'d, 'd>);

impl<'d> Element<'d> {
    /// The name, without prefix or namespace.
    pub fn name(self) -> &'d str {
        self.0.tag_name().name()
    }

    /// The child elements, in order.
    pub fn children(self) -> impl Iterator<Item = Element<'d>> {
        self.0.children().filter(Node::is_element).map(Element)
    }

    /// The child elements named `name`, in order.
    pub fn all<'n>(self, name: &'n str) -> impl Iterator<Item = Element<'d>> + use<'d, 'n> {
        self.children().filter(move |child| child.name() == name)
    }

    /// The child element named `name`, if there is one.
    ///
    /// # Errors
    /// There is more than one.
    pub fn child(self, name: &str) -> Result<Option<Element<'d>>, XmlError> {
        let mut found = self.all(name);
        let first = found.next();
        match found.next() {
            Some(_) => Err(XmlError::new(format!("more than one {name}"))),
            None => Ok(first),
        }
    }

    /// The text of the child element named `name`.
    ///
    /// # Errors
    /// There is more than one.
    pub fn child_text(self, name: &str) -> Result<Option<Cow<'d, str>>, XmlError> {
        Ok(self.child(name)?.map(Element::text))
    }

    /// The text directly in this element, including whitespace.
    pub fn text(self) -> Cow<'d, str> {
        let mut pieces = self.0.children().filter(Node::is_text).filter_map(|node| node.text());
        let first = pieces.next().unwrap_or("");
        let rest: String = pieces.collect();
        if rest.is_empty() { Cow::Borrowed(first) } else { Cow::Owned(first.to_owned() + &rest) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn elements_are_found_with_and_without_a_namespace() {
        for text in [
            "<Delete><Quiet>true</Quiet></Delete>",
            "<?xml version=\"1.0\"?>\n<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\n <Quiet>true</Quiet>\n</Delete>\n",
            "<s:Delete xmlns:s=\"urn:x\"><s:Quiet>true</s:Quiet></s:Delete>",
        ] {
            let document = Document::parse(text.as_bytes()).unwrap();
            assert_eq!(document.root().name(), "Delete");
            assert_eq!(document.root().child_text("Quiet").unwrap().as_deref(), Some("true"));
            assert!(document.root().child("Other").unwrap().is_none());
        }
    }

    #[test]
    fn text_is_whole_across_references_sections_and_comments() {
        let document = Document::parse(b"<a> x&amp;&#xfc;<![CDATA[<]]><!-- no -->y </a>").unwrap();
        assert_eq!(document.root().text(), " x&ü<y ");
    }

    #[test]
    fn repeated_elements_are_listed_and_refused_where_one_is_meant() {
        let document = Document::parse(b"<a><b>1</b><c/><b>2</b></a>").unwrap();
        let texts: Vec<_> = document.root().all("b").map(Element::text).collect();
        assert_eq!(texts, ["1", "2"]);
        assert!(document.root().child("b").is_err());
    }

    #[test]
    fn malformed_documents_are_refused() {
        for bytes in [
            &b""[..],
            b"plain",
            b"<a>",
            b"<a></b>",
            b"<a/><b/>",
            b"<a>&unknown;</a>",
            b"<a>\xff</a>",
            b"<a>\x01</a>",
            b"<!DOCTYPE a><a/>",
        ] {
            assert!(Document::parse(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn ten_thousand_parts_with_whitespace_between_fit() {
        let part = "\n <Part>\n  <PartNumber>1</PartNumber>\n  <ETag>e</ETag>\n  <ChecksumCRC32>c</ChecksumCRC32>\n </Part>";
        let text = format!("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", part.repeat(10_000));
        assert_eq!(Document::parse(text.as_bytes()).unwrap().root().all("Part").count(), 10_000);
    }

    #[test]
    fn the_memory_of_a_document_follows_its_shape() {
        let flat = "<a/>".repeat(1000);
        let bytes = |text: &str| tree_bytes_max(text.as_bytes()).unwrap();
        assert_eq!(bytes(&format!("<r>{flat}</r>")), NODE_BYTES * 1002);
        let indented = flat.replace("<", "\n <");
        assert_eq!(bytes(&format!("<r>{indented}</r>")), NODE_BYTES * 3 * 1003);
        assert_eq!(bytes("<a b='c'></a>"), 2 * NODE_BYTES + ATTRIBUTE_BYTES);
        let many = "<a/>".repeat(NODES_MAX as usize + 1);
        assert!(tree_bytes_max(many.as_bytes()).is_err() && Document::parse(many.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Document::parse(&bytes);
        }

        #[test]
        fn no_markup_makes_it_panic(text in "(<|>|/|a|b|=|\"|'|!|-|\\[|\\]|CDATA|\\?|xml|xmlns| |&|#|;|1|é){0,60}") {
            if let Ok(document) = Document::parse(text.as_bytes()) {
                let _ = (document.root().name(), document.root().text(), document.root().children().count());
            }
        }
    }
}
