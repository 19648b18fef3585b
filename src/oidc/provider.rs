//! A provider: its addresses and its keys.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::key::{ProviderKey, parse_keys};
use super::token::{SignatureProblem, SignedToken, TimeProblem, TokenClaims};
use crate::base::limits::{OIDC_DOCUMENT_MAX_BYTES, OIDC_FETCH_MAX_SECS};
use crate::base::{Clock, is_confidential_url};
use crate::client::Fetch;

/// How long the addresses and keys of a provider are used without asking it again.
const FRESH: Duration = Duration::from_secs(60 * 60);
/// How long they are used at all, where the provider cannot be asked.
const KEPT_MAX: Duration = Duration::from_secs(2 * 60 * 60);
/// How long an unknown key is not asked for again, and a failure is kept.
const ASKED_AGAIN: Duration = Duration::from_secs(10);
/// How long others wait for the request that asks, since it began: who comes later waits less, so
/// that many of them one after another hold a worker no longer than one.
const WAITED_MAX: Duration = Duration::from_secs(2);
/// Requests that wait for one that asks over the network.
const WAITING_MAX: usize = 4;

/// Where the keys of a provider come from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProviderSource {
    /// The URL of the issuer, as its tokens state it.
    pub issuer: String,
    /// A PEM file with the authorities that sign the provider's certificate; `None` for those of
    /// the system.
    pub authorities: Option<PathBuf>,
    /// A file with the keys (RFC 7517), so that the provider is not asked.
    pub keys_file: Option<PathBuf>,
}

/// Why a token is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderError {
    /// Another request is asking the provider.
    Busy,
    /// The provider cannot be asked. The reason.
    Away(String),
    /// The token has expired.
    Expired,
    /// It is not valid. The reason.
    Refused(String),
}

impl std::fmt::Display for ProviderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Busy => f.write_str("the provider is being asked by another request"),
            Self::Away(why) => write!(f, "the provider cannot be asked: {why}"),
            Self::Expired => f.write_str("the token has expired; are the clocks right?"),
            Self::Refused(why) => write!(f, "the token is not accepted: {why}"),
        }
    }
}

/// The metadata of a provider (OpenID Connect Discovery 1.0, section 3). Those for programs alone,
/// such as of Kubernetes, have no addresses for browsers, or some that are none.
#[derive(Debug, Clone, Deserialize)]
pub struct ProviderMetadata {
    issuer: String,
    jwks_uri: String,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    /// OpenID Connect RP-Initiated Logout 1.0, section 2.1.
    end_session_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

/// What a provider has told.
#[derive(Debug)]
struct ProviderAnswer {
    at: Instant,
    /// `None` where its keys are in a file.
    metadata: Option<Arc<ProviderMetadata>>,
    keys: Vec<ProviderKey>,
}

impl ProviderAnswer {
    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.at)
    }
}

#[derive(Debug)]
struct FailedAsking {
    at: Instant,
    why: String,
}

/// What is known of a provider.
#[derive(Debug, Default)]
struct KnownProvider {
    /// Until when others wait for the request that asks; `None` while none does.
    awaited_until: Option<Instant>,
    waiting: usize,
    told: Option<Arc<ProviderAnswer>>,
    failure: Option<FailedAsking>,
}

/// How old what a provider has told may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// As old as usual.
    Usual,
    /// As of this moment: a token has a key that is not known.
    NewKeys,
}

/// A provider that signs tokens.
pub struct Provider {
    source: ProviderSource,
    clock: Arc<dyn Clock>,
    /// Locked for moments, and never while the provider is asked.
    known: Mutex<KnownProvider>,
    /// Tells those who wait that the provider was asked.
    was_asked: Condvar,
}

impl Provider {
    pub fn new(source: ProviderSource, clock: Arc<dyn Clock>) -> Self {
        Self { source, clock, known: Mutex::default(), was_asked: Condvar::new() }
    }

    /// The metadata.
    ///
    /// # Errors
    /// [`ProviderError::Busy`] and [`ProviderError::Away`].
    pub fn metadata(&self) -> Result<Arc<ProviderMetadata>, ProviderError> {
        let told = self.told(Need::Usual)?;
        told.metadata.clone().ok_or_else(|| ProviderError::Away("its keys are in a file".to_owned()))
    }

