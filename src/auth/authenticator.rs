//! Authentication of requests.

use std::sync::{Arc, OnceLock, RwLock};

use crate::auth::canonical::{CanonicalRequest, SortedHeaders};
use crate::auth::chunked::ChunkSigner;
use crate::auth::payload::{PayloadKind, PayloadVerifier, UNSIGNED};
use crate::auth::post_form::{FormContext, FormGrant};
use crate::auth::presigned::{self, PresignedParams};
use crate::auth::presigned_v2::PresignedV2;
use crate::auth::session::token::SealingKey;
use crate::auth::signature::Signature;
use crate::auth::signature_params::SignatureParams;
use crate::auth::signing_key::{IAM_SERVICES, QUERY_SERVICES, SERVICE, SigningKey};
use crate::auth::user::Signer;
use crate::auth::users::PresentedKey;
use crate::auth::{Identity, Users, header, signature};
use crate::base::digest::{Sha256, to_hex};
use crate::base::{Clock, NOT_POISONED, Timestamp};
use crate::s3::dialect::V2_ACCESS_KEY;
use crate::s3::form::PostForm;
use crate::s3::query_call::QueryApi;
use crate::s3::route::Addressing;
use crate::s3::{Dialect, ErrorCode, Headers, QueryParams, Request, S3Error};

/// The region of calls of IAM, and that which clients sign for calls of STS without another one.
const GLOBAL_REGION: &str = "us-east-1";

/// Authenticates requests.
pub struct Authenticator {
    users: RwLock<Arc<Users>>,
    regions: Vec<String>,
    clock: Arc<dyn Clock>,
    /// How hosts name the bucket that version 2 signs; `None` if version 2 is refused.
    version_2: Option<Addressing>,
    /// Seals and opens tokens of sessions where the users file has no key for them.
    spare_key: OnceLock<SealingKey>,
}

impl Authenticator {
    /// Accepts signatures of `users` that are scoped to one of `regions`. Errors about another
    /// region name the first one.
    pub fn new(users: Users, regions: Vec<String>, clock: Arc<dyn Clock>) -> Self {
        Self {
            users: RwLock::new(Arc::new(users)),
            regions,
            clock,
            version_2: None,
            spare_key: OnceLock::new(),
        }
    }

    /// The same authenticator, which accepts URLs presigned by signature version 2 as well. Hosts
    /// name buckets by `addressing`.
    #[must_use]
    pub fn with_version_2(self, addressing: Addressing) -> Self {
        Self { version_2: Some(addressing), ..self }
    }

    /// Replaces the users, from the next request on. Requests under way keep their permissions.
    pub fn replace(&self, users: Users) {
        let mut current = self.users.write().expect(NOT_POISONED);
        users.keep_uses_of(&current);
        *current = Arc::new(users);
    }

    /// Authenticates the sender of `request`, whose query is `query`. Replaces the reader of the
    /// body by one that verifies it against the signed content hash, decodes `aws-chunked` and
    /// knows the decoded length. On an error the request is unchanged.
    ///
    /// # Errors
    /// - `InvalidRequest` for another scheme, for two signatures, for a signed request in the AWS
    ///   dialect without a content hash, and for a method that version 2 is not accepted for;
    /// - `AuthorizationHeaderMalformed` or `AuthorizationQueryParametersError` for malformed
    ///   signature parameters and for another region;
    /// - `RequestTimeTooSkewed`, or `AccessDenied` for a presigned URL that is expired or not yet
    ///   valid;
    /// - `InvalidAccessKeyId`; `InvalidToken` and `ExpiredToken` for the keys of sessions;
    ///   `AccessDenied` for unsigned headers and for malformed parameters of version 2;
    ///   `SignatureDoesNotMatch`;
    /// - `MissingContentLength`, `InvalidArgument`, `InvalidRequest` or `MalformedTrailerError` for
    ///   a wrong announcement of the body. Errors in the body itself appear when it is read.
    pub fn authenticate(
        &self,
        request: &mut Request<'_>,
        query: &QueryParams,
        dialect: Dialect,
    ) -> Result<Identity, S3Error> {
        // One version of the users file for the whole request. A reload in its midst would judge
        // the keys of one version by the policies of the next.
        let users = self.users();
        let signature = RequestSignature::find(request, query, dialect, SignedFor::S3)?;
        let (sender, of_chunks) = match &signature.params {
            FoundParams::None => (None, None),
            FoundParams::V4(params) => {
                let (signer, key, verified) = self.verify(&users, request, query, &signature, params)?;
                (Some(signer), Some((key, params, verified)))
            }
            FoundParams::V2 => (Some(self.verify_v2(&users, request, query)?), None),
        };
        // After the signature, and before the body is replaced: on an error the request is as it
        // was.
        let kind = PayloadKind::parse(signature.payload, dialect)?;
        let verifier = PayloadVerifier::new(&kind, &request.headers, dialect, || {
            let (key, params, verified) = of_chunks?;
            Some(ChunkSigner::new(key, &params.timestamp, params.scope, verified))
        })?;
        verifier.wrap(&mut request.body);
        Ok(self.identity(sender.as_deref(), users, request))
    }

