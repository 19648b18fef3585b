//! Every error that a client can see: a table of code, status and default message, each row with
//! its source.

use std::fmt;

use crate::base::limits;

/// The text of a code: another one than its name, where that cannot be a name.
macro_rules! code_text {
    ($code:ident) => {
        stringify!($code)
    };
    ($code:ident $text:literal) => {
        $text
    };
}

macro_rules! error_codes {
    ($($(#[doc = $source:literal])+ $code:ident $(as $text:literal)? = $status:literal, $message:literal;)+) => {
        /// An error code of the protocol. The documentation of each names where it comes from.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[doc = $source])+ $code,)+
        }

        impl ErrorCode {
            /// Every code, in alphabetical order.
            pub const ALL: &'static [Self] = &[$(Self::$code),+];

            /// The text of the `Code` element.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$code => code_text!($code $($text)?)),+ }
            }

            /// The HTTP status that goes with it.
            pub fn status(self) -> u16 {
                match self { $(Self::$code => $status),+ }
            }

            /// The text of the `Message` element of an error without a message of its own.
            pub fn default_message(self) -> &'static str {
                match self { $(Self::$code => $message),+ }
            }
        }
    };
}

error_codes! {
    /// S3 user guide, "Controlling ownership of objects", "Troubleshooting".
    AccessControlListNotSupported = 400, "The bucket does not allow ACLs.";
    /// S3 API reference, "Error responses".
    AccessDenied = 403, "Access Denied";
    /// S3 user guide, "Troubleshooting CORS"; the message is spelled as there.
    AccessForbidden = 403, "CORSResponse: This CORS request is not allowed. This is usually because the evalution of Origin, request method / Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted by the resource's CORS spec.";
    /// S3 API reference, "Error responses".
    AuthorizationHeaderMalformed = 400, "The authorization header that you provided is not valid.";
    /// S3 API reference, "Authenticating requests: using query parameters".
    AuthorizationQueryParametersError = 400, "Error parsing the authentication query parameters.";
    /// S3 API reference, "Error responses"; S3 user guide, "Checking object integrity".
    BadDigest = 400, "The digest or checksum that you specified does not match what was received.";
    /// S3 API reference, PutObjectTagging and "Error responses".
    BadRequest = 400, "The request is not valid.";
    /// S3 API reference, CreateBucket.
    BucketAlreadyExists = 409, "The requested bucket name is not available. The bucket namespace is shared by all users. Select a different name and try again.";
    /// S3 API reference, CreateBucket.
    BucketAlreadyOwnedByYou = 409, "The bucket that you tried to create already exists, and you own it.";
    /// S3 API reference, DeleteBucket and "Error responses".
    BucketNotEmpty = 409, "The bucket that you tried to delete is not empty. Delete all objects, versions and delete markers first.";
    /// S3 API reference, "Error responses"; S3 user guide, "Uploading objects".
    EntityTooLarge = 400, "Your proposed upload exceeds the maximum allowed object size.";
    /// S3 API reference, CompleteMultipartUpload.
    EntityTooSmall = 400, "Your proposed upload is smaller than the minimum allowed object size.";
    /// S3 API reference, "Error responses".
    ExpiredToken = 400, "The provided token has expired.";
    /// S3 API reference, PutBucketVersioning and "Error responses".
    IllegalVersioningConfigurationException = 400, "The versioning configuration specified in the request is invalid.";
    /// S3 API reference, "Error responses".
    IncompleteBody = 400, "You did not provide the number of bytes specified by the Content-Length HTTP header.";
    /// RFC 4918, section 11.5; S3 knows no full disk.
    InsufficientStorage = 507, "The disk of the store is full. Delete objects or add space, then try again.";
    /// S3 API reference, "Error responses".
    InternalError = 500, "We encountered an internal error. Please try again.";
    /// S3 API reference, "Error responses".
    InvalidAccessKeyId = 403, "The access key ID that you provided does not exist in our records.";
    /// S3 API reference, "Error responses".
    InvalidArgument = 400, "Invalid argument.";
    /// S3 user guide, "Controlling ownership of objects", "Troubleshooting".
    InvalidBucketAclWithObjectOwnership = 400, "A bucket cannot have an ACL with the object ownership BucketOwnerEnforced.";
    /// S3 API reference, "Error responses"; S3 user guide, "Bucket naming rules".
    InvalidBucketName = 400, "The specified bucket is not valid.";
    /// S3 API reference, PutObjectLockConfiguration.
    InvalidBucketState = 409, "The request is not valid for the current state of the bucket.";
    /// S3 API reference, "Signature calculations: transferring payload in multiple chunks".
    InvalidChunkSizeError = 400, "The size of a chunk of the request body is not valid.";
    /// S3 API reference, "Error responses"; RFC 1864.
    InvalidDigest = 400, "The Content-MD5 or checksum value that you specified is not valid.";
    /// S3 API reference, CreateBucket and "Error responses".
    InvalidLocationConstraint = 400, "The specified location constraint is not valid.";
    /// S3 API reference, CompleteMultipartUpload.
    InvalidPart = 400, "One or more of the specified parts could not be found. The part may not have been uploaded, or the specified entity tag may not match the part's entity tag.";
    /// S3 API reference, GetObject, "partNumber".
    InvalidPartNumber = 416, "The requested partnumber is not satisfiable.";
    /// S3 API reference, CompleteMultipartUpload.
    InvalidPartOrder = 400, "The list of parts was not in ascending order. The parts list must be specified in order by part number.";
    /// S3 API reference, "Error responses" and "POST Policy".
    InvalidPolicyDocument = 400, "The content of the form does not meet the conditions specified in the policy document.";
    /// S3 API reference, GetObject and "Error responses"; RFC 9110, section 15.5.17.
    InvalidRange = 416, "The requested range is not satisfiable.";
    /// S3 API reference, "Error responses".
    InvalidRedirectLocation = 400, "The website redirect location must have a prefix of 'http://' or 'https://' or '/'.";
    /// S3 API reference, "Error responses".
    InvalidRequest = 400, "The request is not valid.";
    /// S3 API reference, PutObjectLockConfiguration.
    InvalidRetentionPeriod = 400, "The retention period specified is too large.";
    /// S3 API reference, "Error responses".
    InvalidStorageClass = 400, "The storage class that you specified is not valid.";
    /// S3 API reference, PutObjectTagging.
    InvalidTag = 400, "The tag provided was not a valid tag.";
    /// S3 API reference, "Error responses".
    InvalidTargetBucketForLogging = 400, "The target bucket for logging does not exist, is not owned by you, or does not have the appropriate grants for the log-delivery group.";
    /// S3 API reference, "Error responses".
    InvalidToken = 400, "The provided token is malformed or otherwise not valid.";
    /// S3 API reference, "Error responses".
    InvalidURI = 400, "The specified URI could not be parsed.";
    /// KMS API reference, "Common errors"; S3 passes it on. A key that is retired.
    KmsDisabledException as "KMS.DisabledException" = 400, "The key is retired, and encrypts nothing new.";
    /// KMS API reference, "Common errors"; S3 passes it on. A key that the server does not have.
    KmsNotFoundException as "KMS.NotFoundException" = 400, "The server does not have the key.";
    /// S3 API reference, "Error responses"; S3 user guide, "Naming Amazon S3 objects".
    KeyTooLongError = 400, "Your key is too long.";
    /// S3 API reference, "Error responses".
    MalformedACLError = 400, "The ACL that you provided was not well formed or did not validate against our published schema.";
    /// S3 API reference, "Error responses".
    MalformedPOSTRequest = 400, "The body of your POST request is not well-formed multipart/form-data.";
    /// S3 API reference, PutBucketPolicy.
    MalformedPolicy = 400, "The policy is not valid.";
    /// S3 API reference, "Error responses"; S3 user guide, "Checking object integrity".
    MalformedTrailerError = 400, "The request contained trailing data that was not well formed or did not conform to the published schema.";
    /// S3 API reference, "Error responses".
    MalformedXML = 400, "The XML that you provided was not well formed or did not validate against our published schema.";
    /// S3 API reference, "Error responses".
    MaxMessageLengthExceeded = 400, "Your request was too big.";
    /// S3 API reference, "Error responses", where it ends in `Error`; S3 answers without.
    MaxPostPreDataLengthExceeded = 400, "Your POST request fields preceding the upload file were too large.";
    /// S3 API reference, "Error responses"; S3 user guide, "User-defined object metadata".
    MetadataTooLarge = 400, "Your metadata headers exceed the maximum allowed metadata size.";
    /// S3 API reference, "Error responses"; RFC 9110, section 15.5.6.
    MethodNotAllowed = 405, "The specified method is not allowed against this resource.";
    /// S3 API reference, "Error responses"; RFC 9110, section 15.5.12.
    MissingContentLength = 411, "You must provide the Content-Length HTTP header.";
    /// S3 API reference, "Error responses".
    NoSuchBucket = 404, "The specified bucket does not exist.";
    /// S3 API reference, GetBucketPolicy and "Error responses".
    NoSuchBucketPolicy = 404, "The bucket policy does not exist.";
    /// S3 API reference, GetBucketCors.
    NoSuchCORSConfiguration = 404, "The CORS configuration does not exist.";
    /// S3 user guide, "Troubleshooting" of inventories; botocore's waiters and Terraform's provider
    /// name it, too.
    NoSuchConfiguration = 404, "The specified configuration does not exist.";
    /// S3 API reference, GetObject and "Error responses".
    NoSuchKey = 404, "The specified key does not exist.";
    /// S3 API reference, GetBucketLifecycleConfiguration.
    NoSuchLifecycleConfiguration = 404, "The lifecycle configuration does not exist.";
    /// S3 API reference, GetObjectRetention and GetObjectLegalHold.
    NoSuchObjectLockConfiguration = 404, "The specified object does not have an ObjectLock configuration.";
    /// S3 API reference, GetPublicAccessBlock.
    NoSuchPublicAccessBlockConfiguration = 404, "The public access block configuration was not found.";
    /// S3 API reference, GetBucketTagging.
    NoSuchTagSet = 404, "The TagSet does not exist.";
    /// S3 API reference, UploadPart and "Error responses".
    NoSuchUpload = 404, "The specified multipart upload does not exist. The upload ID might not be valid, or the multipart upload might have been aborted or completed.";
    /// S3 API reference, "Error responses".
    NoSuchVersion = 404, "The version ID specified in the request does not match an existing version.";
    /// S3 API reference, GetBucketWebsite.
    NoSuchWebsiteConfiguration = 404, "The specified bucket does not have a website configuration.";
    /// S3 API reference, "Error responses".
    NotImplemented = 501, "A header or operation that you provided implies functionality that is not implemented.";
    /// S3 API reference, GetObject; RFC 9110, section 15.4.5.
    NotModified = 304, "Not Modified";
    /// S3 API reference, GetObjectLockConfiguration.
    ObjectLockConfigurationNotFoundError = 404, "The object lock configuration does not exist.";
    /// S3 API reference, GetBucketOwnershipControls; Terraform's provider names it, too.
    OwnershipControlsNotFoundError = 404, "The bucket ownership controls were not found.";
    /// S3 API reference, "Error responses"; RFC 9110, section 15.5.13.
    PreconditionFailed = 412, "At least one of the preconditions that you specified did not hold.";
    /// RADOS Gateway, "Quota management"; S3 knows no quotas of bytes.
    QuotaExceeded = 403, "A quota does not allow the request. Delete objects or have the quota raised, then try again.";
    /// S3 API reference, GetBucketReplication.
    ReplicationConfigurationNotFoundError = 404, "The replication configuration was not found.";
    /// S3 API reference, "Error responses".
    RequestHeaderSectionTooLarge = 400, "Your request header section exceeds the maximum allowed size.";
    /// S3 API reference, "Error responses".
    RequestTimeTooSkewed = 403, "The difference between the request time and the server's time is too large.";
    /// S3 API reference, "Error responses".
    RequestTimeout = 400, "Your socket connection to the server was not read from or written to within the timeout period.";
    /// S3 API reference, GetBucketEncryption.
    ServerSideEncryptionConfigurationNotFoundError = 404, "The server-side encryption configuration was not found.";
    /// S3 API reference, "Error responses"; RFC 9110, section 15.6.4.
    ServiceUnavailable = 503, "The store accepts no writes. An operator must look at its log and restart it.";
    /// S3 API reference, "Error responses".
    SignatureDoesNotMatch = 403, "The request signature that we calculated does not match the signature that you provided. Check your secret access key and signing method.";
    /// S3 API reference, "Error responses".
    SlowDown = 503, "Please reduce your request rate.";
    /// S3 API reference, CreateBucket and "Error responses".
    TooManyBuckets = 400, "You have attempted to create more buckets than allowed.";
    /// S3 API reference, "Error responses".
    UnresolvableGrantByEmailAddress = 400, "The email address that you provided does not match any account on record.";
    /// S3 API reference, "Error responses".
    XAmzContentSHA256Mismatch = 400, "The provided content SHA-256 does not match what was computed.";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error for the client. Details for the operator go to the log instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Error {
    /// The code, which implies the status.
    pub code: ErrorCode,
    /// The problem and, if possible, a remedy.
    pub message: String,
    /// More elements of the XML body, in order.
    pub elements: Vec<(&'static str, String)>,
    /// More header lines. A name that starts with `p-` goes out with the prefix of the request's
    /// dialect.
    pub headers: Vec<(&'static str, String)>,
}

impl S3Error {
    /// The error with its default message.
    pub fn new(code: ErrorCode) -> Self {
        Self { code, message: code.default_message().to_owned(), elements: Vec::new(), headers: Vec::new() }
    }

    /// The same error with another message.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// The same error with one more element in its XML body.
    #[must_use]
    pub fn element(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.elements.push((name, text.into()));
        self
    }

    /// The same error with one more header line.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// `MalformedXML` with the reason after its usual message.
    pub fn malformed_xml(reason: &str) -> Self {
        let code = ErrorCode::MalformedXML;
        Self::new(code).message(format!("{} ({reason})", code.default_message()))
    }

    /// An `InvalidArgument` with the name and the value of the argument.
    pub fn invalid_argument(name: &str, value: &str, message: impl Into<String>) -> Self {
        let shown: String = value.chars().take(limits::KEY_LEN_MAX_BYTES).collect();
        Self::new(ErrorCode::InvalidArgument)
            .message(message)
            .element("ArgumentName", name)
            .element("ArgumentValue", shown)
    }

    /// An `InvalidURI` with the URI, or the part of it that cannot be read.
    pub fn invalid_uri(text: &str) -> Self {
        let shown: String = text.chars().take(limits::KEY_LEN_MAX_BYTES).collect();
        Self::new(ErrorCode::InvalidURI).element("URI", shown)
    }

    /// A `SlowDown` with the time after which to try again.
    pub fn slow_down() -> Self {
        Self::new(ErrorCode::SlowDown).header("Retry-After", limits::RETRY_AFTER_SECS.to_string())
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.code.status()
    }
}

impl fmt::Display for S3Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for S3Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_row_is_an_error() {
        assert!(ErrorCode::ALL.windows(2).all(|pair| pair[0].as_str() < pair[1].as_str()));
        for code in ErrorCode::ALL {
            assert!((300..=599).contains(&code.status()), "{code}");
            assert!(!code.default_message().is_empty(), "{code}");
        }
    }

    #[test]
    fn an_invalid_argument_names_itself() {
        let error = S3Error::invalid_argument("max-keys", "-1", "must not be negative");
        assert_eq!(error.status(), 400);
        assert_eq!(error.elements, [("ArgumentName", "max-keys".into()), ("ArgumentValue", "-1".into())]);
    }
}
