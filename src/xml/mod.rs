//! Floor 1: a reader and a writer of XML. No other module builds markup.

mod guard;
mod reader;
mod writer;

pub use reader::{Document, Element, XmlError, tree_bytes_max};
pub use writer::{DECLARATION, Writer, legible};
