//! Floor 1: a thin reader and a thin writer of XML; the rest of the server builds no markup by hand.

mod guard;
mod reader;
mod writer;

pub use reader::{Document, Element, XmlError, tree_bytes_max};
pub use writer::{DECLARATION, Writer, legible};
