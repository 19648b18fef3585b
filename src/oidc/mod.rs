//! Providers of identities (OpenID Connect): their keys, and tokens that they signed.
//!
//! What a token names is never fetched: who asks chooses the provider by the settings, and the
//! provider is asked at the addresses that it states itself (OpenID Connect Discovery 1.0), or its
//! keys are read from a file.
//!
//! Everybody may send tokens, and many at a time. So one request at a time asks a provider, within
//! a time and for so many bytes; others go on with the keys that are known. Without any, a few wait
//! for a moment, and the rest are told that the provider is being asked. A failure is kept for a
//! while, too.

mod key;
mod provider;
mod token;

pub use provider::{Provider, ProviderError, ProviderMetadata, ProviderSource};
pub use token::{SignedToken, TokenClaims};