    /// The claims of a token, once it is known to be of this provider and to count at this time.
    /// Whom it is for is for the caller to check.
    ///
    /// # Errors
    /// As [`ProviderError`].
    pub fn verified(&self, token: &SignedToken<'_>) -> Result<TokenClaims, ProviderError> {
        if token.stated_issuer() != self.source.issuer {
            return Err(ProviderError::Refused("it is of another issuer".to_owned()));
        }
        // Before the provider is asked: what is over needs no key.
        let claims = token.unverified();
        claims.check_times(self.clock.now()).map_err(|problem| match problem {
            TimeProblem::Expired => ProviderError::Expired,
            TimeProblem::Future => {
                ProviderError::Refused("it is from the future; are the clocks right?".to_owned())
            }
        })?;
        let checked = match token.check_signature(&self.told(Need::Usual)?.keys) {
            // Providers change their keys, and sign by the new one at once.
            Err(SignatureProblem::UnknownKey) => token.check_signature(&self.told(Need::NewKeys)?.keys),
            checked => checked,
        };
        checked.map_err(|problem| {
            ProviderError::Refused(match problem {
                SignatureProblem::UnknownKey => {
                    "it is signed by a key that the provider does not show".to_owned()
                }
                SignatureProblem::Wrong => {
                    "its signature is wrong, or of an algorithm that is not accepted".to_owned()
                }
            })
        })?;
        Ok(claims.clone())
    }

    /// What the provider has told, after asking it where that is too old.
    fn told(&self, need: Need) -> Result<Arc<ProviderAnswer>, ProviderError> {
        // A file costs little, and whoever changes or removes it expects that this counts.
        let is_remote = self.source.keys_file.is_none();
        let age_max = if is_remote && need == Need::Usual { FRESH } else { ASKED_AGAIN };
        let mut known = self.lock();
        loop {
            let now = self.clock.instant();
            if let Some(told) = known.told.as_ref().filter(|told| told.age(now) < age_max) {
                return Ok(Arc::clone(told));
            }
            let may_be_older = is_remote && need == Need::Usual;
            let older = known.told.clone().filter(|told| may_be_older && told.age(now) < KEPT_MAX);
            if let Some(until) = known.awaited_until {
                if let Some(older) = older {
                    return Ok(older);
                }
                known = self.wait(known, until)?;
                continue;
            }
            let failure = known.failure.as_ref();
            let recent = failure.filter(|failure| now.saturating_duration_since(failure.at) < ASKED_AGAIN);
            if let Some(failure) = recent {
                return older.ok_or_else(|| ProviderError::Away(failure.why.clone()));
            }
            known.awaited_until = Some(Instant::now() + WAITED_MAX);
            drop(known);
            return AskedProvider(self).ask().or_else(|why| older.ok_or(ProviderError::Away(why)));
        }
    }

    /// Waits for the request that asks, unless that takes too long or too many wait already: a slow
    /// provider must not take all workers.
    fn wait<'p>(
        &'p self,
        mut known: MutexGuard<'p, KnownProvider>,
        until: Instant,
    ) -> Result<MutexGuard<'p, KnownProvider>, ProviderError> {
        let left = until.saturating_duration_since(Instant::now());
        // A file is read in a moment, so that all may wait for it.
        let is_full = self.source.keys_file.is_none() && known.waiting >= WAITING_MAX;
        if left.is_zero() || is_full {
            return Err(ProviderError::Busy);
        }
        known.waiting += 1;
        let waited = self.was_asked.wait_timeout(known, left);
        let mut known = waited.unwrap_or_else(PoisonError::into_inner).0;
        known.waiting -= 1;
        Ok(known)
    }

    /// Asks the provider, or reads the file.
    fn ask(&self) -> Result<ProviderAnswer, String> {
        let until = Instant::now() + Duration::from_secs(OIDC_FETCH_MAX_SECS);
        if let Some(path) = &self.source.keys_file {
            let keys = read_short(path).and_then(|text| parse_keys(&text));
            let keys = keys.map_err(|why| format!("{}: {why}", path.display()))?;
            return Ok(ProviderAnswer { at: self.clock.instant(), metadata: None, keys });
        }
        let issuer = &self.source.issuer;
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let metadata: ProviderMetadata = parsed(&url, &self.fetch(&url, until)?)?;
        // Checked before it is kept: that of another issuer has keys of others.
        metadata.check(issuer)?;
        let url = &metadata.jwks_uri;
        let keys = parse_keys(&self.fetch(url, until)?).map_err(|why| format!("{url}: {why}"))?;
        Ok(ProviderAnswer { at: self.clock.instant(), metadata: Some(Arc::new(metadata)), keys })
    }

    fn fetch(&self, url: &str, until: Instant) -> Result<Vec<u8>, String> {
        let fetch = Fetch {
            url,
            authorities: self.source.authorities.as_deref(),
            time_max: until.saturating_duration_since(Instant::now()),
            body_max_bytes: OIDC_DOCUMENT_MAX_BYTES,
            lines: "",
            form: None,
        };
        let answer = fetch.run()?;
        match answer.status {
            200 => Ok(answer.into_body()),
            status => Err(format!("{url}: the provider answers {status}")),
        }
    }

    /// Nothing is kept before it is whole, so a panic on the way leaves what was known before.
    fn lock(&self) -> MutexGuard<'_, KnownProvider> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The provider while this request asks it.
