//! A server, with or without a socket, requests to fill in, and answers to look into.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use siltstone::auth::Authenticator;
use siltstone::base::{Budget, ManualClock, Timestamp};
use siltstone::fs::sim::SimFs;
use siltstone::http::EngineName;
use siltstone::keys::SharedKeyRing;
use siltstone::ops::{EntityTags, LifecycleFigures, PaddingTimes};
use siltstone::s3::route::Addressing;
use siltstone::s3::{
    Body, BodyRead, Client, Dialect, Handler as _, Headers, Method, ObjectOwnership, Request, Response,
    ResponseBody, S3Error,
};
use siltstone::service::{AuditLog, MetricsAccess, Service, ServiceSettings, UserDirectory};
use siltstone::store::{Store, StoreOptions};

use crate::support::form::{Form, FormVersion};
use crate::support::service::{EncryptionOptions, InProcess, ServiceOptions, store_options};
use crate::support::signer::{HeaderLines, Signer};
use crate::support::users::{access_key, allow, secret_key, user};

use super::socket::{Payload, Reply, Socket};

pub(super) use crate::support::service::{NAMESPACE, NOW};
pub(super) use crate::support::signer::encoded;

pub(super) const NOW_HTTP: &str = "Sat, 31 Jan 2026 12:00:00 GMT";
const NOW_BASIC: &str = "20260131T120000Z";

/// The environment variable that has requests go over a socket and names the engine behind it;
/// without it they are handed to the service.
pub(super) const TRANSPORT: &str = "SILTSTONE_TEST_TRANSPORT";
/// The environment variable with the prefix of the dialect of requests that do not choose one.
pub(super) const DIALECT: &str = "SILTSTONE_TEST_DIALECT";

/// A body that every engine reads whatever becomes of it.
const SMALL_BYTES: u64 = 1024;

/// The dialect of requests that do not choose one.
pub(super) fn usual_dialect() -> Dialect {
    let prefix = std::env::var(DIALECT).unwrap_or_default();
    Dialect::ALL.into_iter().find(|dialect| dialect.header_prefix() == prefix).unwrap_or(Dialect::Svc)
}

/// The engine that requests go to.
fn engine() -> Option<EngineName> {
    let name = std::env::var(TRANSPORT).ok()?;
    Some(match &*name {
        "direct" => EngineName::Direct,
        "tiny_http" => EngineName::TinyHttp,
        _ => panic!("{TRANSPORT} names no engine: {name}"),
    })
}

/// A server with one bucket, `b`, that belongs to `owner`.
pub(super) struct Server {
    pub(super) fs: SimFs,
    pub(super) store: Arc<Store>,
    pub(super) service: Arc<Service>,
    pub(super) memory: Arc<Budget>,
    pub(super) expiries: Arc<LifecycleFigures>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) authenticator: Arc<Authenticator>,
    pub(super) keys: Arc<SharedKeyRing>,
    socket: Option<Socket>,
}

impl Server {
    /// `owner` and `other` may do everything; others nothing.
    pub(super) fn new() -> Self {
        Self::with_grants(&[])
    }

    /// Further users with their permissions: a name, actions, resources. A user may have several
    /// entries.
    pub(super) fn with_grants(grants: &[(&str, &[&str], &[&str])]) -> Self {
        let mut users = user("owner", &["*"], &["*"]) + &user("other", &["*"], &["*"]);
        let mut last = "";
        for (name, actions, resources) in grants {
            users += &if *name == last { allow(actions, resources) } else { user(name, actions, resources) };
            last = name;
        }
        let settings = ServiceSettings {
            default_dialect: usual_dialect(),
            addressing: Addressing {
                domain: Some("s3.example".to_owned()),
                website_domain: Some("web.example".to_owned()),
            },
            metrics: MetricsAccess::Open,
            ..ServiceSettings::default()
        };
        Self::with(&users, settings, PaddingTimes::default(), EntityTags::Md5)
    }

    /// Puts get the entity tags that are chosen.
    pub(super) fn with_entity_tags(entity_tags: EntityTags) -> Self {
        let settings = ServiceSettings { default_dialect: usual_dialect(), ..ServiceSettings::default() };
        Self::with(&user("owner", &["*"], &["*"]), settings, PaddingTimes::default(), entity_tags)
    }

    pub(super) fn with_settings(settings: ServiceSettings) -> Self {
        Self::with(&user("owner", &["*"], &["*"]), settings, PaddingTimes::default(), EntityTags::Md5)
    }

