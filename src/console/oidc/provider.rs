//! The OpenID provider of the console, and the exchange of codes for tokens.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::auth::{OidcPerson, Secret};
use crate::base::limits::{OIDC_DOCUMENT_MAX_BYTES, OIDC_FETCH_MAX_SECS};
use crate::base::{Clock, claim_at, is_confidential_url};
use crate::client::Fetch;
use crate::oidc::{Provider, ProviderError, ProviderSource, SignedToken, TokenClaims};
use crate::s3::uri;

/// The settings of an OpenID provider.
#[derive(Debug, Clone)]
pub struct OidcSettings {
    /// The URL of the issuer, as its tokens state it.
    pub issuer: String,
    /// The name of this server at the provider.
    pub client_id: String,
    /// The secret that the provider gave out with it; `None` for a public client.
    pub client_secret: Option<Secret>,
    /// The scopes to ask for, with spaces between them. `openid` is among them.
    pub scopes: String,
    /// The claim with the groups of a person; with dots between them, the names on the way to it.
    pub groups_claim: String,
    /// A PEM file with the authorities that sign the provider's certificate; `None` for those of
    /// the system.
    pub authorities: Option<PathBuf>,
}

impl OidcSettings {
    /// Checks the settings.
    ///
    /// # Errors
    /// A message, if the issuer is not reached over TLS and is not on this host, or `openid` is no
    /// scope.
    pub fn check(&self) -> Result<(), String> {
        if !is_confidential_url(&self.issuer) {
            return Err(format!(
                "the issuer {} must begin with https:// (http:// is for this host alone)",
                self.issuer
            ));
        }
        match self.scopes.split(' ').any(|scope| scope == "openid") {
            true => Ok(()),
            false => Err("the scopes must name openid".to_owned()),
        }
    }
}

/// A code, and what proves that it is for this server.
pub(super) struct CodeExchange<'a> {
    pub(super) code: &'a str,
    pub(super) verifier: &'a str,
    pub(super) redirect_uri: &'a str,
    pub(super) nonce: &'a str,
}

/// Why nobody is signed in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SignInError {
    /// The provider is being asked by others.
    Busy,
    /// The reason.
    Failed(String),
}

impl From<ProviderError> for SignInError {
    fn from(error: ProviderError) -> Self {
        match error {
            ProviderError::Busy => Self::Busy,
            other => Self::Failed(other.to_string()),
        }
    }
}

/// The provider of the console.
pub(super) struct SignInProvider {
    pub(super) settings: OidcSettings,
    provider: Provider,
}

#[derive(Deserialize)]
struct TokenAnswer {
    id_token: String,
}

impl SignInProvider {
    pub(super) fn new(settings: OidcSettings, clock: Arc<dyn Clock>) -> Self {
        let source = ProviderSource {
            issuer: settings.issuer.clone(),
            authorities: settings.authorities.clone(),
            keys_file: None,
        };
        Self { settings, provider: Provider::new(source, clock) }
    }

    /// The address to which a browser is sent to sign in, without parameters.
    ///
    /// # Errors
    /// The provider cannot be asked.
    pub(super) fn authorization_endpoint(&self) -> Result<String, SignInError> {
        let metadata = self.provider.metadata()?;
        Ok(metadata.authorization_endpoint().map_err(SignInError::Failed)?.to_owned())
    }

    /// The address to which a browser is sent to sign out, without parameters; `None` if the
    /// provider has none.
    ///
    /// # Errors
    /// The provider cannot be asked.
    pub(super) fn end_session_endpoint(&self) -> Result<Option<String>, SignInError> {
        let metadata = self.provider.metadata()?;
        let endpoint = metadata.end_session_endpoint().map_err(SignInError::Failed)?;
        Ok(endpoint.map(str::to_owned))
    }

    /// Exchanges a code for a token (RFC 6749, section 4.1.3; RFC 7636, section 4.5), and checks
    /// the token.
    ///
    /// # Errors
    /// The provider cannot be asked, refuses the code, or its token is not accepted.
    pub(super) fn exchange(&self, exchange: &CodeExchange<'_>) -> Result<OidcPerson, SignInError> {
        let token = self.token(exchange)?;
        let refused =
            |why: String| SignInError::Failed(format!("the provider's token is not accepted: {why}"));
        let token = SignedToken::parse(&token).map_err(refused)?;
        let claims = self.provider.verified(&token)?;
        self.person(claims, exchange.nonce).map_err(|why| refused(why.to_owned()))
    }