    /// Authenticates the sender of a call of STS or IAM, whose body was read. Its signature covers
    /// the body, whether it says so or not.
    ///
    /// # Errors
    /// As [`Authenticator::authenticate`]; `XAmzContentSHA256Mismatch`.
    pub fn authenticate_call(
        &self,
        api: QueryApi,
        request: &Request<'_>,
        query: &QueryParams,
        dialect: Dialect,
        body: &[u8],
    ) -> Result<Identity, S3Error> {
        let users = self.users();
        let digest = to_hex(&Sha256::of(body));
        let services = match api {
            QueryApi::Sts => QUERY_SERVICES,
            QueryApi::Iam => IAM_SERVICES,
        };
        let signed_for = SignedFor { services, payload: Some(&digest) };
        let signature = RequestSignature::find(request, query, dialect, signed_for)?;
        let signer = match &signature.params {
            FoundParams::None => return Ok(self.anonymous()),
            FoundParams::V4(params) => self.verify(&users, request, query, &signature, params)?.0,
            FoundParams::V2 => return Err(header::other_scheme()),
        };
        // The signature covers the stated digest; only here it is compared with the body that came.
        match signature.payload == digest {
            true => Ok(self.identity(Some(&signer), users, request)),
            false => Err(S3Error::new(ErrorCode::XAmzContentSHA256Mismatch)),
        }
    }

    fn identity(&self, signer: Option<&Signer>, users: Arc<Users>, request: &Request<'_>) -> Identity {
        match signer {
            None => Identity::new(Arc::clone(users.anonymous()), users),
            Some(signer) => {
                let now = self.now();
                signer.note_use(now);
                Identity::of_signer(signer, users).sent_by(request, now)
            }
        }
    }

    /// Whether the users file has a key for the tokens of sessions.
    pub fn has_sealing_key(&self) -> bool {
        self.users().sealing_key().is_some()
    }

    /// Whether there is a key for the tokens of sessions, in the users file or of the process.
    pub fn can_seal(&self) -> bool {
        self.spare_key.get().is_some() || self.has_sealing_key()
    }

    /// Seals tokens with `key` where the users file has none, until the process ends.
    pub fn seal_with(&self, key: SealingKey) {
        self.spare_key.get_or_init(|| key);
    }

    /// The key that seals the tokens of new sessions.
    pub(super) fn sealing_key(&self, users: &Users) -> Option<SealingKey> {
        users.sealing_key().or(self.spare_key.get()).cloned()
    }

    /// When an access key was used last; `None` for never since the start, and for an unknown one.
    pub fn last_used(&self, access_key: &str) -> Option<Timestamp> {
        self.users().find(access_key)?.last_used()
    }

    /// When a session of a user was used last, or a service account; `None` for never since the
    /// start, and for an unknown one.
    pub fn sessions_last_used(&self, name: &str) -> Option<Timestamp> {
        self.users().named(name)?.session_use().time()
    }

    /// A user as if it had sent `request`; `None` for one who is not in effect.
    pub fn identity_of_user(&self, name: &str, request: &Request<'_>) -> Option<Identity> {
        let users = self.users();
        let user = if name == Users::ANONYMOUS { users.anonymous() } else { users.named(name)? };
        let user = Arc::clone(user);
        Some(Identity::new(user, users).sent_by(request, self.now()))
    }

    /// The sender of requests that are not signed.
    pub fn anonymous(&self) -> Identity {
        let users = self.users();
        Identity::new(Arc::clone(users.anonymous()), users)
    }