    /// The anonymous user may read objects.
    pub(super) fn with_settings_for_everybody(settings: ServiceSettings) -> Self {
        let users = user("owner", &["*"], &["*"]) + &user("anonymous", &["GetObject"], &["*"]);
        Self::with(&users, settings, PaddingTimes::default(), EntityTags::Md5)
    }

    pub(super) fn with_padding(padding: PaddingTimes) -> Self {
        let settings = ServiceSettings { default_dialect: usual_dialect(), ..ServiceSettings::default() };
        Self::with(&user("owner", &["*"], &["*"]), settings, padding, EntityTags::Md5)
    }

    /// The index may take up so many bytes.
    pub(super) fn with_index_max(index_max_bytes: u64) -> Self {
        let settings = ServiceSettings {
            default_dialect: usual_dialect(),
            metrics: MetricsAccess::Open,
            ..ServiceSettings::default()
        };
        let choices = (PaddingTimes::default(), EntityTags::Md5);
        Self::with_options(
            &user("owner", &["*"], &["*"]),
            settings,
            choices,
            StoreOptions { index_max_bytes, ..store_options() },
        )
    }

    fn with(users: &str, settings: ServiceSettings, padding: PaddingTimes, entity_tags: EntityTags) -> Self {
        Self::with_options(users, settings, (padding, entity_tags), store_options())
    }

    fn with_options(
        users: &str,
        settings: ServiceSettings,
        choices: (PaddingTimes, EntityTags),
        options: StoreOptions,
    ) -> Self {
        Self::start(users, settings, choices, options, None)
    }

    /// A server with an audit log. `owner` may do everything, `limited` only put and delete
    /// objects.
    pub(super) fn with_audit_log(log: Arc<dyn AuditLog>) -> Self {
        let users = user("owner", &["*"], &["*"]) + &user("limited", &["PutObject", "DeleteObject"], &["*"]);
        let settings = ServiceSettings { default_dialect: usual_dialect(), ..ServiceSettings::default() };
        let choices = (PaddingTimes::default(), EntityTags::Md5);
        Self::start(&users, settings, choices, store_options(), Some(log))
    }

    /// A server with this users file, and an audit log.
    pub(super) fn with_users(users: &str, log: Option<Arc<dyn AuditLog>>) -> Self {
        let settings = ServiceSettings { default_dialect: usual_dialect(), ..ServiceSettings::default() };
        Self::start(users, settings, (PaddingTimes::default(), EntityTags::Md5), store_options(), log)
    }

    /// A server with this users file, which `directory` changes.
    pub(super) fn with_directory(users: &str, directory: Arc<dyn UserDirectory>) -> Self {
        Self::of(ServiceOptions {
            users,
            settings: ServiceSettings { default_dialect: usual_dialect(), ..ServiceSettings::default() },
            padding: PaddingTimes::default(),
            entity_tags: EntityTags::Md5,
            store: store_options(),
            audit_log: None,
            directory: Some(directory),
            encryption: EncryptionOptions::default(),
            ownership: ObjectOwnership::default(),
        })
    }

    /// A server that encrypts objects so.
    pub(super) fn with_encryption(encryption: EncryptionOptions) -> Self {
        let settings = ServiceSettings { default_dialect: usual_dialect(), ..ServiceSettings::default() };
        Self::of(ServiceOptions {
            users: &user("owner", &["*"], &["*"]),
            settings,
            padding: PaddingTimes::default(),
            entity_tags: EntityTags::Md5,
            store: store_options(),
            audit_log: None,
            directory: None,
            encryption,
            ownership: ObjectOwnership::default(),
        })
    }

    /// A server with this ownership in buckets without controls.
    pub(super) fn with_ownership(ownership: ObjectOwnership) -> Self {
        let settings = ServiceSettings { default_dialect: usual_dialect(), ..ServiceSettings::default() };
        Self::of(ServiceOptions {
            users: &user("owner", &["*"], &["*"]),
            settings,
            padding: PaddingTimes::default(),
            entity_tags: EntityTags::Md5,
            store: store_options(),
            audit_log: None,
            directory: None,
            encryption: EncryptionOptions::default(),
            ownership,
        })
    }

