//! AssumeRoleWithWebIdentity: keys for those whom a provider vouches for. The call is not signed,
//! so everybody may make it: nothing that its token names is fetched, and who fails often waits.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::access_log::RequestLogEntry;
use super::{Service, client_address};
use crate::auth::{IssuedSession, TokenRoleRequest, TrustedIssuer, WebIdentity};
use crate::base::failure_counts::FailureCounts;
use crate::base::limits::WEB_IDENTITY_FAILURES_MAX;
use crate::base::{Clock, NOT_POISONED, OsEntropy, network_of};
use crate::oidc::{Provider, ProviderError, ProviderSource, SignedToken};
use crate::s3::query_call::CallParams;
use crate::s3::{CallError, Request};

/// The code of the error where a provider cannot be asked, so that its token is not judged.
pub(super) const PROVIDER_AWAY: &str = "IDPCommunicationError";

/// The refusal of a token that is for others.
const WRONG_AUDIENCE: &str = "Incorrect token audience";

/// The failed calls of the last minute, by network.
#[derive(Debug, Default)]
struct FailedCalls(Mutex<FailureCounts<Option<IpAddr>>>);

impl FailedCalls {
    /// Counts a call before its token is looked at. Returns whether it may be made.
    fn begin(&self, address: Option<IpAddr>, now: Instant) -> bool {
        let mut counts = self.0.lock().expect(NOT_POISONED);
        counts.begin(address.map(network_of), WEB_IDENTITY_FAILURES_MAX, now)
    }

    /// Takes a call back that was no failure of the network.
    fn take_back(&self, address: Option<IpAddr>) {
        self.0.lock().expect(NOT_POISONED).take_back(&address.map(network_of));
    }
}

/// The providers of the users file, with what they have told.
pub(super) struct WebIdentities {
    clock: Arc<dyn Clock>,
    /// By where their keys come from, so that they are asked again where that was changed.
    providers: Mutex<HashMap<ProviderSource, Arc<Provider>>>,
    failures: FailedCalls,
}

/// A session that a token was good for.
pub(super) struct VouchedSession {
    pub(super) identity: WebIdentity,
    pub(super) issued: IssuedSession,
}

impl WebIdentities {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, providers: Mutex::default(), failures: FailedCalls::default() }
    }

    /// The provider of an issuer, of those that the users file has.
    fn provider(&self, issuer: &TrustedIssuer, all: &[TrustedIssuer]) -> Arc<Provider> {
        let mut providers = self.providers.lock().expect(NOT_POISONED);
        let source = source_of(issuer);
        if let Some(provider) = providers.get(&source) {
            return Arc::clone(provider);
        }
        let current: Vec<_> = all.iter().map(source_of).collect();
        providers.retain(|source, _| current.contains(source));
        let provider = Arc::new(Provider::new(source.clone(), Arc::clone(&self.clock)));
        providers.insert(source, Arc::clone(&provider));
        provider
    }
}

fn source_of(issuer: &TrustedIssuer) -> ProviderSource {
    ProviderSource {
        issuer: issuer.url.clone(),
        authorities: issuer.authorities.clone(),
        keys_file: issuer.keys_file.clone(),
    }
}

impl Service {
    /// Hands out a session of a role to whom a provider vouches for.
    ///
    /// # Errors
    /// - `Throttling` where the network failed often;
    /// - `InvalidIdentityToken`, `ExpiredTokenException`, `IDPRejectedClaim`;
    /// - `IDPCommunicationError` where the provider cannot be asked, or is being asked;
    /// - those of the role and of the session.
    pub(super) fn assume_role_with_web_identity(
        &self,
        params: &CallParams,
        request: &Request<'_>,
        entry: &RequestLogEntry,
    ) -> Result<VouchedSession, CallError> {
        let address = client_address(request, &self.is_trusted_proxy);
        if !self.web_identities.failures.begin(address, self.recorder.clock.instant()) {
            return Err(CallError::new(400, "Throttling", "Rate exceeded"));
        }
        let vouched = self.vouched_session(params, request).inspect_err(|error| {
            log::info!("{} AssumeRoleWithWebIdentity: {}: {}", entry.id.as_str(), error.code, error.message);
        });
        // That the provider is away is no fault of the caller, whose token nobody has judged.
        if vouched.as_ref().err().is_none_or(|error| error.code == PROVIDER_AWAY) {
            self.web_identities.failures.take_back(address);
        }
        vouched
    }

