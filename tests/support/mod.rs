//! Shared by all tests: users files, a request signer, server starters and an HTTP client. Nothing
//! here contains a test.

pub(crate) mod client;
pub(crate) mod form;
pub(crate) mod identity_provider;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod service;
pub(crate) mod signer;
pub(crate) mod users;

/// Whether tests with random input try all that they have, as `.ci/run --all` wants; an ordinary
/// run tries a part.
pub(crate) fn is_long() -> bool {
    std::env::var_os("SILTSTONE_LONG_TESTS").is_some()
}