    fn start(
        users: &str,
        settings: ServiceSettings,
        (padding, entity_tags): (PaddingTimes, EntityTags),
        store: StoreOptions,
        audit_log: Option<Arc<dyn AuditLog>>,
    ) -> Self {
        let encryption = EncryptionOptions::default();
        let options = ServiceOptions {
            users,
            settings,
            padding,
            entity_tags,
            store,
            audit_log,
            directory: None,
            encryption,
            ownership: ObjectOwnership::default(),
        };
        Self::of(options)
    }

    fn of(options: ServiceOptions<'_>) -> Self {
        let InProcess { fs, store, service, memory, expiries, clock, authenticator, keys, sides: _ } =
            InProcess::start(options);
        let socket = engine().map(|engine| Socket::serve(engine, service.clone()));
        Self { fs, store, service, memory, expiries, clock, authenticator, keys, socket }
    }

    /// A request to be filled in. It is signed by `owner`.
    pub(super) fn request(&self, method: &str, target: &str) -> Asked<'_> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Asked {
            server: self,
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: vec![("Host".to_owned(), b"localhost:9000".to_vec())],
            body: Vec::new(),
            framing: Framing::Length,
            dialect: usual_dialect(),
            user: Some("owner".to_owned()),
            peer: Some((Ipv4Addr::LOCALHOST, 40_000).into()),
            failure: None,
            client: None,
            moment: NOW_BASIC.to_owned(),
            session: None,
        }
    }

    pub(super) fn get(&self, target: &str) -> Answer {
        self.request("GET", target).send()
    }

    pub(super) fn head(&self, target: &str) -> Answer {
        self.request("HEAD", target).send()
    }

    pub(super) fn delete(&self, target: &str) -> Answer {
        self.request("DELETE", target).send()
    }

    /// Puts an object, which must succeed.
    pub(super) fn put(&self, target: &str, body: &[u8]) -> Answer {
        let answer = self.request("PUT", target).body(body).send();
        assert_eq!(answer.status, 200, "{answer:?}");
        answer
    }

    /// Posts a form to `b` that `owner` has signed by version 4 in the usual dialect.
    pub(super) fn post(&self, form: Form) -> Answer {
        let version = FormVersion::V4 { prefix: usual_dialect().header_prefix() };
        self.request("POST", "/b").form(&form.signed(&signer("owner"), version)).send()
    }

    pub(super) fn set_versioning(&self, status: &str) {
        let body = format!("<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>");
        assert_eq!(self.request("PUT", "/b?versioning").body(body.as_bytes()).send().status, 200);
    }
}

/// How the body of a request is framed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// With its length.
    Length,
    /// With this length, whatever there is.
    Announced(u64),
    /// In chunks.
    Chunked,
    /// Not at all.
    None,
}

/// A request in the making. Names of headers that begin with `p-` get the prefix of the dialect.
pub(super) struct Asked<'s> {
    server: &'s Server,
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    framing: Framing,
    dialect: Dialect,
    user: Option<String>,
    peer: Option<SocketAddr>,
    failure: Option<S3Error>,
    client: Option<Arc<dyn Client>>,
    /// The time of the client.
    moment: String,
    session: Option<SessionKeys>,
}

/// Keys that a call of STS handed out.
#[derive(Clone, Debug)]
pub(super) struct SessionKeys {
    pub(super) access_key: String,
    pub(super) secret_key: String,
    pub(super) token: Option<String>,
}

impl SessionKeys {
    pub(super) fn signer(&self) -> Signer {
        let SessionKeys { access_key, secret_key, .. } = self.clone();
        Signer { access_key, secret_key, ..signer("") }
    }
}

/// A client that sends its request and closes the connection.
struct Gone;

impl Client for Gone {
    fn has_left(&self) -> bool {
        true
    }
}

