//! From a request to an identity, and from an identity to a permission.

use std::sync::{Arc, RwLock};

use crate::auth::canonical::{CanonicalRequest, SortedHeaders};
use crate::auth::chunked::ChunkSigner;
use crate::auth::claim::Claim;
use crate::auth::payload::{Payload, Proof, UNSIGNED};
use crate::auth::presigned::{self, Fields};
use crate::auth::query::Query;
use crate::auth::{Action, Authorized, Identity, Resource, Users, header, signature};
use crate::base::Clock;
use crate::s3::{Dialect, ErrorCode, Request, S3Error};

/// Tells who sent a request, and whether they may do what they ask.
pub struct Authenticator {
    users: RwLock<Arc<Users>>,
    regions: Vec<String>,
    clock: Arc<dyn Clock>,
}

impl Authenticator {
    /// Believes signatures of `users` that are scoped to one of `regions`, the first of which is the one that
    /// others are told to use.
    pub fn new(users: Users, regions: Vec<String>, clock: Arc<dyn Clock>) -> Self {
        Self { users: RwLock::new(Arc::new(users)), regions, clock }
    }

    /// Goes by other users from the next request on. Requests under way keep the permissions they came with.
    pub fn replace(&self, users: Users) {
        *self.users.write().expect("no code panics while it holds the users") = Arc::new(users);
    }

    /// Tells who sent `request`, and puts a reader in place of its body that verifies what the request says of it,
    /// takes chunks apart and knows the decoded length. On an error the request is as it was.
    ///
    /// # Errors
    /// `InvalidRequest` for another scheme, for two signatures at once and for a content hash that is missing from a
    /// signed request in the AWS dialect; `AuthorizationHeaderMalformed` or `AuthorizationQueryParametersError` for
    /// what cannot be understood, and for another region; `RequestTimeTooSkewed` or `AccessDenied` for what does not
    /// hold now; `InvalidAccessKeyId`; `AccessDenied` for unsigned headers; `SignatureDoesNotMatch`; and what is
    /// wrong with the announcements of the body. What is wrong with the body itself shows when it is read.
    pub fn authenticate(&self, request: &mut Request<'_>, dialect: Dialect) -> Result<Identity, S3Error> {
        let users = Arc::clone(&self.users.read().expect("no code panics while it holds the users"));
        let (identity, proof) = Attempt { authenticator: self, users: &users, request, dialect }.run()?;
        proof.wrap(&mut request.body);
        Ok(identity)
    }

    /// The proof that `identity` may do `action` on `resource`, for the operation to see.
    ///
    /// # Errors
    /// `AccessDenied`.
    pub fn authorize(
        &self,
        identity: &Identity,
        action: Action,
        resource: Resource<'_>,
    ) -> Result<Authorized, S3Error> {
        identity.authorize(action, resource)
    }
}

/// One request on its way to an identity.
struct Attempt<'a> {
    authenticator: &'a Authenticator,
    users: &'a Users,
    request: &'a Request<'a>,
    dialect: Dialect,
}

impl Attempt<'_> {
    fn run(&self) -> Result<(Identity, Proof), S3Error> {
        let query = Query::parse(&self.request.query);
        let authorization = header::authorization(&self.request.headers)?;
        let fields = Fields::find(&query, self.dialect)?;
        let declared = header::vendor(&self.request.headers, self.dialect, "content-sha256")?;
        match (authorization, fields) {
            (None, None) => self.anonymous(declared.unwrap_or(UNSIGNED)),
            (Some(_), Some(_)) => Err(S3Error::new(ErrorCode::InvalidRequest)
                .message("A request is signed in its Authorization header or in its query, not in both.")),
            (Some(text), None) => {
                let claim = header::claim(text, &self.request.headers, self.dialect)?;
                let payload = declared.or(self.default_payload()).ok_or_else(missing_content_hash)?;
                self.signed(&claim, &query, None, payload)
            }
            (None, Some(fields)) => {
                let payload = one_of(declared, fields.content_sha256())?.unwrap_or(UNSIGNED);
                let without = presigned::signature_parameter(self.dialect);
                self.signed(&fields.claim()?, &query, Some(without), payload)
            }
        }
    }

    /// The content hash of a signed request that bears none.
    fn default_payload(&self) -> Option<&'static str> {
        match self.dialect {
            Dialect::Svc => Some(UNSIGNED),
            Dialect::Aws => None,
        }
    }

    fn anonymous(&self, payload: &str) -> Result<(Identity, Proof), S3Error> {
        let payload = Payload::parse(payload, self.dialect)?;
        let proof = Proof::of(&payload, &self.request.headers, self.dialect, || None)?;
        Ok((Identity::new(Arc::clone(self.users.anonymous())), proof))
    }

    /// Believes a claim, or does not. `without` is the parameter that the signature came in.
    fn signed(
        &self,
        claim: &Claim<'_>,
        query: &Query<'_>,
        without: Option<&str>,
        payload: &str,
    ) -> Result<(Identity, Proof), S3Error> {
        claim.check_region(&self.authenticator.regions)?;
        claim.check_time(self.authenticator.clock.now())?;
        let Some(by) = self.users.find(claim.access_key) else {
            return Err(
                S3Error::new(ErrorCode::InvalidAccessKeyId).element("AWSAccessKeyId", claim.access_key)
            );
        };
        let key = by.signing_key(claim.date, claim.region);
        let headers = SortedHeaders::of(&self.request.headers);
        claim.check_headers(&headers, self.dialect)?;
        let canonical = CanonicalRequest {
            method: self.request.method.as_str(),
            path: &self.request.path,
            query,
            without,
            headers: &headers,
            signed_headers: claim.signed_headers,
            payload,
        };
        let signature = signature::verify(claim, &key, &canonical)?;
        let signer = || Some(ChunkSigner::new(key, &claim.stamp, claim.scope, signature));
        let payload = Payload::parse(payload, self.dialect)?;
        let proof = Proof::of(&payload, &self.request.headers, self.dialect, signer)?;
        Ok((Identity::new(Arc::clone(by.user())), proof))
    }
}

/// The content hash that a presigned request bears in its headers or its query.
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
