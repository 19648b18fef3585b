//! A routed and authenticated request.

use std::fmt;

use crate::base::digest::write_hex;
use crate::base::{Entropy, Timestamp};
use crate::s3::form::PostForm;
use crate::s3::object_lock::LockHeaders;
use crate::s3::{
    Dialect, ErrorCode, Headers, Operation, QueryParams, Request, TargetResource, VendorHeaders,
};

/// Identifies one request, for the client and in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId([u8; 16]);

impl RequestId {
    /// A new id: 16 upper-case hexadecimal digits.
    pub fn new(entropy: &dyn Entropy) -> Self {
        let mut digits = [0; 16];
        write_hex(&entropy.next_u64().to_be_bytes(), &mut digits);
        digits.make_ascii_uppercase();
        Self(digits)
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("digits are text")
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A deletion of a version that the body of a DeleteObjects names.
#[derive(Debug, Clone)]
pub struct VersionDeletion {
    /// The key of the object.
    pub key: String,
    pub version: String,
    /// The version before the deletion, as text.
    pub before: Option<String>,
    /// The error of this deletion.
    pub error: Option<ErrorCode>,
}

/// An object that the body of a DeleteObjects names, with the outcome of its deletion.
#[derive(Debug, Clone)]
pub struct NamedObject {
    pub key: String,
    pub version: Option<String>,
    pub error: Option<ErrorCode>,
}

/// The marks of a request that has just come in.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The id of the request.
    pub id: RequestId,
    /// The spelling of vendor names.
    pub dialect: Dialect,
    /// The time at which the request came in.
    pub received: Timestamp,
}

/// The input of an operation: a request, routed and authenticated.
pub struct Call<'c> {
    /// The id of the request.
    pub id: RequestId,
    /// The spelling of vendor names.
    pub dialect: Dialect,
    /// The requested operation.
    pub operation: Operation,
    /// The resource that the operation addresses.
    pub target: TargetResource,
    pub query: QueryParams,
    /// The time at which the request arrived.
    pub received: Timestamp,
    /// The tags in the body of a PutObjectTagging, where they were read before its operation.
    pub body_tags: Option<Vec<(String, String)>>,
    /// What the body of a PutObjectRetention or PutObjectLegalHold states, where it was read before
    /// its operation.
    pub body_lock: Option<LockHeaders>,
    /// The deletions of versions that the body names, where the audit log asks for them.
    pub deletions: Option<Vec<VersionDeletion>>,
    /// The objects that the body of a DeleteObjects names with their outcomes, where the log of the
    /// bucket asks for them.
    pub named_objects: Option<Vec<NamedObject>>,
    /// The form that the request is; `None` for other requests.
    pub form: Option<PostForm>,
    /// The request. Its body is wrapped in the readers that verify it.
    pub request: Request<'c>,
}

impl<'c> Call<'c> {
    /// A call of an operation without parameters.
    pub fn new(arrival: Arrival, operation: Operation, target: TargetResource, request: Request<'c>) -> Self {
        let Arrival { id, dialect, received } = arrival;
        Self {
            id,
            dialect,
            operation,
            target,
            query: QueryParams::default(),
            received,
            body_tags: None,
            body_lock: None,
            deletions: None,
            named_objects: None,
            form: None,
            request,
        }
    }

    /// The same call with these parameters.
    #[must_use]
    pub fn with_query(self, query: QueryParams) -> Self {
        Self { query, ..self }
    }

    /// The same call, which is a form.
    #[must_use]
    pub fn with_form(self, form: PostForm) -> Self {
        Self { form: Some(form), ..self }
    }
}

impl Call<'_> {
    /// The header lines.
    pub fn headers(&self) -> &Headers {
        &self.request.headers
    }

    /// The vendor header lines.
    pub fn vendor(&self) -> VendorHeaders<'_> {
        VendorHeaders::new(&self.request.headers, self.dialect)
    }

    /// The value of the vendor header `p-{suffix}`, if it is UTF-8.
    pub fn vendor_header(&self, suffix: &str) -> Option<&str> {
        self.vendor().get_str(suffix)
    }

    /// The name of the bucket.
    pub fn bucket(&self) -> &str {
        self.target.bucket()
    }

    /// The key of the object.
    pub fn key(&self) -> &str {
        self.target.key()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeededEntropy;

    #[test]
    fn request_ids_are_sixteen_digits_and_differ() {
        let entropy = SeededEntropy::new(1);
        let a = RequestId::new(&entropy);
        let b = RequestId::new(&entropy);
        assert_eq!(a.as_str().len(), 16);
        assert!(a.as_str().bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase()));
        assert_ne!(a, b);
    }
}