    fn vouched_session(
        &self,
        params: &CallParams,
        request: &Request<'_>,
    ) -> Result<VouchedSession, CallError> {
        if params.get("ProviderId").is_some() {
            let message = "ProviderId is for tokens of OAuth 2.0, which are not taken";
            return Err(CallError::validation(message));
        }
        let asked = TokenRoleRequest {
            role_arn: params.required("RoleArn")?,
            session_name: params.required("RoleSessionName")?,
            duration_secs: params.number("DurationSeconds")?,
            policy: params.get("Policy"),
            policy_arns: params.members("PolicyArns", "arn")?,
            source_ip: request.peer.map(|peer| peer.ip()),
            secure: request.secure,
        };
        let identity = self.web_identity(params.required("WebIdentityToken")?)?;
        self.ensure_sealing_key();
        let issued = self.authenticator.assume_role_with_web_identity(&identity, &asked, &OsEntropy)?;
        Ok(VouchedSession { identity, issued })
    }

    /// Whom a token is about, if an issuer of the users file has signed it for this server.
    fn web_identity(&self, token: &str) -> Result<WebIdentity, CallError> {
        let token =
            SignedToken::parse(token).map_err(|why| invalid(&format!("the token cannot be read: {why}")))?;
        let all = self.authenticator.trusted_issuers();
        let issuer = all.iter().find(|issuer| issuer.url == token.stated_issuer());
        let issuer = issuer.ok_or_else(|| invalid("No OpenIDConnect provider found in your account"))?;
        // A provider without clients vouches for nobody, so that it need not be asked.
        if issuer.audiences.is_empty() {
            return Err(invalid(WRONG_AUDIENCE));
        }
        let claims = self.web_identities.provider(issuer, &all).verified(&token).map_err(refusal)?;
        if claims.subject.is_empty() {
            return Err(invalid("the token is about nobody"));
        }
        let audience = claims.audiences().iter().find(|audience| issuer.audiences.contains(audience));
        let audience = audience.cloned().ok_or_else(|| invalid(WRONG_AUDIENCE))?;
        Ok(WebIdentity {
            issuer: issuer.url.clone(),
            subject: claims.subject.clone(),
            audience,
            claims: claims.all,
        })
    }
}

fn invalid(message: &str) -> CallError {
    CallError::new(400, "InvalidIdentityToken", message)
}

/// The error of STS for a token that is not accepted. What a provider answers is for the log alone.
fn refusal(error: ProviderError) -> CallError {
    match error {
        ProviderError::Refused(why) => invalid(&format!("the token is not accepted: {why}")),
        ProviderError::Expired => CallError::new(400, "ExpiredTokenException", "Token expired"),
        ProviderError::Busy => CallError::new(
            400,
            PROVIDER_AWAY,
            "The identity provider is being asked for its keys. Try again.",
        ),
        ProviderError::Away(_) => CallError::new(
            400,
            PROVIDER_AWAY,
            "The identity provider cannot be asked for its keys. The log of the server tells why.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::failure_counts::{COUNTED_PARTIES_MAX, FAILURE_WINDOW};

    fn address(n: u32) -> Option<IpAddr> {
        Some(std::net::Ipv4Addr::from(n).into())
    }

    #[test]
    fn a_network_that_fails_often_waits_and_its_successes_do_not_count() {
        let counts = FailedCalls::default();
        let now = Instant::now();
        for _ in 0..1_000 {
            assert!(counts.begin(address(1), now));
            counts.take_back(address(1));
        }
        for _ in 0..WEB_IDENTITY_FAILURES_MAX {
            assert!(counts.begin(address(1), now));
        }
        assert!(!counts.begin(address(1), now + FAILURE_WINDOW - Duration::from_millis(1)));
        assert!(counts.begin(address(2), now), "another network");
        assert!(counts.begin(address(1), now + FAILURE_WINDOW));
    }

    #[test]
    fn many_networks_take_up_no_more_than_some() {
        let counts = FailedCalls::default();
        let now = Instant::now();
        for n in 0..3 * COUNTED_PARTIES_MAX as u32 {
            assert!(counts.begin(address(n), now));
        }
        assert_eq!(counts.0.lock().unwrap().parties().len(), COUNTED_PARTIES_MAX);
    }
}
