//! The OpenID provider: its addresses (OpenID Connect Discovery 1.0), its keys, and the exchange of
//! codes for tokens.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::id_token::{self, Expected, ProviderKey, TokenError};
use crate::auth::{OidcPerson, Secret};
use crate::base::Clock;
use crate::client::Fetch;
use crate::s3::uri;

/// The longest silence of the provider.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long its addresses and keys are kept.
const KEPT: Duration = Duration::from_secs(60 * 60);
/// How long an unknown key is not asked for again: everybody may send tokens.
const ASKED_AGAIN: Duration = Duration::from_secs(10);

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
        if !is_safe(&self.issuer) {
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

pub(super) struct Provider {
    pub(super) settings: OidcSettings,
    clock: Arc<dyn Clock>,
    addresses: Mutex<Option<(Instant, Addresses)>>,
    keys: Mutex<Option<(Instant, Vec<ProviderKey>)>>,
}

/// The metadata of a provider (OpenID Connect Discovery 1.0, section 3).
#[derive(Debug, Clone, Deserialize)]
struct Addresses {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    /// OpenID Connect RP-Initiated Logout 1.0, section 2.1.
    end_session_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    id_token: String,
}

impl Provider {
    pub(super) fn new(settings: OidcSettings, clock: Arc<dyn Clock>) -> Self {
        Self { settings, clock, addresses: Mutex::default(), keys: Mutex::default() }
    }

    /// The address to which a browser is sent to sign in, without parameters.
    ///
    /// # Errors
    /// The provider cannot be asked.
    pub(super) fn authorization_endpoint(&self) -> Result<String, String> {
        Ok(self.addresses()?.authorization_endpoint)
    }

    /// The address to which a browser is sent to sign out, without parameters; `None` if the
    /// provider has none.
    ///
    /// # Errors
    /// The provider cannot be asked.
    pub(super) fn end_session_endpoint(&self) -> Result<Option<String>, String> {
        Ok(self.addresses()?.end_session_endpoint)
    }

    /// Exchanges a code for a token (RFC 6749, section 4.1.3; RFC 7636, section 4.5), and checks
    /// the token.
    ///
    /// # Errors
    /// The provider cannot be asked, refuses the code, or its token is not accepted.
    pub(super) fn exchange(&self, exchange: &CodeExchange<'_>) -> Result<OidcPerson, String> {
        let token = self.token(exchange)?;
        let expected = Expected {
            issuer: &self.settings.issuer,
            client_id: &self.settings.client_id,
            nonce: exchange.nonce,
            now: self.clock.now().as_millis() as f64 / 1000.0,
            groups_claim: &self.settings.groups_claim,
        };
        let verified = match id_token::verify(&token, &self.keys(KEPT)?, &expected) {
            // Providers change their keys, and sign by the new one at once.
            Err(TokenError::UnknownKey) => id_token::verify(&token, &self.keys(ASKED_AGAIN)?, &expected),
            verified => verified,
        };
        verified.map_err(|error| match error {
            TokenError::UnknownKey => {
                "the provider's token is signed by a key that the provider does not show".to_owned()
            }
            TokenError::Refused(why) => format!("the provider's token is not accepted: {why}"),
        })
    }

    fn token(&self, exchange: &CodeExchange<'_>) -> Result<String, String> {
        let addresses = self.addresses()?;
        let mut form = fields(&[
            ("grant_type", "authorization_code"),
            ("code", exchange.code),
            ("redirect_uri", exchange.redirect_uri),
            ("client_id", &self.settings.client_id),
            ("code_verifier", exchange.verifier),
        ]);
        let mut lines = String::new();
        if let Some(secret) = &self.settings.client_secret {
            if addresses.takes_basic() {
                lines = basic(&self.settings.client_id, secret);
            } else {
                form = format!("{form}&{}", fields(&[("client_secret", secret.reveal())]));
            }
        }
        let answer: TokenAnswer = self.fetch(&addresses.token_endpoint, &lines, Some(&form))?;
        Ok(answer.id_token)
    }

    fn addresses(&self) -> Result<Addresses, String> {
        let now = self.clock.instant();
        let mut kept = lock(&self.addresses);
        if let Some((_, addresses)) = kept.as_ref().filter(|(asked, _)| now.duration_since(*asked) < KEPT) {
            return Ok(addresses.clone());
        }
        let issuer = &self.settings.issuer;
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let addresses: Addresses = self.fetch(&url, "", None)?;
        // Checked before they are kept: those of another issuer would send browsers elsewhere.
        addresses.check(issuer)?;
        *kept = Some((now, addresses.clone()));
        Ok(addresses)
    }

    /// The keys of the provider, of which those that this server does not know are left out. They
    /// are at most `age` old.
    fn keys(&self, age: Duration) -> Result<Vec<ProviderKey>, String> {
        let now = self.clock.instant();
        let url = self.addresses()?.jwks_uri;
        let mut kept = lock(&self.keys);
        if let Some((_, keys)) = kept.as_ref().filter(|(asked, _)| now.duration_since(*asked) < age) {
            return Ok(keys.clone());
        }
        let set: KeySet = self.fetch(&url, "", None)?;
        let keys: Vec<ProviderKey> =
            set.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).collect();
        *kept = Some((now, keys.clone()));
        Ok(keys)
    }

    fn fetch<T: DeserializeOwned>(&self, url: &str, lines: &str, form: Option<&str>) -> Result<T, String> {
        let authorities = self.settings.authorities.as_deref();
        let answer = Fetch { url, authorities, patience: PATIENCE, lines, form }.run()?;
        match answer.status {
            200 => serde_json::from_slice(&answer.into_body()).map_err(|error| format!("{url}: {error}")),
            status => {
                Err(format!("{url}: the provider answers {status} {}", error_code(&answer.into_body())))
            }
        }
    }
}

