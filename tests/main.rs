//! All integration tests in one binary, so that they are linked once and share `support`.
//!
//! | module | covers |
//! |---|---|
//! | `support` | the users file, the request signer, server starters and an HTTP client that all tests share |
//! | `auth` | signatures: recorded vectors, refusals, hostile input |
//! | `protocol` | each operation of the S3 interface, with or without a socket |
//! | `http` | the HTTP engines over real sockets |
//! | `hostile` | hostile bytes over real sockets |
//! | `format` | data-format.md, stores of earlier versions, hostile bytes on disk |
//! | `cli`, `tools` | the two programs as an operator runs them |
//! | `guide`, `readme` | the documentation for users: values, examples, commands |
//! | `clocks`, `floors`, `names` | the shape and the words of the sources |
//! | `remote_model` | the protocols of shipping, takeover and deleting on a remote, in all interleavings |
//! | `disk_model` | a pair of disks that mirror each other, in all interleavings of faults and starts |
//! | `lifecycle`, `lifetimes` | sweeps of lifecycle rules; rules, locks, quotas and versions against a model |
//! | `index_memory`, `siege` | memory and patience under load |

#![allow(clippy::unwrap_used)]

mod auth;
mod cli;
mod clocks;
mod console;
mod disk_model;
mod floors;
mod format;
mod guide;
mod hostile;
mod http;
mod index_memory;
mod lifecycle;
mod lifetimes;
mod names;
mod protocol;
mod readme;
mod remote_model;
mod siege;
mod support;
mod tools;