    /// Checks that a form, which is signed in its fields, is signed nowhere else.
    ///
    /// # Errors
    /// `InvalidRequest`; the errors of malformed parameters.
    pub fn check_unsigned(&self, headers: &Headers, query: &QueryParams) -> Result<(), S3Error> {
        // Two signatures could be of two senders, and a proxy might know another one of them.
        let mut presigned = query.has(V2_ACCESS_KEY);
        for dialect in Dialect::ALL {
            presigned |= PresignedParams::find(query, dialect)?.is_some();
        }
        if presigned || header::authorization(headers)?.is_some() {
            return Err(S3Error::new(ErrorCode::InvalidRequest)
                .message("A form is signed in its fields, not in its Authorization header or its query."));
        }
        Ok(())
    }

    /// Authenticates the sender of `form`, which `request` sent to `bucket`, by its fields, and
    /// checks its policy.
    ///
    /// # Errors
    /// - `InvalidArgument` for a missing or malformed field; `InvalidRequest` for version 2 if it
    ///   is refused;
    /// - `InvalidAccessKeyId`; `InvalidToken`; `ExpiredToken`; `SignatureDoesNotMatch`;
    /// - `InvalidPolicyDocument`; `AccessDenied` for a form that the policy does not permit.
    pub fn authenticate_form(
        &self,
        form: &PostForm,
        request: &Request<'_>,
        bucket: &str,
        dialect: Dialect,
    ) -> Result<FormGrant, S3Error> {
        let users = &self.users();
        let version_2 = self.version_2.is_some();
        let now = self.clock.now();
        let spare_key = self.spare_key.get();
        FormContext { users, regions: &self.regions, spare_key, version_2, now, dialect, bucket, request }
            .authenticate(form)
    }

    pub(super) fn users(&self) -> Arc<Users> {
        Arc::clone(&self.users.read().expect(NOT_POISONED))
    }

    /// The time by which sessions begin and end.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Verifies a signature. Returns who signed, the key, and the signature as bytes.
    fn verify(
        &self,
        users: &Users,
        request: &Request<'_>,
        query: &QueryParams,
        signature: &RequestSignature<'_>,
        params: &SignatureParams<'_>,
    ) -> Result<(Arc<Signer>, SigningKey, Signature), S3Error> {
        // Clients sign calls of STS and IAM for the global region, whichever the server has.
        if params.service == SERVICE || params.region != GLOBAL_REGION {
            params.check_region(&self.regions)?;
        }
        // The time before the key: a request that was recorded and is sent again later costs no
        // token that is opened, and no digest.
        let now = self.clock.now();
        params.check_time(now)?;
        let presented = PresentedKey { access_key: params.access_key, token: signature.token };
        let signer = users.signer(presented, self.spare_key.get(), now)?;
        let key = signer.signing_key(params.date, params.region, params.service);
        let headers = SortedHeaders::of(&request.headers);
        // Before the signature is compared: one that leaves out a header that counts proves nothing
        // about it.
        params.check_headers(&headers, signature.dialect)?;
        let canonical = CanonicalRequest {
            method: request.method.as_str(),
            path: &request.path,
            query,
            signature_param: signature.signature_param,
            headers: &headers,
            signed_headers: params.signed_headers,
            payload: signature.payload,
        };
        let verified = signature::verify(params, &key, &canonical)?;
        Ok((signer, key, verified))
    }

    /// Verifies a URL presigned by version 2. Returns the user who signed, with keys that are not
    /// of a session.
    fn verify_v2(
        &self,
        users: &Users,
        request: &Request<'_>,
        query: &QueryParams,
    ) -> Result<Arc<Signer>, S3Error> {
        let addressing = self.version_2.as_ref().ok_or_else(header::other_scheme)?;
        let params = PresignedV2::find(query)?;
        check_no_token(&request.headers, query)?;
        // Before the signature: a parameter that it does not cover may be anybody's.
        PresignedV2::check_request(&request.method, query)?;
        let now = self.clock.now();
        params.check_time(now)?;
        let signer = users.signer(PresentedKey { access_key: params.access_key, token: None }, None, now)?;
        let bucket = addressing.bucket_of_host(request.headers.get_str("host").unwrap_or_default());
        params.verify(&signer, request, query, bucket.as_deref())?;
        Ok(signer)
    }
}

