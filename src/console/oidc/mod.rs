//! Signing in by an OpenID provider: the authorization code flow with PKCE (OpenID Connect Core
//! 1.0, section 3.1; RFC 7636).
//!
//! The server keeps nothing of an attempt. A secret in a cookie of the browser gives its state, its
//! nonce and its verifier, each as a hash, so that only this browser can end the attempt, and only
//! with a token for it.

mod provider;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64_URL;
use log::{info, warn};
use subtle::ConstantTimeEq as _;

pub use provider::OidcSettings;

use super::address::{self, ConsoleRoot};
use super::s3_client::Refusal;
use super::{Console, cookie, form, sessions};
use crate::auth::Identity;
use crate::base::Clock;
use crate::base::digest::Sha256;
use crate::s3::{Request, Response};
use crate::service::client_address;
use provider::{CodeExchange, SignInError, SignInProvider, fields};

/// Workers that may wait for the provider at a time.
const WAITING_MAX: usize = 2;
const FAILED: &str = "The OpenID provider did not sign you in. The log of the server tells why.";
const UNKNOWN: &str =
    "You are signed in at the provider, but no user of this server is for you. Ask its operator.";
const STALE: &str =
    "This attempt to sign in was not begun in this browser, or took longer than ten minutes. Try again.";
const BUSY: &str = "The server is waiting for the OpenID provider. Try again in a few seconds.";

/// The way to sign in by a provider.
pub(super) struct Oidc {
    provider: SignInProvider,
    waiting: AtomicUsize,
}

impl Oidc {
    pub(super) fn new(settings: OidcSettings, clock: Arc<dyn Clock>) -> Self {
        Self { provider: SignInProvider::new(settings, clock), waiting: AtomicUsize::new(0) }
    }

    /// Runs `ask`, unless too many workers wait for the provider already.
    fn asking<T>(&self, ask: impl FnOnce() -> Result<T, SignInError>) -> Result<T, SignInError> {
        // A provider that does not answer must not take all workers.
        let others = self.waiting.fetch_add(1, Ordering::Relaxed);
        let answer = if others < WAITING_MAX { ask() } else { Err(SignInError::Busy) };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        answer
    }
}

/// The values of an attempt, all from the secret of its browser.
struct Attempt {
    state: String,
    nonce: String,
    verifier: String,
}

impl Attempt {
    fn of(secret: &str) -> Self {
        Self {
            state: Self::derived("state", secret),
            nonce: Self::derived("nonce", secret),
            verifier: Self::derived("verifier", secret),
        }
    }

    fn derived(purpose: &str, secret: &str) -> String {
        BASE64_URL.encode(Sha256::of(format!("{purpose} {secret}").as_bytes()))
    }

    /// The challenge of the verifier (RFC 7636, section 4.2, S256).
    fn challenge(&self) -> String {
        BASE64_URL.encode(Sha256::of(self.verifier.as_bytes()))
    }
}

impl Console {
    /// The same console, which also lets people sign in whom a provider vouches for.
    #[must_use]
    pub fn with_oidc(self, settings: OidcSettings) -> Self {
        let clock = Arc::clone(&self.clock);
        Self { oidc: Some(Oidc::new(settings, clock)), ..self }
    }

    /// Sends the browser to the provider.
    ///
    /// # Errors
    /// There is no provider; the query is malformed.
    pub(super) fn begin_oidc(&self, request: &Request<'_>) -> Result<Response, Refusal> {
        let oidc = self.oidc.as_ref().ok_or_else(Refusal::not_found)?;
        let query = form::query(request)?;
        let next = query.get("next").filter(|next| self.root.is_local(next)).unwrap_or(self.root.as_str());
        let endpoint = match oidc.asking(|| oidc.provider.authorization_endpoint()) {
            Ok(endpoint) => endpoint,
            Err(error) => return Ok(self.not_signed_in(&error, self.root.as_str())),
        };
        let secret = sessions::new_secret(&*self.entropy);
        let location = self.authorization(&oidc.provider.settings, &endpoint, request, &Attempt::of(&secret));
        Ok(cookie::begin_attempt(
            &self.root,
            Response::new(303).header("Location", location),
            request,
            &secret,
            next,
        ))
    }

    fn authorization(
        &self,
        settings: &OidcSettings,
        endpoint: &str,
        request: &Request<'_>,
        attempt: &Attempt,
    ) -> String {
        let query = fields(&[
            ("response_type", "code"),
            ("client_id", &settings.client_id),
            ("redirect_uri", &redirect_uri(&self.root, request)),
            ("scope", &settings.scopes),
            ("state", &attempt.state),
            ("nonce", &attempt.nonce),
            ("code_challenge", &attempt.challenge()),
            ("code_challenge_method", "S256"),
        ]);
        with_query(endpoint, &query)
    }

