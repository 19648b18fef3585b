//! The hot paths: what every request passes, each ready to be gone again and again. `hot.rs` times
//! them, and counts their instructions.

use std::hint::black_box;
use std::sync::Arc;

use siltstone::auth::{Authenticator, Users};
use siltstone::base::digest::Crc32;
use siltstone::base::limits::{BLOCK_BYTES, KIB};
use siltstone::base::{Budget, ManualClock, Md5Pool, SeededEntropy, Timestamp};
use siltstone::format::{BucketRecord, ETag, Entry, ExtentRef, VersionId, VersionRecord, Versioning};
use siltstone::fs::OsFs;
use siltstone::http::fuzzing::read_head;
use siltstone::index::{Index, ListQuery};
use siltstone::ops::Context;
use siltstone::s3::route::Addressing;
use siltstone::s3::{Body, Dialect, Handler as _, Headers, Method, QueryParams, Request, Response};
use siltstone::service::{MetricsAccess, Service, ServiceSettings};
use siltstone::store::{
    Attributes, BucketConfigurationKind, ObjectControls, Selector, StorageClass, Store, StoreOptions,
};
use tempfile::TempDir;

use super::objects::put;

/// A path that has been made ready; each call goes it once.
pub(super) type Walk = Box<dyn FnMut()>;

/// What makes a path ready.
type Ready = fn() -> Walk;

/// The paths by name, with what makes each ready.
pub(super) const PATHS: &[(&str, Ready)] = &[
    ("head", head),
    ("signature", signature),
    ("block", block),
    ("read", read),
    ("commit", commit),
    ("find", find),
    ("apply", apply),
    ("list", list),
    ("page", page),
    ("get", get),
    ("policy", policy),
];

/// Makes the path of that name ready.
pub(super) fn ready(name: &str) -> Walk {
    let path = PATHS.iter().find(|(other, _)| *other == name);
    path.unwrap_or_else(|| panic!("there is no path {name}")).1()
}

/// The bucket of [`EXAMPLE`].
const BUCKET: &str = "examplebucket";

/// The signed GET of ten bytes of `test.txt` in the S3 API reference ("Examples: Signature
/// Calculations").
const EXAMPLE: [(&str, &str); 5] = [
    ("host", "examplebucket.s3.amazonaws.com"),
    ("range", "bytes=0-9"),
    ("x-amz-content-sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ("x-amz-date", "20130524T000000Z"),
    (
        "authorization",
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
         SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
         Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    ),
];

/// Whose request it is; anybody may do everything beside.
const USERS: &str = r#"
[[user]]
name = "alice"
access_key = "AKIAIOSFODNN7EXAMPLE"
secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
[[user.allow]]
actions = ["*"]
resources = ["*"]
[[user]]
name = "anonymous"
[[user.allow]]
actions = ["*"]
resources = ["*"]
"#;

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::parse_iso_basic("20130524T000000Z").expect("it is a moment")))
}

fn authenticator() -> Authenticator {
    let users = Users::parse(USERS).expect("it is well-formed");
    Authenticator::new(users, vec!["us-east-1".into()], clock())
}

fn request(path: &str, query: &str, lines: &[(&str, &str)]) -> Request<'static> {
    let mut headers = Headers::default();
    lines.iter().for_each(|(name, value)| headers.push(name, value.as_bytes()));
    Request {
        method: Method::Get,
        path: path.into(),
        query: query.into(),
        headers,
        body: Body::none(),
        secure: false,
        peer: None,
        client: None,
    }
}

/// The head of a request, as bytes, to its parts.
fn head() -> Walk {
    let lines: String = EXAMPLE.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let bytes = format!("GET /test.txt HTTP/1.1\r\n{lines}\r\n").into_bytes();
    Box::new(move || {
        let head = read_head(black_box(&bytes)).expect("it is well-formed");
        assert!(head.is_some_and(|head| head.len == bytes.len()));
    })
}

/// The signature of a request, by a key that has been derived before.
fn signature() -> Walk {
    let authenticator = authenticator();
    let mut request = request("/test.txt", "", &EXAMPLE);
    let query = QueryParams::default();
    Box::new(move || {
        let identity = authenticator.authenticate(black_box(&mut request), &query, Dialect::Aws);
        assert!(!identity.expect("it is the signature of the reference").is_anonymous());
    })
}