impl Asked<'_> {
    pub(super) fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    pub(super) fn host(mut self, host: &str) -> Self {
        self.headers[0].1 = host.as_bytes().to_vec();
        self
    }

    /// A form in place of a body, without another signature.
    pub(super) fn form(mut self, form: &Form) -> Self {
        self.user = None;
        self.body = form.body();
        self.header("Content-Type", Form::media_type())
    }

    /// Changes the path after the request was signed.
    pub(super) fn set_path(&mut self, path: &str) {
        path.clone_into(&mut self.path);
    }

    pub(super) fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self
    }

    /// A body that fails once its bytes have been read.
    pub(super) fn failing(mut self, error: S3Error) -> Self {
        self.failure = Some(error);
        self
    }

    pub(super) fn chunked(mut self) -> Self {
        self.framing = Framing::Chunked;
        self
    }

    pub(super) fn unframed(mut self) -> Self {
        self.framing = Framing::None;
        self
    }

    /// Announces a length without any byte of a body: reading one fails the test.
    pub(super) fn announcing(mut self, length: u64) -> Self {
        self.framing = Framing::Announced(length);
        self
    }

    pub(super) fn aws(mut self) -> Self {
        self.dialect = Dialect::Aws;
        self
    }

    pub(super) fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    pub(super) fn by(mut self, user: &str) -> Self {
        self.user = Some(user.to_owned());
        self
    }

    /// Signs with the keys of a session.
    pub(super) fn in_session(mut self, keys: &SessionKeys) -> Self {
        self.session = Some(keys.clone());
        self
    }

    fn signer(&self, user: &str) -> Signer {
        self.session.as_ref().map_or_else(|| signer(user), SessionKeys::signer)
    }

    /// Another peer than one on this host. It holds for [`Asked::respond`] alone.
    pub(super) fn peer(mut self, peer: Option<SocketAddr>) -> Self {
        self.peer = peer;
        self
    }

    /// Signs the header at another time, as `20260131T120000Z`.
    pub(super) fn at(mut self, moment: &str) -> Self {
        moment.clone_into(&mut self.moment);
        self
    }

    pub(super) fn anonymous(mut self) -> Self {
        self.user = None;
        self
    }

    /// Wraps `body` in an `aws-chunked` body of unsigned chunks, followed by trailers.
    pub(super) fn with_trailer(mut self, body: &[u8], name: &str, value: &str) -> Self {
        let prefix = self.dialect.header_prefix();
        let name = name.replacen("p-", prefix, 1);
        self.body.clear();
        for chunk in body.chunks(8192) {
            self.body.extend(format!("{:x}\r\n", chunk.len()).bytes());
            self.body.extend(chunk);
            self.body.extend(b"\r\n");
        }
        self.body.extend(format!("0\r\n{name}:{value}\r\n\r\n").bytes());
        self.header("p-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
            .header("p-decoded-content-length", body.len().to_string())
            .header("p-trailer", name)
            .header("Content-Encoding", "aws-chunked")
    }

    /// The client does not wait for the answer.
    pub(super) fn leaving(mut self) -> Self {
        self.client = Some(Arc::new(Gone));
        self
    }

    /// Sends the request. How often its body was read is for the answer to tell.
    pub(super) fn send(mut self) -> Answer {
        self.sign_if_signed();
        if let Some(socket) = &self.server.socket {
            return self.send_over(socket);
        }
        let (response, reads) = self.hand_over();
        Answer { dialect: self.dialect, ..Answer::read(response, reads) }
    }

    /// Hands the request to the service, whatever the transport, and leaves the body of the
    /// response unread.
    pub(super) fn respond(mut self) -> Response {
        self.sign_if_signed();
        self.hand_over().0
    }

    fn sign_if_signed(&mut self) {
        if let Some(user) = self.user.clone() {
            self.sign(&user);
        }
    }

    fn announced(&self) -> Option<u64> {
        match self.framing {
            Framing::Length if self.body.is_empty() && !matches!(&*self.method, "PUT" | "POST") => None,
            Framing::Length => Some(self.body.len() as u64),
            Framing::Announced(length) => Some(length),
            Framing::Chunked | Framing::None => None,
        }
    }

    fn send_over(&self, socket: &Socket) -> Answer {
        let query = if self.query.is_empty() { String::new() } else { format!("?{}", self.query) };
        let mut head = format!("{} {}{query} HTTP/1.1\r\n", self.method, self.path).into_bytes();
        for (name, value) in &self.headers {
            head.extend(self.spelled(name).bytes());
            head.extend(b": ");
            head.extend(value);
            head.extend(b"\r\n");
        }
        let short = u64::from(self.failure.is_some());
        if let Some(length) = self.announced() {
            head.extend(format!("Content-Length: {}\r\n", length + short).bytes());
        }
        let small = vec![0; self.announced().map_or(0, |length| length.min(SMALL_BYTES) as usize)];
        let payload = match self.framing {
            // This engine reads a body before it refuses it.
            Framing::Announced(length) if engine() == Some(EngineName::TinyHttp) && length <= SMALL_BYTES => {
                Payload::Bytes(&small)
            }
            Framing::Announced(_) => {
                head.extend(b"Expect: 100-continue\r\n");
                Payload::Withheld
            }
            Framing::Chunked => {
                head.extend(b"Transfer-Encoding: chunked\r\n");
                Payload::Chunks(&self.body)
            }
            Framing::None => Payload::Bytes(&[]),
            Framing::Length if self.failure.is_some() => Payload::Short(&self.body),
            Framing::Length => Payload::Bytes(&self.body),
        };
        head.extend(b"\r\n");
        let reply = socket.send(&head, &payload, self.method == "HEAD");
        let Reply { status, headers, body, cut } = reply;
        Answer { status, headers, body, cut, reads: 0, dialect: self.dialect }
    }

    fn hand_over(&self) -> (Response, usize) {
        let mut headers = Headers::default();
        for (name, value) in &self.headers {
            headers.push(&self.spelled(name), value);
        }
        let reads = AtomicUsize::new(0);
        let forbidden = matches!(self.framing, Framing::Announced(_));
        let reader = Pieces { bytes: &self.body, failure: self.failure.clone(), forbidden, reads: &reads };
        let request = Request {
            method: Method::from_token(&self.method),
            path: self.path.clone(),
            query: self.query.clone(),
            headers,
            body: Body {
                content_length: self.announced(),
                chunked: self.framing == Framing::Chunked,
                reader: Box::new(reader),
            },
            secure: false,
            peer: self.peer,
            client: self.client.clone(),
        };
        let response = self.server.service.handle(request).complete_deferred().unwrap();
        (response, reads.into_inner())
    }

    fn spelled(&self, name: &str) -> String {
        match name.strip_prefix("p-") {
            Some(suffix) => format!("{}{suffix}", self.dialect.header_prefix()),
            None => name.to_owned(),
        }
    }

    fn sign(&mut self, user: &str) {
        self.headers.push(("p-date".to_owned(), self.moment.as_bytes().to_vec()));
        if !self.headers.iter().any(|(name, _)| name == "p-content-sha256") {
            self.headers.push(("p-content-sha256".to_owned(), b"UNSIGNED-PAYLOAD".to_vec()));
        }
        if let Some(token) = self.session.as_ref().and_then(|session| session.token.clone()) {
            self.headers.push(("p-security-token".to_owned(), token.into_bytes()));
        }
        let lines = self.lines_to_sign();
        let payload = lines.first(&self.spelled("p-content-sha256")).to_vec();
        let signer = Signer { moment: self.moment.clone(), ..self.signer(user) };
        let value = signer.authorization(&self.method, &self.path, &self.query, &lines, &payload);
        self.headers.push(("Authorization".to_owned(), value.into_bytes()));
    }

    /// Signs the request in its query, as far as it has come, for some minutes. Names of
    /// `parameters` that begin with `p-` get the prefix of the dialect.
    pub(super) fn presigned(mut self, parameters: &[(&str, &str)]) -> Self {
        let user = self.user.take().unwrap();
        let lines = self.lines_to_sign();
        let mut parameters: Vec<_> =
            parameters.iter().map(|(name, value)| (self.spelled(name), (*value).to_owned())).collect();
        let prefix = self.dialect.query_prefix();
        if let Some(token) = self.session.as_ref().and_then(|session| session.token.clone()) {
            parameters.push((format!("{prefix}Security-Token"), token));
        }
        let signer = self.signer(&user);
        self.query =
            signer.presigned_query(&self.method, &self.path, &self.query, prefix, &parameters, &lines);
        self
    }

    /// Presigns the request by version 2, as AWS's clients do, with `headers` moved to the query.
    pub(super) fn presigned_v2(mut self, headers: &[(&str, &str)]) -> Self {
        let user = self.user.take().unwrap();
        self.dialect = Dialect::Aws;
        let lines: Vec<_> =
            headers.iter().map(|(name, value)| (self.spelled(name), (*value).to_owned())).collect();
        let expires = Timestamp::parse_iso8601(NOW).unwrap().as_secs() + 600;
        self.query =
            self.signer(&user).presigned_query_v2(&self.method, &self.path, &self.query, expires, &lines);
        self
    }

    fn lines_to_sign(&self) -> HeaderLines {
        HeaderLines::of(self.headers.iter().map(|(name, value)| (self.spelled(name), value.as_slice())))
    }
}

