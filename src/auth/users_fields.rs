//! What the tables of the users file have in common.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::value::Datetime;

use crate::auth::policy::Grant;
use crate::auth::{KeyPair, Secret};
use crate::base::{Timestamp, limits};

/// The place in the file and the problem.
pub(super) type FieldProblem = (Range<usize>, String);

/// A pair of keys and its place in the file.
pub(super) type PlacedPair = (Range<usize>, KeyPair);

/// A table `[[user.allow]]` or `[[role.allow]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AllowTable {
    pub(super) actions: Vec<Spanned<String>>,
    pub(super) resources: Vec<Spanned<String>>,
}

impl AllowTable {
    /// The grant.
    pub(super) fn grant(&self) -> Result<Grant, FieldProblem> {
        let mut grant = Grant::default();
        for action in &self.actions {
            grant.add_action(action.as_ref()).map_err(|problem| (action.span(), problem))?;
        }
        for resource in &self.resources {
            grant.add_resource(resource.as_ref()).map_err(|problem| (resource.span(), problem))?;
        }
        self.check_effect(&grant)?;
        Ok(grant)
    }

    /// Refuses actions and resources without effect, since their author expects one. An empty list
    /// plainly grants nothing.
    fn check_effect(&self, grant: &Grant) -> Result<(), FieldProblem> {
        if self.actions.is_empty() || self.resources.is_empty() {
            return Ok(());
        }
        for action in &self.actions {
            grant.check_action(action.as_ref()).map_err(|problem| (action.span(), problem))?;
        }
        for resource in &self.resources {
            grant.check_resource(resource.as_ref()).map_err(|problem| (resource.span(), problem))?;
        }
        Ok(())
    }
}

/// Whether the names of roles and sessions may have a character: those become parts of ARNs, of
/// lines of logs and of variables.
pub(super) fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_+=,.@-".contains(c)
}

/// The text of a short field, all of whose characters must pass `allowed`.
pub(super) fn checked<'t>(
    value: &'t Spanned<String>,
    field: &str,
    allowed: impl Fn(char) -> bool,
) -> Result<&'t str, FieldProblem> {
    let text = value.as_ref();
    let max = limits::CREDENTIAL_LEN_MAX_BYTES;
    if text.is_empty() || text.len() > max {
        return Err((value.span(), format!("`{field}` is 1 to {max} bytes long")));
    }
    match text.chars().find(|&c| !allowed(c)) {
        Some(c) => Err((value.span(), format!("`{field}` may not hold {c:?}"))),
        None => Ok(text),
    }
}

/// A point in time, in UTC.
pub(super) fn instant(value: &Spanned<Datetime>) -> Result<Timestamp, FieldProblem> {
    let text = value.as_ref().to_string();
    Timestamp::parse_iso8601(&text)
        .ok_or_else(|| (value.span(), format!("`{text}` is not a time such as 2026-01-31T12:00:00Z")))
}

/// The pair of keys in two fields.
pub(super) fn pair(
    access_key: &Spanned<String>,
    secret_key: &Spanned<toml::Value>,
) -> Result<PlacedPair, FieldProblem> {
    let at = access_key.span();
    // `/` and `,` separate the parts of a credential in a request.
    let access_key =
        checked(access_key, "access_key", |c| c.is_ascii_graphic() && !matches!(c, '/' | ','))?.to_owned();
    Ok((at, KeyPair { access_key, secret_key: secret(secret_key)? }))
}

fn secret(value: &Spanned<toml::Value>) -> Result<Secret, FieldProblem> {
    match value.as_ref().as_str() {
        Some(text) if (1..=limits::CREDENTIAL_LEN_MAX_BYTES).contains(&text.len()) => Ok(Secret::new(text)),
        _ => Err((value.span(), "a secret_key is a string of 1 to 128 characters".to_owned())),
    }
}
