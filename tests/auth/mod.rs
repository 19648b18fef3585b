//! What the tests of authentication share: the credentials of the S3 API reference, requests made
//! by hand and bodies that come in pieces.

mod chunks;
mod hostile;
mod refusals;
mod vectors;
mod version_2;

use std::sync::{Arc, OnceLock};

use siltstone::auth::{AccessFacts, AclPlace, Authenticator, BucketPolicy, Identity, PolicyContext, Users};
use siltstone::base::{ManualClock, Timestamp};
use siltstone::s3::acl::{AclPermissions, AclUser, GroupGrants};
use siltstone::s3::route::Addressing;
use siltstone::s3::{
    Body, BodyRead, Dialect, ErrorCode, Headers, Method, PublicAccessBlock, QueryParams, Request, S3Error,
};

/// The access key of all examples of the S3 API reference.
pub(crate) const ACCESS_KEY: &str = "AKIAIOSFODNN7EXAMPLE";
/// Its secret.
pub(crate) const SECRET_KEY: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

/// A bucket without an owner, a policy and ACLs.
pub(crate) struct Bare;

impl AccessFacts for Bare {
    fn owner(&self) -> Option<&str> {
        None
    }
    fn policy(&self) -> Option<&BucketPolicy> {
        None
    }
    fn context(&self) -> PolicyContext<'_> {
        PolicyContext::default()
    }
    fn block(&self) -> PublicAccessBlock {
        PublicAccessBlock::default()
    }
    fn has_acls(&self) -> bool {
        false
    }
    fn bucket_acl(&self) -> GroupGrants {
        GroupGrants::NONE
    }
    fn object_acl(&self) -> GroupGrants {
        GroupGrants::NONE
    }
    fn named_in_acl(&self, _: AclPlace, _: AclUser<'_>) -> AclPermissions {
        AclPermissions::NONE
    }
    fn owns_object(&self, _: AclUser<'_>) -> bool {
        false
    }
    fn uses_object(&self) -> bool {
        false
    }
}

/// The moment of all examples.
pub(crate) fn moment() -> Timestamp {
    Timestamp::parse_iso_basic("20130524T000000Z").unwrap()
}

/// The users of the tests: one with the example's keys and all permissions, and an anonymous one
/// with read access.
pub(crate) fn users() -> Users {
    Users::parse(&format!(
        "[[user]]\nname = \"alice\"\naccess_key = \"{ACCESS_KEY}\"\nsecret_key = \"{SECRET_KEY}\"\n\
         allow = [{{ actions = [\"*\"], resources = [\"*\"] }}]\n\
         [[user]]\nname = \"anonymous\"\nallow = [{{ actions = [\"GetObject\"], resources = [\"public/*\"] }}]\n"
    ))
    .unwrap()
}

/// A clock at the moment of the examples, and an authenticator that uses it.
pub(crate) fn authenticator() -> (Arc<ManualClock>, Authenticator) {
    let clock = Arc::new(ManualClock::new(moment()));
    let regions = vec!["eu".to_owned(), "us-east-1".to_owned()];
    let addressing = Addressing { domain: Some("s3.amazonaws.com".to_owned()), ..Addressing::default() };
    (Arc::clone(&clock), Authenticator::new(users(), regions, clock).with_version_2(addressing))
}

/// The same for tests that change neither clock nor users.
fn shared() -> &'static Authenticator {
    static SHARED: OnceLock<Authenticator> = OnceLock::new();
    SHARED.get_or_init(|| authenticator().1)
}

/// Authenticates `request` as the service does: its query is parsed first.
pub(crate) fn authenticate(
    authenticator: &Authenticator,
    request: &mut Request<'_>,
    dialect: Dialect,
) -> Result<Identity, S3Error> {
    let query = QueryParams::parse(&request.query)?;
    authenticator.authenticate(request, &query, dialect)
}

/// The parts of a request, which a test may change before it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) dialect: Dialect,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    /// The most bytes that one read of the body yields.
    pub(crate) piece: usize,
}

impl Sent {
    pub(crate) fn new(
        dialect: Dialect,
        method: &str,
        path: &str,
        query: &str,
        headers: &[(&str, &str)],
    ) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
        Self {
            dialect,
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: headers.collect(),
            body: Vec::new(),
            piece: usize::MAX,
        }
    }

    pub(crate) fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The value of the first header of that name, for a test to change.
    pub(crate) fn header(&mut self, name: &str) -> &mut Vec<u8> {
        let found = self.headers.iter_mut().find(|(other, _)| other.eq_ignore_ascii_case(name));
        &mut found.unwrap_or_else(|| panic!("there is no {name}")).1
    }

    /// Replaces `from` by `to` in the first header of that name.
    pub(crate) fn edit(&mut self, name: &str, from: &str, to: &str) {
        let value = String::from_utf8(self.header(name).clone()).unwrap();
        assert!(value.contains(from), "{name} holds no {from}");
        *self.header(name) = value.replacen(from, to, 1).into_bytes();
    }

    pub(crate) fn request(&self) -> Request<'_> {
        let mut headers = Headers::default();
        for (name, value) in &self.headers {
            headers.push(name, value);
        }
        let content_length = Some(self.body.len() as u64);
        let reader = Box::new(Pieces { bytes: &self.body, most: self.piece });
        Request {
            method: Method::from_token(&self.method),
            path: self.path.clone(),
            query: self.query.clone(),
            headers,
            body: Body { content_length, chunked: false, reader },
            secure: false,
            peer: None,
            client: None,
        }
    }

    /// Authenticates the request and reads its body to the end.
    pub(crate) fn outcome(&self, authenticator: &Authenticator) -> Result<Received, S3Error> {
        let mut request = self.request();
        let identity = authenticate(authenticator, &mut request, self.dialect)?;
        let content_length = request.body.content_length;
        let data = read_all(&mut *request.body.reader)?;
        let trailers = request.body.reader.trailers().to_vec();
        Ok(Received { identity, content_length, data, trailers })
    }

    /// The error that this request must end in.
    pub(crate) fn refusal(&self) -> S3Error {
        match self.outcome(shared()) {
            Err(error) => error,
            Ok(_) => panic!("believed: {self:?}"),
        }
    }

    /// Its code.
    pub(crate) fn code(&self) -> ErrorCode {
        self.refusal().code
    }

    /// The outcome of this request, which must be authenticated.
    pub(crate) fn received(&self) -> Received {
        self.outcome(shared()).unwrap_or_else(|error| panic!("{error}: {:?}\n{self:?}", error.elements))
    }
}

/// The outcome of a request.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) identity: Identity,
    pub(crate) content_length: Option<u64>,
    pub(crate) data: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
}

/// Reads a body to its end, in pieces of an odd size.
pub(crate) fn read_all(reader: &mut dyn BodyRead) -> Result<Vec<u8>, S3Error> {
    let mut data = Vec::new();
    let mut buf = [0; 999];
    loop {
        match reader.read(&mut buf) {
            Ok(0) => return Ok(data),
            Ok(read) => data.extend_from_slice(&buf[..read]),
            Err(error) => {
                assert_eq!(reader.read(&mut buf), Err(error.clone()), "a failed body goes on failing");
                return Err(error);
            }
        }
    }
}

/// A body that yields at most `most` bytes at a time.
struct Pieces<'b> {
    bytes: &'b [u8],
    most: usize,
}

impl BodyRead for Pieces<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        let count = self.bytes.len().min(buf.len()).min(self.most);
        let (now, later) = self.bytes.split_at(count);
        buf[..count].copy_from_slice(now);
        self.bytes = later;
        Ok(count)
    }
}
