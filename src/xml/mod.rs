//! Floor 1: a reader and a writer of XML, and a writer of HTML. No other module builds markup.

mod guard;
mod html;
mod reader;
mod writer;

pub use html::HtmlPage;
pub use reader::{Document, Element, XmlError, tree_bytes_max};
pub use writer::{DECLARATION, Writer, legible};
