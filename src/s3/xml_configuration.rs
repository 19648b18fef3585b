//! Configurations of buckets that are XML, in requests, in responses and as they are stored.

use crate::s3::S3Error;
use crate::xml::{Document, Element, Writer};

/// A configuration of a bucket that is written as an XML document.
pub trait XmlConfiguration: Sized {
    /// The name of the root element.
    const ROOT: &'static str;

    /// Reads the root element of a request.
    ///
    /// # Errors
    /// `MalformedXML` for a missing, repeated or unknown element; those of the values.
    fn parse(root: Element<'_>) -> Result<Self, S3Error>;

    /// Writes the content of the root element.
    fn render(&self, document: &mut Writer);

    /// Reads a document as [`Self::to_document`] writes it; `None` if it is not one.
    fn from_document(bytes: &[u8]) -> Option<Self> {
        Self::parse(Document::parse(bytes).ok()?.root()).ok()
    }

    /// The same, if a request with it would be accepted.
    ///
    /// # Errors
    /// As of [`Self::parse`].
    fn checked(self) -> Result<Self, S3Error> {
        let mut document = Writer::new(Self::ROOT, None);
        self.render(&mut document);
        let text = document.finish();
        let read = Document::parse(&text).map_err(|error| S3Error::malformed_xml(&error.to_string()))?;
        Self::parse(read.root())
    }

    /// A document with the configuration alone, to be stored.
    fn to_document(&self) -> Vec<u8> {
        self.to_document_in(None)
    }

    /// A document with the configuration alone, in a namespace if there is one.
    fn to_document_in(&self, namespace: Option<&str>) -> Vec<u8> {
        let mut document = Writer::new(Self::ROOT, namespace);
        self.render(&mut document);
        document.finish()
    }
}