struct AskedProvider<'p>(&'p Provider);

impl AskedProvider<'_> {
    /// Asks, and keeps what comes of it.
    fn ask(self) -> Result<Arc<ProviderAnswer>, String> {
        let asked = self.0.ask();
        let mut known = self.0.lock();
        match asked {
            Ok(told) => {
                let told = Arc::new(told);
                known.told = Some(Arc::clone(&told));
                known.failure = None;
                Ok(told)
            }
            Err(why) => {
                // Once, and not every few seconds for as long as it lasts.
                if known.failure.as_ref().is_none_or(|failure| failure.why != why) {
                    log::warn!("the provider {} was asked in vain: {why}", self.0.source.issuer);
                }
                known.failure = Some(FailedAsking { at: self.0.clock.instant(), why: why.clone() });
                Err(why)
            }
        }
    }
}

impl Drop for AskedProvider<'_> {
    /// Lets others ask, whatever became of it.
    fn drop(&mut self) {
        self.0.lock().awaited_until = None;
        self.0.was_asked.notify_all();
    }
}

impl ProviderMetadata {
    fn check(&self, issuer: &str) -> Result<(), String> {
        if self.issuer != issuer {
            let named: String = self.issuer.chars().take(200).collect();
            return Err(format!(
                "the provider calls itself {named:?}, and the issuer of the settings is {issuer:?}"
            ));
        }
        checked_address(&self.jwks_uri).map(drop)
    }

    /// The address to which a browser is sent to sign in, without parameters.
    ///
    /// # Errors
    /// There is none, or none with TLS.
    pub fn authorization_endpoint(&self) -> Result<&str, String> {
        let address = self.authorization_endpoint.as_deref();
        address
            .ok_or_else(|| "the provider names no authorization_endpoint".to_owned())
            .and_then(checked_address)
    }

    /// The address at which codes are exchanged for tokens.
    ///
    /// # Errors
    /// There is none, or none with TLS.
    pub fn token_endpoint(&self) -> Result<&str, String> {
        let address = self.token_endpoint.as_deref();
        address.ok_or_else(|| "the provider names no token_endpoint".to_owned()).and_then(checked_address)
    }

    /// The address to which a browser is sent to sign out, without parameters; `None` if the
    /// provider has none.
    ///
    /// # Errors
    /// It is not one with TLS.
    pub fn end_session_endpoint(&self) -> Result<Option<&str>, String> {
        self.end_session_endpoint.as_deref().map(checked_address).transpose()
    }

    /// Whether the secret may be sent in a header: so by default, and preferred (RFC 6749, section
    /// 2.3.1).
    pub fn takes_basic(&self) -> bool {
        let methods = &self.token_endpoint_auth_methods_supported;
        methods.is_empty() || methods.iter().any(|method| method == "client_secret_basic")
    }
}

fn checked_address(url: &str) -> Result<&str, String> {
    match is_confidential_url(url) {
        true => Ok(url),
        false => {
            let named: String = url.chars().take(200).collect();
            Err(format!("the provider names an address without TLS: {named:?}"))
        }
    }
}

fn parsed<T: DeserializeOwned>(url: &str, document: &[u8]) -> Result<T, String> {
    serde_json::from_slice(document).map_err(|error| format!("{url}: {error}"))
}

