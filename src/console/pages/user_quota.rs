//! The quota of a user on the page of users: the sum of the buckets that it made.

use serde_json::Value;

use super::super::quota_fields::{self, QuotaFields};
use super::super::s3_client::{Refusal, S3Request, target};
use super::super::seen;
use super::super::text::visible;
use super::quota_bar::{self, QuotaBar};
use super::{View, see_other};
use crate::auth::Action;
use crate::s3::{Method, Response};
use crate::service::QuotaLimit;

const LIMITS: [&str; 5] = ["bytes", "objects", "uploads", "index_bytes", "buckets"];

/// The quota of a user.
pub(super) struct UserQuota {
    pub(super) bars: Vec<QuotaBar>,
    pub(super) fields: QuotaFields,
    pub(super) may_set: bool,
    /// Whether the users file limits it, too.
    pub(super) is_in_file: bool,
}

impl UserQuota {
    /// Reads it; `None` where the visitor may not see it.
    pub(super) fn read(view: &View<'_>, user: &str) -> Option<Self> {
        let report = report(view, user).ok()?;
        let mut limits = Vec::with_capacity(LIMITS.len());
        for limit in LIMITS {
            if let Some(allowed) = report["in_force"][limit].as_u64() {
                let used = report["used"][limit].as_u64().unwrap_or(0);
                limits.push(QuotaLimit { of_owner: true, name: user.to_owned(), limit, allowed, used });
            }
        }
        Some(Self {
            bars: quota_bar::bars("Quota", &limits),
            fields: QuotaFields::of(&report["quota"]),
            may_set: view.visitor.identity.may_administer(Action::PutOwnerQuota),
            is_in_file: LIMITS.iter().any(|limit| report["users_file"][limit].is_u64()),
        })
    }
}

/// What S3 tells of the quota of a user.
fn report(view: &View<'_>, user: &str) -> Result<Value, Refusal> {
    let request = S3Request { query: &[("quota", ""), ("owner", user)], ..S3Request::default() };
    let reply = view.s3().send(Method::Get, target(None, None)?, request)?;
    serde_json::from_slice(&reply.body).map_err(|error| Refusal::new(500, error.to_string()))
}

/// Sets the quota of a user, or removes it where all fields are empty. Durable on return.
///
/// # Errors
/// A field is malformed; the quota is another meanwhile; the errors of PutOwnerQuota.
pub(super) fn set(view: &View<'_>) -> Result<Response, Refusal> {
    let user = view.required("name")?;
    if let Ok(report) = report(view, user) {
        seen::check_digest(view.given("shown"), &QuotaFields::of(&report["quota"]).shown)?;
    }
    let body = quota_fields::read(&view.params)?.into_bytes();
    let request = S3Request { query: &[("quota", ""), ("owner", user)], body, ..S3Request::default() };
    view.s3().send(Method::Put, target(None, None)?, request)?;
    view.tell(format!("Saved the quota of {}", visible(user)));
    Ok(see_other(&view.link("users", &[])))
}
