//! The providers whose tokens assume roles, by the users file: `[[issuer]]`, and which tokens a
//! role trusts: `[[role.web_identity]]`. IAM calls them by their URLs without the scheme.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};
use toml::Spanned;
use toml::value::Datetime;

use crate::auth::bucket_policy::{TokenClaim, TrustConditions};
use crate::auth::users_fields::{FieldProblem, instant};
use crate::base::limits::ISSUER_THUMBPRINT_CHARS;
use crate::base::{Timestamp, claim_at, is_confidential_url};

/// A table `[[issuer]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IssuerTable {
    pub(super) url: Spanned<String>,
    audiences: Spanned<Vec<String>>,
    ca_file: Option<Spanned<PathBuf>>,
    keys_file: Option<Spanned<PathBuf>>,
    /// Kept for those who read them back: the authorities decide about the certificate.
    #[serde(default)]
    thumbprints: Vec<Spanned<String>>,
    created: Option<Spanned<Datetime>>,
}

/// The name of a provider in ARNs and in the keys of conditions: its URL without the scheme.
pub fn provider_name(url: &str) -> &str {
    url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).unwrap_or(url)
}

/// Whether a text has the form of the thumbprint of a certificate.
pub fn is_thumbprint(text: &str) -> bool {
    text.len() == ISSUER_THUMBPRINT_CHARS && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// A provider whose tokens assume roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedIssuer {
    /// The URL, as its tokens state it.
    pub url: String,
    /// The names of this server there. A token is for one of them.
    pub audiences: Vec<String>,
    /// A PEM file with the authorities that sign the provider's certificate; `None` for those of
    /// the system.
    pub authorities: Option<PathBuf>,
    /// A file with the keys, so that the provider is not asked.
    pub keys_file: Option<PathBuf>,
    /// When it was made, if a call of IAM made it. Sessions of an earlier provider of the same URL
    /// do not count any more.
    pub created: Option<Timestamp>,
}

impl TrustedIssuer {
    /// Reads a table.
    pub(super) fn of(table: &IssuerTable) -> Result<Self, FieldProblem> {
        let url = table.url.as_ref();
        if url.is_empty() || url.chars().any(char::is_control) {
            return Err((table.url.span(), "the `url` of an issuer is what its tokens state".to_owned()));
        }
        if table.keys_file.is_none() && !is_confidential_url(url) {
            return Err((
                table.url.span(),
                format!(
                    "`{url}` must begin with https:// (http:// is for this host alone), or have a `keys_file`"
                ),
            ));
        }
        let audiences = table.audiences.as_ref();
        // As in IAM, a provider may be made before its clients are known. Until then it vouches for
        // nobody.
        let may_be_empty = table.created.is_some();
        if audiences.is_empty() && !may_be_empty || audiences.iter().any(String::is_empty) {
            return Err((table.audiences.span(), "`audiences` names whom tokens are for".to_owned()));
        }
        for path in [&table.ca_file, &table.keys_file].into_iter().flatten() {
            if path.as_ref().is_relative() {
                return Err((path.span(), "the path of a file begins with `/`".to_owned()));
            }
        }
        if let Some(file) = &table.ca_file
            && table.keys_file.is_some()
        {
            return Err((file.span(), "`ca_file` does nothing beside `keys_file`".to_owned()));
        }
        if let Some(wrong) = table.thumbprints.iter().find(|text| !is_thumbprint(text.as_ref())) {
            let problem = format!("a thumbprint has {ISSUER_THUMBPRINT_CHARS} letters and digits");
            return Err((wrong.span(), problem));
        }
        Ok(Self {
            url: url.clone(),
            audiences: audiences.clone(),
            authorities: table.ca_file.as_ref().map(|path| path.as_ref().clone()),
            keys_file: table.keys_file.as_ref().map(|path| path.as_ref().clone()),
            created: table.created.as_ref().map(instant).transpose()?,
        })
    }
}

/// A table `[[role.web_identity]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrustTable {
    pub(super) issuer: Spanned<String>,
    condition: Spanned<String>,
}

/// Which tokens of one issuer assume a role.
#[derive(Debug)]
pub(super) struct TokenTrust {
    pub(super) issuer: String,
    pub(super) conditions: TrustConditions,
}

impl TokenTrust {
    /// Reads a table.
    pub(super) fn of(table: &TrustTable) -> Result<Self, FieldProblem> {
        let conditions = TrustConditions::parse(table.condition.as_ref())
            .map_err(|problem| (table.condition.span(), format!("the condition: {problem}")))?;
        Ok(Self { issuer: table.issuer.as_ref().clone(), conditions })
    }
}

/// Whom a token is about, once its provider is known to have signed it.
#[derive(Debug, Clone)]
pub struct WebIdentity {
    pub issuer: String,
    pub subject: String,
    /// Whom it is for, of those that the issuer has in the users file.
    pub audience: String,
    /// All claims, `iss`, `sub` and `aud` included.
    pub claims: Map<String, Value>,
}

impl WebIdentity {
    /// The claims of these names that it has, each once.
    pub(super) fn claims<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<TokenClaim> {
        let mut claims: Vec<TokenClaim> = Vec::new();
        for name in names {
            if claims.iter().any(|claim| claim.name == name) {
                continue;
            }
            let values = claim_at(&self.claims, name).map(texts).unwrap_or_default();
            if !values.is_empty() {
                claims.push(TokenClaim { name: name.to_owned(), values });
            }
        }
        claims
    }
}

/// The values of a claim: texts, numbers and booleans.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Number(number) => vec![number.to_string()],
        Value::Bool(value) => vec![value.to_string()],
        Value::Array(several) => several.iter().filter(|it| !it.is_array()).flat_map(texts).collect(),
        Value::Null | Value::Object(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_texts() {
        let Value::Object(claims) = serde_json::json!({"sub": "a", "id": 7, "ok": true, "none": null,
            "groups": ["x", 1, ["y"], {}], "realm": {"roles": ["z"]}})
        else {
            panic!()
        };
        let identity =
            WebIdentity { issuer: String::new(), subject: String::new(), audience: String::new(), claims };
        let names = ["sub", "id", "ok", "none", "groups", "realm", "realm.roles", "absent", "sub"];
        let found = identity.claims(names.into_iter());
        let found: Vec<_> = found.iter().map(|claim| (&*claim.name, claim.values.join(","))).collect();
        let expected = [("sub", "a"), ("id", "7"), ("ok", "true"), ("groups", "x,1"), ("realm.roles", "z")];
        assert_eq!(found, expected.map(|(name, values)| (name, values.to_owned())));
    }
}