/// Refuses the keys of a session where version 2 signs.
fn check_no_token(headers: &Headers, query: &QueryParams) -> Result<(), S3Error> {
    for dialect in Dialect::ALL {
        let in_header = header::vendor(headers, dialect, "security-token")?;
        let of_header = format!("{}security-token", dialect.header_prefix());
        let of_query = format!("{}Security-Token", dialect.query_prefix());
        if in_header.is_some() || query.has(&of_header) || query.has(&of_query) {
            return Err(header::sessions_sign_by_v4());
        }
    }
    Ok(())
}

/// The parameters of a signature, by its version.
enum FoundParams<'r> {
    /// An anonymous request.
    None,
    /// Version 4, in the header or in the query.
    V4(SignatureParams<'r>),
    /// Version 2, in the query; not parsed, since it may be refused.
    V2,
}

/// What a signature may be for.
#[derive(Clone, Copy)]
struct SignedFor<'r> {
    /// The services that the credential may be scoped to.
    services: &'r [&'r str],
    /// The digest of the body, where it was read; it stands for one that is not stated.
    payload: Option<&'r str>,
}

impl SignedFor<'_> {
    const S3: Self = Self { services: &[SERVICE], payload: None };
}

/// The signature of a request, wherever it stands, before it is verified.
struct RequestSignature<'r> {
    dialect: Dialect,
    params: FoundParams<'r>,
    /// The query parameter that holds the signature of a presigned URL.
    signature_param: Option<&'static str>,
    /// The content hash, or the keyword in its place.
    payload: &'r str,
    /// The token of a session.
    token: Option<&'r str>,
}

impl<'r> RequestSignature<'r> {
    fn find(
        request: &'r Request<'_>,
        query: &'r QueryParams,
        dialect: Dialect,
        signed_for: SignedFor<'r>,
    ) -> Result<Self, S3Error> {
        let services = signed_for.services;
        let authorization = header::authorization(&request.headers)?;
        let presigned = PresignedParams::find(query, dialect)?;
        let version_2 = query.has(V2_ACCESS_KEY);
        let declared = header::vendor(&request.headers, dialect, "content-sha256")?;
        let stated_token = header::vendor(&request.headers, dialect, "security-token")?;
        let mut token = None;
        let (params, signature_param, payload) = match (authorization, presigned, version_2) {
            (None, None, false) => (FoundParams::None, None, declared.unwrap_or(UNSIGNED)),
            (Some(text), None, false) => {
                let params = header::signature_params(text, &request.headers, dialect, services)?;
                let payload = declared.or(signed_for.payload).or(default_payload(dialect));
                let payload = payload.ok_or_else(missing_content_hash)?;
                token = stated_token;
                (FoundParams::V4(params), None, payload)
            }
            (None, Some(presigned), false) => {
                // In the query it is signed, and in a header perhaps not: two that differ are
                // refused.
                let payload = one_of(declared, presigned.content_sha256(), "content hash")?;
                let payload = payload.or(signed_for.payload).unwrap_or(UNSIGNED);
                token = one_of(stated_token, presigned.security_token(), "security token")?;
                let params = presigned.signature_params(services)?;
                (FoundParams::V4(params), Some(presigned::signature_param(dialect)), payload)
            }
            (None, None, true) => {
                let payload = one_of(declared, PresignedV2::content_sha256(query), "content hash")?;
                let payload = payload.unwrap_or(UNSIGNED);
                (FoundParams::V2, None, payload)
            }
            _ => {
                return Err(S3Error::new(ErrorCode::InvalidRequest).message(
                    "A request has one signature: in its Authorization header or, of one version, in its query.",
                ));
            }
        };
        Ok(Self { dialect, params, signature_param, payload, token })
    }
}

/// The content hash of a signed request that carries none.
fn default_payload(dialect: Dialect) -> Option<&'static str> {
    match dialect {
        Dialect::Svc => Some(UNSIGNED),
        Dialect::Aws => None,
    }
}

/// A value of a presigned request, from its headers or its query. `what` names it.
fn one_of<'t>(
    header: Option<&'t str>,
    parameter: Option<&'t str>,
    what: &str,
) -> Result<Option<&'t str>, S3Error> {
    match (header, parameter) {
        (Some(header), Some(parameter)) if header != parameter => {
            let message = format!("The {what} in the presigned URL and that in the headers differ.");
            Err(S3Error::new(ErrorCode::InvalidRequest).message(message))
        }
        _ => Ok(header.or(parameter)),
    }
}

fn missing_content_hash() -> S3Error {
    S3Error::new(ErrorCode::InvalidRequest)
        .message("Missing required header for this request: x-amz-content-sha256")
}
