//! Authentication of requests.

use std::sync::{Arc, RwLock};

use crate::auth::canonical::{CanonicalRequest, SortedHeaders};
use crate::auth::chunked::ChunkSigner;
use crate::auth::payload::{PayloadKind, PayloadVerifier, UNSIGNED};
use crate::auth::post_form::{FormContext, FormGrant};
use crate::auth::presigned::{self, PresignedParams};
use crate::auth::presigned_v2::PresignedV2;
use crate::auth::signature::Signature;
use crate::auth::signature_params::SignatureParams;
use crate::auth::signing_key::SigningKey;
use crate::auth::users::User;
use crate::auth::{Identity, Users, header, signature};
use crate::base::{Clock, Timestamp};
use crate::s3::dialect::V2_ACCESS_KEY;
use crate::s3::form::PostForm;
use crate::s3::route::Addressing;
use crate::s3::{Dialect, ErrorCode, Headers, QueryParams, Request, S3Error};

/// Authenticates requests.
pub struct Authenticator {
    users: RwLock<Arc<Users>>,
    regions: Vec<String>,
    clock: Arc<dyn Clock>,
    /// How hosts name the bucket that version 2 signs; `None` if version 2 is refused.
    version_2: Option<Addressing>,
}

impl Authenticator {
    /// Accepts signatures of `users` that are scoped to one of `regions`. Errors about another
    /// region name the first one.
    pub fn new(users: Users, regions: Vec<String>, clock: Arc<dyn Clock>) -> Self {
        Self { users: RwLock::new(Arc::new(users)), regions, clock, version_2: None }
    }

    /// The same authenticator, which accepts URLs presigned by signature version 2 as well. Hosts
    /// name buckets by `addressing`.
    #[must_use]
    pub fn with_version_2(self, addressing: Addressing) -> Self {
        Self { version_2: Some(addressing), ..self }
    }

    /// Replaces the users, from the next request on. Requests under way keep their permissions.
    pub fn replace(&self, users: Users) {
        *self.users.write().expect("no code panics while it holds the users") = Arc::new(users);
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
    /// - `InvalidAccessKeyId`; `AccessDenied` for unsigned headers and for malformed parameters of
    ///   version 2; `SignatureDoesNotMatch`;
    /// - `MissingContentLength`, `InvalidArgument`, `InvalidRequest` or `MalformedTrailerError` for
    ///   a wrong announcement of the body. Errors in the body itself appear when it is read.
    pub fn authenticate(
        &self,
        request: &mut Request<'_>,
        query: &QueryParams,
        dialect: Dialect,
    ) -> Result<Identity, S3Error> {
        let users = self.users();
        let signature = RequestSignature::find(request, query, dialect)?;
        let (user, signer) = match &signature.params {
            FoundParams::None => (users.anonymous(), None),
            FoundParams::V4(params) => {
                let (user, key, verified) = self.verify(&users, request, query, &signature, params)?;
                (user, Some((key, params, verified)))
            }
            FoundParams::V2 => (self.verify_v2(&users, request, query)?, None),
        };
        let kind = PayloadKind::parse(signature.payload, dialect)?;
        let signer = || {
            let (key, params, verified) = signer?;
            Some(ChunkSigner::new(key, &params.timestamp, params.scope, verified))
        };
        let verifier = PayloadVerifier::new(&kind, &request.headers, dialect, signer)?;
        verifier.wrap(&mut request.body);
        Ok(Identity::new(Arc::clone(user), Arc::clone(&users)))
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

    /// Authenticates the sender of `form`, which was sent to `bucket`, by its fields, and checks
    /// its policy.
    ///
    /// # Errors
    /// - `InvalidArgument` for a missing or malformed field; `InvalidRequest` for version 2 if it
    ///   is refused;
    /// - `InvalidAccessKeyId`; `SignatureDoesNotMatch`;
    /// - `InvalidPolicyDocument`; `AccessDenied` for a form that the policy does not permit.
    pub fn authenticate_form(
        &self,
        form: &PostForm,
        bucket: &str,
        dialect: Dialect,
    ) -> Result<FormGrant, S3Error> {
        let users = &self.users();
        let version_2 = self.version_2.is_some();
        let now = self.clock.now();
        FormContext { users, regions: &self.regions, version_2, now, dialect, bucket }.authenticate(form)
    }

    pub(super) fn users(&self) -> Arc<Users> {
        Arc::clone(&self.users.read().expect("no code panics while it holds the users"))
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Verifies a signature. Returns the user who signed, the key, and the signature as bytes.
    fn verify<'u>(
        &self,
        users: &'u Users,
        request: &Request<'_>,
        query: &QueryParams,
        signature: &RequestSignature<'_>,
        params: &SignatureParams<'_>,
    ) -> Result<(&'u Arc<User>, SigningKey, Signature), S3Error> {
        params.check_region(&self.regions)?;
        params.check_time(self.clock.now())?;
        let signer = users.signer(params.access_key)?;
        let key = signer.signing_key(params.date, params.region);
        let headers = SortedHeaders::of(&request.headers);
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
        Ok((signer.user(), key, verified))
    }

    /// Verifies a URL presigned by version 2. Returns the user who signed.
    fn verify_v2<'u>(
        &self,
        users: &'u Users,
        request: &Request<'_>,
        query: &QueryParams,
    ) -> Result<&'u Arc<User>, S3Error> {
        let addressing = self.version_2.as_ref().ok_or_else(header::other_scheme)?;
        let params = PresignedV2::find(query)?;
        PresignedV2::check_request(&request.method, query)?;
        params.check_time(self.clock.now())?;
        let signer = users.signer(params.access_key)?;
        let bucket = addressing.bucket_of_host(request.headers.get_str("host").unwrap_or_default());
        params.verify(signer, request, query, bucket.as_deref())?;
        Ok(signer.user())
    }
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

/// The signature of a request, wherever it stands, before it is verified.
struct RequestSignature<'r> {
    dialect: Dialect,
    params: FoundParams<'r>,
    /// The query parameter that holds the signature of a presigned URL.
    signature_param: Option<&'static str>,
    /// The content hash, or the keyword in its place.
    payload: &'r str,
}

