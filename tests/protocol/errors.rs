//! The table of errors has no row that nothing raises.

use std::collections::BTreeSet;
use std::time::Duration;

use siltstone::base::Quota;
use siltstone::base::limits::ACL_GRANTS_MAX;
use siltstone::s3::{ErrorCode, Handler as _, ObjectOwnership};

use super::*;
use crate::support::form::{Form, FormVersion};

/// Errors that only an engine raises, before there is a request or while its body is received.
const OF_THE_ENGINES: [&str; 2] = ["RequestHeaderSectionTooLarge", "RequestTimeout"];

const ZERO_MD5: &str = "AAAAAAAAAAAAAAAAAAAAAA==";
const STREAMING: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";

fn row(code: &str) -> ErrorCode {
    *ErrorCode::ALL.iter().find(|row| row.as_str() == code).unwrap_or_else(|| panic!("there is no {code}"))
}

/// Sends a request that must fail with `code`.
fn provoke(code: &'static str, asked: Asked<'_>) -> &'static str {
    let answer = asked.send();
    match code {
        "NotModified" => answer.is_bare(304),
        _ => answer.is_error(row(code).status(), code),
    };
    code
}

/// A request that claims to be signed.
fn claiming<'s>(server: &'s Server, day: &str) -> Asked<'s> {
    let credential = format!("AK-owner/{day}/eu/s3/aws4_request");
    let signature = "0".repeat(64);
    let value = format!(
        "AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host;x-svc-date, Signature={signature}"
    );
    let asked = server.request("GET", "/b").dialect(Dialect::Svc).anonymous().header("Authorization", value);
    asked.header("p-date", format!("{day}T120000Z"))
}

fn of_authentication(server: &Server) -> Vec<&'static str> {
    let get = |target| server.request("GET", target).dialect(Dialect::Svc);
    let put = || server.request("PUT", "/b/new").dialect(Dialect::Svc);
    let chunks = |body: &[u8]| put().header("p-content-sha256", STREAMING).body(body);
    let sized = |body: &[u8]| chunks(body).header("p-decoded-content-length", "5");
    vec![
        provoke("AccessDenied", get("/b").by("none")),
        provoke(
            "AuthorizationHeaderMalformed",
            get("/b").anonymous().header("Authorization", "AWS4-HMAC-SHA256 x"),
        ),
        provoke("AuthorizationQueryParametersError", get("/b?X-Svc-Algorithm=AWS4-HMAC-SHA256").anonymous()),
        provoke("IncompleteBody", sized(b"5\r\nab")),
        provoke("InvalidAccessKeyId", get("/b").by("nobody")),
        provoke("InvalidChunkSizeError", sized(b"zz\r\n")),
        provoke(
            "MalformedTrailerError",
            sized(b"5\r\nabcde\r\n0\r\nx-svc-checksum-sha1:x\r\n\r\n")
                .header("p-trailer", "x-svc-checksum-crc32"),
        ),
        provoke("RequestTimeTooSkewed", claiming(server, "20200101")),
        provoke("SignatureDoesNotMatch", claiming(server, "20260131")),
        provoke("XAmzContentSHA256Mismatch", put().header("p-content-sha256", "0".repeat(64)).body(b"x")),
    ]
}

fn of_sessions(_: &Server) -> Vec<&'static str> {
    let server = sts::server();
    let session = sts::lake(&server);
    let get = || server.request("GET", "/b/lake/a");
    let cut = SessionKeys { token: Some("cut".to_owned()), ..session.clone() };
    let invalid = provoke("InvalidToken", get().in_session(&cut));
    server.clock.advance(Duration::from_secs(3600));
    vec![invalid, provoke("ExpiredToken", get().in_session(&session).at("20260131T130000Z"))]
}

