//! All integration tests in one binary, so that they are linked once and share their starters.

#![allow(clippy::unwrap_used)]

mod auth;
mod auth_chunks;
mod auth_hostile;
mod auth_refusals;
mod auth_vectors;
mod cli;
mod cli_users;
mod floors;
mod format;
mod guide;
mod hostile;
mod hostile_disk;
mod http;
mod index_memory;
mod protocol;
mod readme;
mod siege;
mod tools;
