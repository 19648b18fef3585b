//! Opening a store: a checkpoint and the log after it become an index.
//!
//! Begin with `recovery`, the order of a start. `loader` reads the metadata, for the server and for
//! the tools; `bulk_apply` is its fast half. `first_start` decides whether a store may be made in a
//! directory at all.

pub(crate) mod bulk_apply;
pub(crate) mod first_start;
pub(crate) mod loader;
pub(crate) mod recovery;