fn of_requests(server: &Server) -> Vec<&'static str> {
    let get = |target| server.request("GET", target);
    let put = |target| server.request("PUT", target).body(b"x");
    let located = "<CreateBucketConfiguration><LocationConstraint>mars</LocationConstraint></CreateBucketConfiguration>";
    let long = format!("/b/{}", "k".repeat(1025));
    let logged = "<BucketLoggingStatus><LoggingEnabled><TargetBucket>absent</TargetBucket><TargetPrefix/></LoggingEnabled>\
                  </BucketLoggingStatus>";
    let keyless = "<Tagging><TagSet><Tag><Key/><Value/></Tag></TagSet></Tagging>";
    let preflight = server.request("OPTIONS", "/b").anonymous().header("Origin", "https://a.example");
    let moving = "<LifecycleConfiguration><Rule><Filter/><Status>Enabled</Status><Transition><Days>1</Days>\
        <StorageClass>GLACIER</StorageClass></Transition></Rule></LifecycleConfiguration>";
    let transition =
        put("/b?lifecycle").header("Content-MD5", delete::content_md5(moving)).body(moving.as_bytes());
    let of_key = |name: &str| {
        let kind = put("/b/new").header("p-server-side-encryption", "aws:kms");
        kind.header("p-server-side-encryption-aws-kms-key-id", name)
    };
    vec![
        provoke("AccessForbidden", preflight),
        provoke("AccessControlListNotSupported", put("/b/new").header("p-acl", "public-read")),
        provoke("BadDigest", put("/b/new").header("Content-MD5", ZERO_MD5)),
        provoke("BadRequest", put("/b/new").header("p-tagging", "a&b&c&d&e&f&g&h&i&j&k")),
        provoke("EntityTooLarge", put("/b/new").announcing((5 << 30) + 1)),
        provoke("InvalidArgument", get("/b?max-keys=-1")),
        provoke(
            "InvalidBucketAclWithObjectOwnership",
            server.request("PUT", "/new").header("p-acl", "public-read"),
        ),
        provoke("InvalidBucketName", put("/B_")),
        provoke("InvalidDigest", put("/b/new").header("Content-MD5", "x")),
        provoke("InvalidLocationConstraint", put("/new").body(located.as_bytes())),
        provoke("InvalidPartNumber", get("/b/k?partNumber=2")),
        provoke("InvalidRange", get("/b/k").header("Range", "bytes=99-")),
        provoke("InvalidRedirectLocation", put("/b/new").header("p-website-redirect-location", "x")),
        provoke("InvalidRequest", put("/b/new").header("p-checksum-crc32", "x")),
        provoke("InvalidStorageClass", transition),
        provoke("InvalidTag", put("/b/k?tagging").body(keyless.as_bytes())),
        provoke("InvalidTargetBucketForLogging", put("/b?logging").body(logged.as_bytes())),
        provoke("InvalidURI", get("/b/%zz")),
        provoke("KMS.DisabledException", of_key("closed")),
        provoke("KMS.NotFoundException", of_key("nobody's")),
        provoke("KeyTooLongError", get(&long)),
        provoke("MalformedPolicy", put("/b?policy")),
        provoke("MalformedXML", put("/b?versioning")),
        provoke("MaxMessageLengthExceeded", put("/b?versioning").announcing(2 << 20)),
        provoke("MetadataTooLarge", put("/b/new").header("p-meta-a", "v".repeat(2048))),
        provoke("MethodNotAllowed", server.request("POST", "/")),
        provoke("MissingContentLength", put("/b/new").unframed()),
        provoke("NotImplemented", get("/b?session")),
    ]
}

fn of_states(server: &Server) -> Vec<&'static str> {
    let get = |target| server.request("GET", target);
    let unversioned = server.request("PUT", "/b?versioning").body(b"<VersioningConfiguration/>");
    let of_writers = Server::with_ownership(ObjectOwnership::ObjectWriter);
    let uncontrolled = of_writers.request("GET", "/b?ownershipControls");
    let granting = |grantees: &str| of_writers.request("PUT", "/b/new").header("p-grant-read", grantees);
    let many: Vec<_> = (0..=ACL_GRANTS_MAX).map(|nth| format!("id=user{nth}")).collect();
    vec![
        provoke("BucketAlreadyExists", server.request("PUT", "/bucket").dialect(Dialect::Svc)),
        provoke("BucketAlreadyOwnedByYou", server.request("PUT", "/bucket").aws()),
        provoke("BucketNotEmpty", server.request("DELETE", "/b")),
        provoke("IllegalVersioningConfigurationException", unversioned),
        provoke("MalformedACLError", granting(&many.join(", "))),
        provoke("NoSuchBucket", get("/absent")),
        provoke("NoSuchBucketPolicy", get("/b?policy")),
        provoke("NoSuchCORSConfiguration", get("/b?cors")),
        provoke("NoSuchConfiguration", get("/b?inventory&id=x")),
        provoke("NoSuchKey", get("/b/absent")),
        provoke("NoSuchLifecycleConfiguration", get("/b?lifecycle")),
        provoke("NoSuchPublicAccessBlockConfiguration", get("/b?publicAccessBlock")),
        provoke("NoSuchTagSet", get("/b?tagging")),
        provoke("NoSuchVersion", get("/b/k?versionId=0000000000000001aaaaaaaaaaaaaaaa")),
        provoke("NoSuchWebsiteConfiguration", get("/b?website")),
        provoke("NotModified", get("/b/k").header("If-None-Match", "*")),
        provoke("ObjectLockConfigurationNotFoundError", get("/b?object-lock")),
        provoke("OwnershipControlsNotFoundError", uncontrolled),
        provoke("PreconditionFailed", get("/b/k").header("If-Match", "x")),
        provoke("ReplicationConfigurationNotFoundError", get("/b?replication")),
        provoke("ServerSideEncryptionConfigurationNotFoundError", get("/b?encryption")),
        provoke("UnresolvableGrantByEmailAddress", granting("emailAddress=ann@example.com")),
    ]
}

