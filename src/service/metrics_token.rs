//! The token by which clients on other hosts may read the metrics.

use std::sync::RwLock;

use subtle::ConstantTimeEq as _;

use crate::auth::Secret;
use crate::base::NOT_POISONED;
use crate::s3::Request;

/// The token. A reader states it as `Authorization: Bearer TOKEN` (RFC 6750, section 2.1).
#[derive(Debug)]
pub struct MetricsToken(RwLock<Secret>);

impl MetricsToken {
    /// A token.
    pub fn new(token: Secret) -> Self {
        Self(RwLock::new(token))
    }

    /// Replaces the token, for the next requests.
    pub fn replace(&self, token: Secret) {
        *self.0.write().expect(NOT_POISONED) = token;
    }

    /// Whether the request states it.
    pub(super) fn is_stated_by(&self, request: &Request<'_>) -> bool {
        let Some((scheme, stated)) =
            request.headers.get_str("authorization").and_then(|value| value.split_once(' '))
        else {
            return false;
        };
        let token = self.0.read().expect(NOT_POISONED);
        // In constant time, which does not show how much of it is right.
        let is_alike: bool = token.reveal().as_bytes().ct_eq(stated.trim().as_bytes()).into();
        scheme.eq_ignore_ascii_case("bearer") && is_alike
    }
}