impl Addresses {
    fn check(&self, issuer: &str) -> Result<(), String> {
        if self.issuer != issuer {
            return Err(format!(
                "the provider calls itself {:?}, and the issuer of the settings is {issuer:?}",
                self.issuer
            ));
        }
        let all = [&self.authorization_endpoint, &self.token_endpoint, &self.jwks_uri];
        match all.into_iter().chain(&self.end_session_endpoint).find(|url| !is_safe(url)) {
            Some(url) => Err(format!("the provider names an address without TLS: {url:?}")),
            None => Ok(()),
        }
    }

    /// Whether the secret may be sent in a header: so by default, and preferred (RFC 6749, section
    /// 2.3.1).
    fn takes_basic(&self) -> bool {
        let methods = &self.token_endpoint_auth_methods_supported;
        methods.is_empty() || methods.iter().any(|method| method == "client_secret_basic")
    }
}

/// Takes a lock that is held while the provider is asked, so that one worker asks for all. Nothing
/// is kept before its answer is read, so a panic on the way leaves what was kept before.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether nobody on the way can read or change what is sent to the URL.
fn is_safe(url: &str) -> bool {
    let is_plain = url.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\\"<>#".contains(&byte));
    let host = url.strip_prefix("http://").map(|rest| rest.split(['/', '?']).next().unwrap_or_default());
    let is_local = host.is_some_and(|host| {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        matches!(name, "localhost" | "127.0.0.1" | "[::1]")
    });
    is_plain && (url.starts_with("https://") || is_local)
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
    use super::*;

    #[test]
    fn addresses_need_tls_or_are_on_this_host() {
        for url in [
            "https://id.example",
            "https://id.example/a?b",
            "http://127.0.0.1:9400/x",
            "http://localhost",
            "http://[::1]:1/",
        ] {
            assert!(is_safe(url), "{url}");
        }
        for url in [
            "http://id.example",
            "http://127.0.0.1.evil.example/",
            "ftp://x",
            "",
            "https://a b",
            "https://a\r\nX: y",
            "http://evil@127.0.0.1/",
        ] {
            assert!(!is_safe(url), "{url}");
        }
    }

    #[test]
    fn a_provider_that_calls_itself_otherwise_is_refused() {
        let text = r#"{"issuer": "https://a", "authorization_endpoint": "https://a/1", "token_endpoint": "https://a/2", "jwks_uri": "https://a/3"}"#;
        let addresses: Addresses = serde_json::from_str(text).unwrap();
        assert!(addresses.check("https://a").is_ok() && addresses.takes_basic());
        assert!(addresses.check("https://a/").is_err());
        let plain: Addresses = serde_json::from_str(&text.replace("https://a/2", "http://a/2")).unwrap();
        assert!(plain.check("https://a").is_err());
        let logout = text.replace("\"issuer\"", "\"end_session_endpoint\": \"http://a/4\", \"issuer\"");
        assert!(serde_json::from_str::<Addresses>(&logout).unwrap().check("https://a").is_err());
        let posts = Addresses {
            token_endpoint_auth_methods_supported: vec!["client_secret_post".into()],
            ..addresses
        };
        assert!(!posts.takes_basic());
    }

    #[test]
    fn errors_of_a_provider_are_shown_without_their_control_characters() {
        assert_eq!(error_code(b"{\"error\": \"invalid_grant\\r\\n\"}"), "invalid_grant");
        assert_eq!(error_code(b"<html>"), "");
    }
}