impl<'r> RequestSignature<'r> {
    fn find(request: &'r Request<'_>, query: &'r QueryParams, dialect: Dialect) -> Result<Self, S3Error> {
        let authorization = header::authorization(&request.headers)?;
        let presigned = PresignedParams::find(query, dialect)?;
        let version_2 = query.has(V2_ACCESS_KEY);
        let declared = header::vendor(&request.headers, dialect, "content-sha256")?;
        let (params, signature_param, payload) = match (authorization, presigned, version_2) {
            (None, None, false) => (FoundParams::None, None, declared.unwrap_or(UNSIGNED)),
            (Some(text), None, false) => {
                let params = header::signature_params(text, &request.headers, dialect)?;
                let payload = declared.or(default_payload(dialect)).ok_or_else(missing_content_hash)?;
                (FoundParams::V4(params), None, payload)
            }
            (None, Some(presigned), false) => {
                let payload = one_of(declared, presigned.content_sha256())?.unwrap_or(UNSIGNED);
                let params = presigned.signature_params()?;
                (FoundParams::V4(params), Some(presigned::signature_param(dialect)), payload)
            }
            (None, None, true) => {
                let payload = one_of(declared, PresignedV2::content_sha256(query))?.unwrap_or(UNSIGNED);
                (FoundParams::V2, None, payload)
            }
            _ => {
                return Err(S3Error::new(ErrorCode::InvalidRequest).message(
                    "A request has one signature: in its Authorization header or, of one version, in its query.",
                ));
            }
        };
        Ok(Self { dialect, params, signature_param, payload })
    }
}

/// The content hash of a signed request that carries none.
fn default_payload(dialect: Dialect) -> Option<&'static str> {
    match dialect {
        Dialect::Svc => Some(UNSIGNED),
        Dialect::Aws => None,
    }
}

/// The content hash of a presigned request, from its headers or its query.
fn one_of<'t>(header: Option<&'t str>, parameter: Option<&'t str>) -> Result<Option<&'t str>, S3Error> {
    match (header, parameter) {
        (Some(header), Some(parameter)) if header != parameter => {
            Err(S3Error::new(ErrorCode::InvalidRequest)
                .message("The content hash in the presigned URL and that in the headers differ."))
        }
        _ => Ok(header.or(parameter)),
    }
}

fn missing_content_hash() -> S3Error {
    S3Error::new(ErrorCode::InvalidRequest)
        .message("Missing required header for this request: x-amz-content-sha256")
}