/// Reads a file of the operator. One that never ends, such as a pipe, is refused unread.
fn read_short(path: &Path) -> Result<Vec<u8>, String> {
    // Before it is opened: a pipe without a writer would be waited for.
    if !std::fs::metadata(path).map_err(|error| error.to_string())?.is_file() {
        return Err("it is no file".to_owned());
    }
    let mut text = Vec::new();
    let read = File::open(path)
        .and_then(|file| file.take(OIDC_DOCUMENT_MAX_BYTES as u64 + 1).read_to_end(&mut text));
    match read.map_err(|error| error.to_string())? {
        0..=OIDC_DOCUMENT_MAX_BYTES => Ok(text),
        _ => Err(format!("it has more than {OIDC_DOCUMENT_MAX_BYTES} bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SystemClock;

    fn told(provider: &Provider) -> Result<usize, ProviderError> {
        provider.told(Need::Usual).map(|told| told.keys.len())
    }

    #[test]
    fn few_requests_wait_for_the_one_that_asks_and_only_for_a_while() {
        let source = ProviderSource { issuer: "https://a".to_owned(), authorities: None, keys_file: None };
        let provider = Provider::new(source, Arc::new(SystemClock));
        // A request asks, and others wait for it as long as this test takes.
        provider.lock().awaited_until = Some(Instant::now() + Duration::from_secs(600));
        let asking = AskedProvider(&provider);
        std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..WAITING_MAX).map(|_| scope.spawn(|| told(&provider))).collect();
            while provider.lock().waiting < WAITING_MAX && waiting.iter().all(|it| !it.is_finished()) {
                std::thread::yield_now();
            }
            assert_eq!(provider.lock().waiting, WAITING_MAX);
            assert_eq!(told(&provider), Err(ProviderError::Busy), "one too many");
            let answer = ProviderAnswer { at: provider.clock.instant(), metadata: None, keys: Vec::new() };
            provider.lock().told = Some(Arc::new(answer));
            drop(asking);
            for waiting in waiting {
                assert_eq!(waiting.join().unwrap(), Ok(0));
            }
        });
        assert_eq!(provider.lock().waiting, 0);
        let late = Provider::new(provider.source.clone(), Arc::new(SystemClock));
        late.lock().awaited_until = Some(Instant::now());
        assert_eq!(told(&late), Err(ProviderError::Busy), "it takes too long");
    }

    #[test]
    fn a_provider_that_calls_itself_otherwise_is_refused() {
        let text = r#"{"issuer": "https://a", "authorization_endpoint": "https://a/1", "token_endpoint": "https://a/2", "jwks_uri": "https://a/3"}"#;
        let metadata: ProviderMetadata = serde_json::from_str(text).unwrap();
        assert!(metadata.check("https://a").is_ok() && metadata.takes_basic());
        assert!(metadata.check("https://a/").is_err());
        let plain: ProviderMetadata =
            serde_json::from_str(&text.replace("https://a/3", "http://a/3")).unwrap();
        assert!(plain.check("https://a").is_err());
        let posts = ProviderMetadata {
            token_endpoint_auth_methods_supported: vec!["client_secret_post".into()],
            ..metadata
        };
        assert!(!posts.takes_basic());
    }

    #[test]
    fn a_provider_for_programs_needs_no_addresses_for_browsers() {
        for (more, has) in [
            ("", false),
            (r#", "authorization_endpoint": "urn:kubernetes:programmatic_authorization""#, false),
            (r#", "token_endpoint": "http://a/2", "end_session_endpoint": "http://a/4""#, false),
            (r#", "authorization_endpoint": "https://a/1", "token_endpoint": "https://a/2""#, true),
        ] {
            let text = format!(r#"{{"issuer": "https://a", "jwks_uri": "https://a/3"{more}}}"#);
            let metadata: ProviderMetadata = serde_json::from_str(&text).unwrap();
            assert!(metadata.check("https://a").is_ok(), "{more}");
            assert_eq!(metadata.authorization_endpoint().is_ok(), has, "{more}");
            assert_eq!(metadata.token_endpoint().is_ok(), has, "{more}");
            assert_eq!(metadata.end_session_endpoint().is_err(), more.contains("a/4"), "{more}");
        }
    }
}
