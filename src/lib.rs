//! Siltstone, an S3-style object store for small hosts: one binary, blocking threads, and no byte lost that
//! was answered with 200.
//!
//! # The map
//!
//! Two columns that meet first in [`ops`]. Every arrow points down, and there is no cycle; `tests/floors.rs`
//! reads the sources and holds the table.
//!
//! ```text
//!   7   main.rs, cli/                                tools/
//!   6   http         bytes in, bytes out; the bounded worker pool; the engines
//!   5   service      the whole life of a request on one page
//!   4   ops          one file per operation group
//!   3   store                            auth
//!   2   log     index                    s3
//!   1   format  fs                       xml
//!   0   base         limits, clock, entropy, timestamp, digest
//!       -- storage column --             -- protocol column --
//! ```
//!
//! | module | purpose | may name |
//! |---|---|---|
//! | [`base`] | limits, clock, entropy, timestamps, digests | nothing |
//! | [`mod@format`] | bytes <-> values: the code half of data-format.md | base |
//! | [`fs`] | the only door to the disk | base |
//! | [`xml`] | a thin reader and writer of XML | base |
//! | [`log`] | segmented append-only logs of records; knows no S3 | base, format, fs |
//! | [`index`] | what the entries add up to, in memory | base, format |
//! | [`s3`] | the vocabulary of the protocol | base, xml |
//! | [`store`] | the engine | the storage column |
//! | [`auth`] | who asks, and may they | base, s3 |
//! | [`ops`] | S3 meets the store | base, xml, s3, auth, store |
//! | [`service`] | from request to response | base, s3, auth, ops |
//! | [`http`] | the engines | base, s3, service |
//!
//! [`guide`] is the manual for operators; it has no code.
//!
//! # What is not here
//!
//! No module below [`http`] sees a type of the transport, so the whole protocol is tested without a socket. Operations
//! see neither a signature nor a header prefix; the store never sees HTTP; nothing but [`fs`] opens a file of the
//! store. Paths and offsets go to the log under the request id, never to a client.

pub mod auth;
pub mod base;
pub mod format;
pub mod fs;
pub mod guide;
pub mod http;
pub mod index;
pub mod log;
pub mod ops;
pub mod s3;
pub mod service;
pub mod store;
pub mod xml;