/// The elements with which errors name what they refuse (S3 API reference, "Error responses", and
/// answers of S3 in public reports). The others have nothing to name, or not in all their cases.
const NAMED: [(&str, &[&str]); 44] = [
    ("AccessForbidden", &["Method", "ResourceType"]),
    ("BadDigest", &["ExpectedDigest", "CalculatedDigest"]),
    ("BucketAlreadyExists", &["BucketName"]),
    ("BucketAlreadyOwnedByYou", &["BucketName"]),
    ("BucketNotEmpty", &["BucketName"]),
    ("EntityTooLarge", &["MaxSizeAllowed"]),
    ("EntityTooSmall", &["ProposedSize", "MinSizeAllowed"]),
    ("InvalidAccessKeyId", &["AWSAccessKeyId"]),
    ("InvalidArgument", &["ArgumentName", "ArgumentValue"]),
    ("InvalidBucketName", &["BucketName"]),
    ("InvalidBucketState", &["BucketName"]),
    ("InvalidChunkSizeError", &["BadChunkSizeInBytes"]),
    ("InvalidDigest", &["Content-MD5"]),
    ("InvalidLocationConstraint", &["LocationConstraint"]),
    ("InvalidPart", &["UploadId", "PartNumber"]),
    ("InvalidPartNumber", &["ActualPartCount", "PartNumberRequested"]),
    ("InvalidPartOrder", &["UploadId"]),
    ("InvalidRange", &["RangeRequested", "ActualObjectSize"]),
    ("InvalidStorageClass", &["StorageClassRequested"]),
    ("InvalidURI", &["URI"]),
    ("KMS.DisabledException", &["KeyId"]),
    ("KMS.NotFoundException", &["KeyId"]),
    ("KeyTooLongError", &["Size", "MaxSizeAllowed"]),
    ("MaxMessageLengthExceeded", &["MaxMessageLengthBytes"]),
    ("MetadataTooLarge", &["Size", "MaxSizeAllowed"]),
    ("MethodNotAllowed", &["Method", "ResourceType"]),
    ("NoSuchBucket", &["BucketName"]),
    ("NoSuchBucketPolicy", &["BucketName"]),
    ("NoSuchCORSConfiguration", &["BucketName"]),
    ("NoSuchConfiguration", &["BucketName", "Id"]),
    ("NoSuchKey", &["Key"]),
    ("NoSuchLifecycleConfiguration", &["BucketName"]),
    ("NoSuchObjectLockConfiguration", &["Key"]),
    ("NoSuchPublicAccessBlockConfiguration", &["BucketName"]),
    ("NoSuchUpload", &["UploadId"]),
    ("NoSuchVersion", &["Key", "VersionId"]),
    ("NoSuchWebsiteConfiguration", &["BucketName"]),
    ("ObjectLockConfigurationNotFoundError", &["BucketName"]),
    ("OwnershipControlsNotFoundError", &["BucketName"]),
    ("PreconditionFailed", &["Condition"]),
    ("ReplicationConfigurationNotFoundError", &["BucketName"]),
    ("RequestTimeTooSkewed", &["RequestTime", "ServerTime", "MaxAllowedSkewMilliseconds"]),
    ("ServerSideEncryptionConfigurationNotFoundError", &["BucketName"]),
    ("XAmzContentSHA256Mismatch", &["ClientComputedContentSHA256", "S3ComputedContentSHA256"]),
];