    /// The address at which a person signs out of the provider, too (OpenID Connect RP-Initiated
    /// Logout 1.0, section 2). `None` for a user who entered keys, and if the provider offers none
    /// or cannot be asked. The session holds no token that could be its hint, so that providers may
    /// ask the person to confirm.
    pub(super) fn sign_out_address(&self, identity: &Identity) -> Option<String> {
        let oidc = self.oidc.as_ref().filter(|_| identity.person().is_some())?;
        let endpoint = match oidc.asking(|| oidc.provider.end_session_endpoint()) {
            Ok(endpoint) => endpoint?,
            Err(SignInError::Busy) => return None,
            Err(SignInError::Failed(why)) => {
                warn!("console: the OpenID provider does not tell where people sign out: {why}");
                return None;
            }
        };
        Some(with_query(&endpoint, &fields(&[("client_id", &oidc.provider.settings.client_id)])))
    }

    /// The browser comes back from the provider.
    ///
    /// # Errors
    /// There is no provider; the query is malformed.
    pub(super) fn end_oidc(&self, request: &Request<'_>) -> Result<Response, Refusal> {
        let oidc = self.oidc.as_ref().ok_or_else(Refusal::not_found)?;
        let query = form::query(request)?;
        let Some((secret, next)) = cookie::attempt(&self.root, request) else {
            return Ok(self.sign_in_form(403, self.root.as_str(), Some(STALE)));
        };
        // The state comes first: a code that another browser was given signs nobody in here.
        let attempt = Attempt::of(&secret);
        let state = query.get("state").unwrap_or_default();
        if !bool::from(attempt.state.as_bytes().ct_eq(state.as_bytes())) {
            return Ok(self.sign_in_form(403, self.root.as_str(), Some(STALE)));
        }
        // A provider that the browser was sent to by someone else must not pass for ours: RFC 9207.
        let issuer = query.get("iss").unwrap_or(&oidc.provider.settings.issuer);
        let response = match query.get("code").filter(|_| issuer == oidc.provider.settings.issuer) {
            Some(code) => self.end_attempt(oidc, request, &attempt, code, &next),
            None => self.failed(&format!("it reports {:?}", query.get("error").unwrap_or_default())),
        };
        Ok(cookie::end_attempt(&self.root, response, request))
    }

    fn end_attempt(
        &self,
        oidc: &Oidc,
        request: &Request<'_>,
        attempt: &Attempt,
        code: &str,
        next: &str,
    ) -> Response {
        let verifier = &*attempt.verifier;
        let nonce = &*attempt.nonce;
        let redirect_uri = &*redirect_uri(&self.root, request);
        let person = match oidc
            .asking(|| oidc.provider.exchange(&CodeExchange { code, verifier, redirect_uri, nonce }))
        {
            Ok(person) => person,
            Err(error) => return self.not_signed_in(&error, next),
        };
        let address = client_address(request, &self.is_trusted_proxy);
        let subject = person.subject.clone();
        let name = person.name.clone();
        let Some(key) = self.authenticator.admit_person(person) else {
            warn!(
                "console: {name:?} (subject {subject:?}) of the OpenID provider is no user here, from {address:?}"
            );
            return self.sign_in_form(403, next, Some(UNKNOWN));
        };
        info!(
            "console: {name:?} (subject {subject:?}) of the OpenID provider signed in with {} from {address:?}",
            key.access_key()
        );
        self.start_session(request, key, next)
    }

    fn not_signed_in(&self, error: &SignInError, next: &str) -> Response {
        match error {
            SignInError::Busy => self.sign_in_form(503, next, Some(BUSY)),
            SignInError::Failed(why) => self.failed(why),
        }
    }

    fn failed(&self, why: &str) -> Response {
        warn!("console: signing in by the OpenID provider failed: {why}");
        self.sign_in_form(502, self.root.as_str(), Some(FAILED))
    }
}

fn with_query(endpoint: &str, query: &str) -> String {
    format!("{endpoint}{}{query}", if endpoint.contains('?') { "&" } else { "?" })
}

/// The address to which the provider sends the browser back. It is to be registered there.
fn redirect_uri(root: &ConsoleRoot, request: &Request<'_>) -> String {
    format!("{}{}", address::origin(request), root.link("oidc/callback"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_an_attempt_differ_and_come_from_its_secret() {
        let one = Attempt::of("1");
        let again = Attempt::of("1");
        let other = Attempt::of("2");
        assert_eq!((&one.state, &one.nonce, &one.verifier), (&again.state, &again.nonce, &again.verifier));
        let all = std::collections::HashSet::from([
            &one.state,
            &one.nonce,
            &one.verifier,
            &other.state,
            &other.nonce,
        ]);
        assert_eq!(all.len(), 5);
        assert!((43..=128).contains(&one.verifier.len()), "RFC 7636, section 4.1");
        // RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
        let attempt = Attempt { verifier, state: String::new(), nonce: String::new() };
        assert_eq!(attempt.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