/// The CRC of one block.
fn block() -> Walk {
    let bytes = vec![7; BLOCK_BYTES as usize];
    let crc = Crc32::of(&bytes);
    Box::new(move || assert_eq!(Crc32::of(black_box(&bytes)), crc))
}

/// A store on the disk of temporary files, which goes with its directory.
fn store() -> (TempDir, Arc<Store>) {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let options = StoreOptions { idle_group_after: None, ..StoreOptions::default() };
    let store = Store::open(Arc::new(OsFs::new(dir.path())), clock(), &SeededEntropy::new(1), options);
    let store = store.expect("an empty directory takes a store");
    store.create_bucket(BUCKET, "alice").expect("the bucket is new");
    (dir, Arc::new(store))
}

/// An object of four blocks, found and read from the page cache, every block verified.
fn read() -> Walk {
    let (dir, store) = store();
    put(&store, BUCKET, "k", &vec![7; 4 * BLOCK_BYTES as usize]);
    let mut buffer = vec![0; 4 * BLOCK_BYTES as usize];
    Box::new(move || {
        let _ = &dir;
        let found = store.find(BUCKET, "k", Selector::Current).expect("it was put");
        let mut reader = store.read(&found, 0..found.version.size).expect("the segment is there");
        assert_eq!(reader.read(&mut buffer).expect("the bytes are good"), buffer.len());
    })
}

/// A put of 4 KiB, durable.
fn commit() -> Walk {
    let (dir, store) = store();
    let bytes = vec![7; 4 * KIB as usize];
    Box::new(move || {
        let _ = &dir;
        put(&store, BUCKET, "k", &bytes);
    })
}

fn version(id: u64) -> Entry {
    let record = VersionRecord {
        storage_class: StorageClass::Standard,
        id: VersionId(id),
        null: true,
        delete_marker: false,
        modified: Timestamp::default(),
        size: 4 * KIB,
        etag: ETag::Md5([7; 16]),
        extents: vec![extent_of(id)],
        attributes: Attributes::new(),
        checksums: vec![],
        tags: vec![],
        upload: None,
        controls: ObjectControls::default(),
        controls_stamp: None,
        encryption: None,
        stated_time: None,
    };
    Entry::VersionPut { bucket: 1, key: key(id), record }
}

fn extent_of(id: u64) -> ExtentRef {
    let len = 4 * KIB as u32;
    ExtentRef { segment: 1, offset: 64 * id, payload_len: len, check: 7, skip: 0, take: len, shared: false }
}

fn key(id: u64) -> Vec<u8> {
    format!("one/{:030}", id * 7919 % KEYS).into_bytes()
}

/// Keys in the index of the paths.
const KEYS: u64 = 10_000;

fn index() -> Index {
    let mut index = Index::new();
    let bucket = BucketRecord {
        id: 1,
        name: "b".into(),
        owner: "alice".into(),
        created: Timestamp::default(),
        versioning: Versioning::Unset,
    };
    index.apply(&Entry::BucketPut(bucket)).expect("a bucket can always be put");
    (0..KEYS).for_each(|id| index.apply(&version(id + 2)).expect("the bucket is there"));
    index
}

/// One key among many.
fn find() -> Walk {
    let index = index();
    let mut id = 0;
    Box::new(move || {
        id += 1;
        assert!(index.newest(1, black_box(&key(id))).is_some());
    })
}

/// A put over an older version, as the committer makes it visible: to a copy of the index that
/// others read.
fn apply() -> Walk {
    let mut shown = index();
    let mut id = KEYS + 2;
    Box::new(move || {
        id += 1;
        let mut next = shown.clone();
        next.apply(&version(id)).expect("the bucket is there");
        shown = next;
    })
}

/// A page of 1,000 keys out of the index.
fn list() -> Walk {
    let index = index();
    let query = ListQuery { limit: 1000, ..ListQuery::default() };
    Box::new(move || assert_eq!(index.list(1, black_box(&query)).len(), 1000))
}