pub(super) fn signer(user: &str) -> Signer {
    Signer {
        access_key: access_key(user),
        secret_key: secret_key(user),
        region: "eu",
        service: "s3",
        moment: NOW_BASIC.to_owned(),
    }
}

/// A body in small pieces.
struct Pieces<'b> {
    bytes: &'b [u8],
    failure: Option<S3Error>,
    forbidden: bool,
    reads: &'b AtomicUsize,
}

impl BodyRead for Pieces<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        assert!(!self.forbidden, "the body was read");
        self.reads.fetch_add(1, Ordering::Relaxed);
        let count = self.bytes.len().min(buf.len()).min(70_001);
        buf[..count].copy_from_slice(&self.bytes[..count]);
        self.bytes = &self.bytes[count..];
        match self.failure.clone() {
            Some(error) if count == 0 => Err(error),
            _ => Ok(count),
        }
    }
}

/// The response.
pub(super) struct Answer {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// Whether the body ended before it was whole.
    pub(super) cut: bool,
    /// How often the request's body was read, where that can be seen.
    pub(super) reads: usize,
    dialect: Dialect,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = &self.body[..self.body.len().min(2000)];
        write!(f, "{} {:?}\n{}", self.status, self.headers, String::from_utf8_lossy(shown))
    }
}

