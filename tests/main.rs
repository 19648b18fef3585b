//! All integration tests in one binary, so that they are linked once and share their starters.

#![allow(clippy::unwrap_used)]

mod auth;
mod auth_vectors;
mod floors;
mod tools;