    /// The person that a token is about, if it is for this server and for this attempt.
    fn person(&self, claims: TokenClaims, nonce: &str) -> Result<OidcPerson, &'static str> {
        let client = &self.settings.client_id;
        let is_ours =
            claims.audiences().contains(client) && claims.party.as_ref().is_none_or(|party| party == client);
        if !is_ours {
            return Err("it is for another client");
        }
        if claims.nonce.as_deref() != Some(nonce) {
            return Err("it is for another attempt to sign in");
        }
        if claims.subject.is_empty() {
            return Err("it is about nobody");
        }
        let groups = groups(&claims.all, &self.settings.groups_claim);
        let named = ["preferred_username", "email", "name"];
        let name = named.iter().find_map(|name| claims.all.get(*name)?.as_str());
        let name = name.unwrap_or(&claims.subject).to_owned();
        Ok(OidcPerson { subject: claims.subject, name, groups })
    }

    fn token(&self, exchange: &CodeExchange<'_>) -> Result<String, SignInError> {
        let metadata = self.provider.metadata()?;
        let url = metadata.token_endpoint().map_err(SignInError::Failed)?;
        let mut form = fields(&[
            ("grant_type", "authorization_code"),
            ("code", exchange.code),
            ("redirect_uri", exchange.redirect_uri),
            ("client_id", &self.settings.client_id),
            ("code_verifier", exchange.verifier),
        ]);
        let mut lines = String::new();
        if let Some(secret) = &self.settings.client_secret {
            if metadata.takes_basic() {
                lines = basic(&self.settings.client_id, secret);
            } else {
                form = format!("{form}&{}", fields(&[("client_secret", secret.reveal())]));
            }
        }
        let fetch = Fetch {
            url,
            authorities: self.settings.authorities.as_deref(),
            time_max: Duration::from_secs(OIDC_FETCH_MAX_SECS),
            body_max_bytes: OIDC_DOCUMENT_MAX_BYTES,
            lines: &lines,
            form: Some(&form),
        };
        let answer = fetch.run().map_err(SignInError::Failed)?;
        let status = answer.status;
        let body = answer.into_body();
        if status != 200 {
            let code = error_code(&body);
            return Err(SignInError::Failed(format!("{url}: the provider answers {status} {code}")));
        }
        let answer: Result<TokenAnswer, _> = serde_json::from_slice(&body);
        Ok(answer.map_err(|error| SignInError::Failed(format!("{url}: {error}")))?.id_token)
    }
}

/// The groups in a claim: a text, or a list of texts.
fn groups(claims: &Map<String, Value>, claim: &str) -> Vec<String> {
    let values = match claim_at(claims, claim) {
        Some(Value::Array(several)) => several.as_slice(),
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Fields of a form, or parameters of a query.
pub(super) fn fields(fields: &[(&str, &str)]) -> String {
    let pairs = fields.iter().map(|(name, value)| format!("{name}={}", uri::encode_query(value)));
    pairs.collect::<Vec<_>>().join("&")
}

fn basic(client_id: &str, secret: &Secret) -> String {
    let pair = format!("{}:{}", uri::encode_query(client_id), uri::encode_query(secret.reveal()));
    format!("Authorization: Basic {}\r\n", BASE64.encode(pair))
}

/// The code in an error of a provider, made fit for a log.
fn error_code(body: &[u8]) -> String {
    let document: Value = serde_json::from_slice(body).unwrap_or_default();
    let code = document.get("error").and_then(Value::as_str).unwrap_or_default();
    code.chars().filter(char::is_ascii_graphic).take(60).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::SystemClock;

    fn person(name: &str, value: Value) -> Result<OidcPerson, &'static str> {
        let settings = OidcSettings {
            issuer: "https://id.example".to_owned(),
            client_id: "siltstone".to_owned(),
            client_secret: None,
            scopes: "openid".to_owned(),
            groups_claim: "groups".to_owned(),
            authorities: None,
        };
        let mut claims = json!({"iss": "https://id.example", "sub": "7", "aud": "siltstone", "exp": 1, "iat": 1,
            "nonce": "n-1", "groups": ["ops", 7, "staff"], "preferred_username": "ann"});
        claims[name] = value;
        SignInProvider::new(settings, Arc::new(SystemClock))
            .person(TokenClaims::parse(claims.to_string().as_bytes()).unwrap(), "n-1")
    }

    #[test]
    fn a_token_for_this_client_and_attempt_tells_the_person_and_its_groups() {
        for (name, value) in
            [("aud", json!("siltstone")), ("aud", json!(["other", "siltstone"])), ("azp", json!("siltstone"))]
        {
            let person = person(name, value).unwrap();
            assert_eq!((&*person.subject, &*person.name), ("7", "ann"));
            assert_eq!(person.groups, ["ops", "staff"]);
        }
        for (name, value) in [
            ("aud", json!("other")),
            ("aud", json!([])),
            ("azp", json!("other")),
            ("nonce", json!("n-2")),
            ("nonce", Value::Null),
            ("sub", json!("")),
        ] {
            assert!(person(name, value.clone()).is_err(), "{name} {value}");
        }
    }

    #[test]
    fn groups_are_a_text_or_texts() {
        let claims = json!({"role": "b", "realm_access": {"roles": ["c"]}});
        let found = |claim: &str| groups(claims.as_object().unwrap(), claim);
        assert_eq!(found("role"), ["b"]);
        assert_eq!(found("realm_access.roles"), ["c"]);
        assert!(found("none").is_empty() && found("realm_access").is_empty());
    }

    #[test]
    fn errors_of_a_provider_are_shown_without_their_control_characters() {
        assert_eq!(error_code(b"{\"error\": \"invalid_grant\\r\\n\"}"), "invalid_grant");
        assert_eq!(error_code(b"<html>"), "");
    }
}