impl Answer {
    pub(super) fn read(response: Response, reads: usize) -> Self {
        let headers = response.headers.iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), String::from_utf8(value.clone()).unwrap()));
        let headers = headers.collect();
        let (body, cut) = match response.body {
            ResponseBody::Empty => (Vec::new(), false),
            ResponseBody::Bytes(bytes) => (bytes, false),
            ResponseBody::Stream { length, mut source } => {
                let mut body = Vec::new();
                let mut buffer = vec![0; 100_000];
                let cut = loop {
                    match source.read(&mut buffer) {
                        Ok(0) => break false,
                        Ok(count) => body.extend(&buffer[..count]),
                        Err(_) => break true,
                    }
                };
                assert!(cut || length.is_none_or(|length| length == body.len() as u64));
                (body, cut)
            }
            ResponseBody::Deferred(_) => unreachable!("it has been settled"),
        };
        Self { status: response.status, headers, body, cut, reads, dialect: usual_dialect() }
    }

    /// The value of a header, which must be there at most once. A name that begins with `p-` gets
    /// the prefix of the request's dialect.
    pub(super) fn header(&self, given: &str) -> Option<&str> {
        let name = given.strip_prefix("p-").map(|suffix| format!("{}{suffix}", self.dialect.header_prefix()));
        let name = name.as_deref().unwrap_or(given);
        let mut found = self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "more than one {name}");
        value
    }

    /// The names of the headers, without those of the framing, which are the engine's, and without
    /// the second name that the request id has in the dialect of AWS.
    pub(super) fn header_names(&self) -> impl Iterator<Item = &str> {
        const APART: [&str; 5] =
            ["Date", "Content-Length", "Connection", "Transfer-Encoding", "x-amz-request-id"];
        self.headers.iter().map(|(name, _)| name.as_str()).filter(|name| !APART.contains(name))
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The texts of all elements called `name`, in their order.
    pub(super) fn all(&self, name: &str) -> Vec<String> {
        let document = roxmltree::Document::parse(self.text()).unwrap_or_else(|e| panic!("{e}: {self:?}"));
        let found = document.descendants().filter(|node| node.tag_name().name() == name);
        found.map(|node| node.text().unwrap_or_default().to_owned()).collect()
    }

    /// The text of the first element called `name`.
    pub(super) fn one(&self, name: &str) -> Option<String> {
        self.all(name).into_iter().next()
    }

    /// The names of the root and of its children.
    pub(super) fn outline(&self) -> Vec<String> {
        let document = roxmltree::Document::parse(self.text()).unwrap();
        let root = document.root_element();
        let names = std::iter::once(root).chain(root.children().filter(roxmltree::Node::is_element));
        names.map(|node| node.tag_name().name().to_owned()).collect()
    }

    pub(super) fn code(&self) -> String {
        self.one("Code").unwrap_or_default()
    }

    /// Checks that this is the error `code` in its full form.
    pub(super) fn is_error(&self, status: u16, code: &str) -> &Self {
        assert_eq!((self.status, self.code().as_str()), (status, code), "{self:?}");
        assert_eq!(self.header("Content-Type"), Some("application/xml"));
        assert_eq!(self.one("RequestId").as_deref(), self.header("x-request-id"));
        assert!(self.one("Message").is_some_and(|message| !message.is_empty()));
        assert!(self.one("Resource").is_some());
        for (_, elements) in NAMED.iter().filter(|(named, _)| *named == code) {
            for element in *elements {
                assert!(self.one(element).is_some(), "{element} of {self:?}");
            }
        }
        if code == "NotImplemented" {
            let what = ["Header", "ResourceType", "ArgumentName", "Grantee"];
            assert!(what.iter().any(|element| self.one(element).is_some()), "{self:?}");
        }
        self
    }

    /// Checks that this is the error of a HEAD: a status alone.
    pub(super) fn is_bare(&self, status: u16) -> &Self {
        assert_eq!((self.status, self.body.as_slice()), (status, &b""[..]), "{self:?}");
        self
    }
}

/// Bytes that repeat at no power of two.
pub(super) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 % 251) as u8).collect()
}