fn service(store: Arc<Store>) -> Service {
    let md5 = Md5Pool::start().expect("a thread can be started");
    let context = Context::new(store, "us-east-1".into(), md5, Budget::unlimited());
    let settings = ServiceSettings {
        default_dialect: Dialect::Aws,
        addressing: Addressing { domain: Some("s3.amazonaws.com".into()), ..Addressing::default() },
        metrics: MetricsAccess::Off,
        ..ServiceSettings::default()
    };
    Service::new(context, Arc::new(authenticator()), clock(), Arc::new(SeededEntropy::new(2)), settings)
}

fn expect(response: &Response, status: u16, at_least: u64) {
    assert_eq!(response.status, status);
    assert!(response.body.len().is_some_and(|len| len >= at_least));
}

/// A page of 1,000 keys as a document, from request to response.
fn page() -> Walk {
    let (dir, store) = store();
    std::thread::scope(|scope| {
        for thread in 0..20 {
            let store = &store;
            scope.spawn(move || {
                (0..50).for_each(|at| put(store, BUCKET, &format!("dir/{thread:04}/{at:020}"), b"x"));
            });
        }
    });
    let service = service(store);
    Box::new(move || {
        let _ = &dir;
        let lines = [("host", "examplebucket.s3.amazonaws.com")];
        let response = service.handle(request("/", "list-type=2", &lines));
        expect(&response, 200, 100_000);
    })
}

/// A small GET, signed, from request to response.
fn get() -> Walk {
    let (dir, store) = store();
    put(&store, BUCKET, "test.txt", &vec![7; 4 * KIB as usize]);
    let service = service(store);
    Box::new(move || {
        let _ = &dir;
        expect(&service.handle(request("/test.txt", "", &EXAMPLE)), 206, 10);
    })
}

/// A policy of 20 statements about the bucket, as a site with several tenants might have: public
/// prefixes, prefixes of users, denials by address and without TLS.
fn policy_of_twenty() -> Vec<u8> {
    let statement = |effect: &str, principal: &str, actions: &str, keys: &str, condition: &str| {
        format!(
            r#"{{"Effect": "{effect}", "Principal": {principal}, "Action": {actions}, "Condition": {{{condition}}},
            "Resource": "arn:aws:s3:::{BUCKET}/{keys}"}}"#
        )
    };
    let address = r#""NotIpAddress": {"aws:SourceIp": ["10.0.0.0/8", "192.0.2.0/24"]}"#;
    let statements: Vec<_> = (0..5)
        .flat_map(|tenant| {
            let user = format!(r#"{{"AWS": "arn:aws:iam::123456789012:user/tenant-{tenant}"}}"#);
            let home = format!("tenants/{tenant}/*");
            [
                statement("Allow", r#""*""#, r#""s3:GetObject""#, &format!("tenants/{tenant}/public/*"), ""),
                statement(
                    "Allow",
                    &user,
                    r#"["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]"#,
                    &home,
                    "",
                ),
                statement(
                    "Deny",
                    r#""*""#,
                    r#""s3:*""#,
                    &home,
                    r#""Bool": {"aws:SecureTransport": "false"}"#,
                ),
                statement("Deny", r#""*""#, r#""s3:GetObject*""#, "*", address),
            ]
        })
        .collect();
    format!(r#"{{"Version": "2012-10-17", "Statement": [{}]}}"#, statements.join(", ")).into_bytes()
}

/// The same in a bucket with a policy of 20 statements.
fn policy() -> Walk {
    let (dir, store) = store();
    put(&store, BUCKET, "test.txt", &vec![7; 4 * KIB as usize]);
    let kind = BucketConfigurationKind::Policy;
    store.set_bucket_configuration(BUCKET, kind, Some(policy_of_twenty())).expect("the bucket is there");
    let service = service(store);
    Box::new(move || {
        let _ = &dir;
        let peer = Some(([192, 0, 2, 7], 40_000).into());
        let request = Request { peer, ..request("/test.txt", "", &EXAMPLE) };
        expect(&service.handle(request), 206, 10);
    })
}