fn of_locks(server: &Server) -> Vec<&'static str> {
    server.request("PUT", "/locked").header("p-bucket-object-lock-enabled", "true").send();
    server.put("/locked/k", b"x");
    let lock = |bucket: &str, rule: &str| {
        let enabled = "<ObjectLockEnabled>Enabled</ObjectLockEnabled>";
        let document = format!("<ObjectLockConfiguration>{enabled}{rule}</ObjectLockConfiguration>");
        server.request("PUT", &format!("/{bucket}?object-lock")).body(document.as_bytes())
    };
    let long = "<Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Years>101</Years></DefaultRetention></Rule>";
    vec![
        provoke("InvalidBucketState", lock("b", "")),
        provoke("InvalidRetentionPeriod", lock("locked", long)),
        provoke("NoSuchObjectLockConfiguration", server.request("GET", "/locked/k?retention")),
    ]
}

fn of_quotas(server: &Server) -> Vec<&'static str> {
    server.store.set_bucket_quota("bucket", Some(&Quota::CLOSED)).unwrap();
    server.store.set_owner_quota("other", Some(&Quota::CLOSED)).unwrap();
    vec![
        provoke("QuotaExceeded", server.request("PUT", "/bucket/k").body(b"x")),
        provoke("TooManyBuckets", server.request("PUT", "/another").by("other")),
    ]
}

fn of_uploads(server: &Server) -> Vec<&'static str> {
    let created = server.request("POST", "/b/film?uploads").send();
    let upload = created.all("UploadId").remove(0);
    let tag = |number: u32| {
        let target = format!("/b/film?partNumber={number}&uploadId={upload}");
        server.put(&target, b"part").header("ETag").unwrap().to_owned()
    };
    let first = tag(1);
    let second = tag(2);
    let complete = |parts: &[(u32, &str)]| {
        let parts = parts
            .iter()
            .map(|(number, tag)| format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"));
        let body =
            format!("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", parts.collect::<String>());
        server.request("POST", &format!("/b/film?uploadId={upload}")).body(body.as_bytes())
    };
    vec![
        provoke("EntityTooSmall", complete(&[(1, &first), (2, &second)])),
        provoke("InvalidPart", complete(&[(1, &first), (3, &second)])),
        provoke("InvalidPartOrder", complete(&[(2, &second), (1, &first)])),
        provoke(
            "NoSuchUpload",
            server.request("DELETE", "/b/film?uploadId=0000000000000001aaaaaaaaaaaaaaaa"),
        ),
    ]
}

fn of_forms(server: &Server) -> Vec<&'static str> {
    let post = |body: &[u8]| {
        let request = server.request("POST", "/b").anonymous();
        request.header("Content-Type", Form::media_type()).body(body)
    };
    let long = Form::new(&[("key", &"k".repeat(20_480))], b"x");
    let prefix = usual_dialect().header_prefix();
    let unread =
        Form::new(&[("key", "k")], b"x").policy("{").signed(&signer("owner"), FormVersion::V4 { prefix });
    vec![
        provoke("MalformedPOSTRequest", post(b"no form")),
        provoke("MaxPostPreDataLengthExceeded", post(&long.body())),
        provoke("InvalidPolicyDocument", post(&unread.body())),
    ]
}

/// These spoil the server, one after the other.
fn of_trouble(server: &Server) -> Vec<&'static str> {
    Answer::read(server.service.overloaded(None), 0).is_error(503, "SlowDown");
    failures::damage(server, b"to be damaged");
    let damaged = provoke("InternalError", server.request("GET", "/b/k"));
    server.fs.set_capacity(server.fs.files().iter().map(|(_, len)| len).sum());
    let full = provoke("InsufficientStorage", server.request("PUT", "/b/new").body(&pattern(5_000_000)));
    server.fs.set_capacity(1 << 30);
    server.fs.fail_sync_at(server.fs.syncs() + 1);
    let latched = provoke("ServiceUnavailable", server.request("PUT", "/b/new").body(b"x"));
    vec!["SlowDown", damaged, full, latched]
}

#[test]
fn every_error_is_raised_but_those_of_the_engines() {
    let server = Server::with_grants(&[("none", &[], &["*"])]);
    server.put("/bucket", b"");
    server.put("/b/k", b"to be damaged");
    let mut raised = BTreeSet::new();
    let parts = [
        of_authentication,
        of_sessions,
        of_requests,
        of_states,
        of_locks,
        of_quotas,
        of_uploads,
        of_forms,
        of_trouble,
    ];
    for part in parts {
        raised.extend(part(&server));
    }
    let all: BTreeSet<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(all.difference(&raised).copied().collect::<Vec<_>>(), OF_THE_ENGINES);
}
