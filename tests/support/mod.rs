//! Shared by all tests: users files, a request signer, server starters and an HTTP client; the
//! search of models. Nothing here contains a test.

pub(crate) mod client;
pub(crate) mod explorer;
pub(crate) mod form;
pub(crate) mod identity_provider;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod service;
pub(crate) mod signer;
pub(crate) mod users;

use siltstone::base::{Entropy as _, OsEntropy};

/// Whether tests with random input try all that they have, as `.ci/run --all` wants; an ordinary
/// run tries a part.
pub(crate) fn is_long() -> bool {
    std::env::var_os("SILTSTONE_LONG_TESTS").is_some()
}

/// All of some cases, in an ordinary run every `stride`-th of them from a drawn one on.
pub(crate) fn every_nth<T: Clone>(all: &[T], stride: usize) -> Vec<T> {
    if is_long() {
        return all.to_vec();
    }
    let first = (OsEntropy.next_u64() % stride as u64) as usize;
    println!("from {first} on one in {stride}; SILTSTONE_LONG_TESTS=1 for all {}", all.len());
    all.iter().skip(first).step_by(stride).cloned().collect()
}
