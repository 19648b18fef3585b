//! Shared by the fuzzers: a server without sockets, and bodies from bytes.

use std::sync::Arc;

use siltstone::auth::{Authenticator, Users};
use siltstone::base::{ManualClock, Md5Pool, SeededEntropy, Timestamp};
use siltstone::fs::sim::SimFs;
use siltstone::ops::Context;
use siltstone::s3::route::Addressing;
use siltstone::s3::{BodyRead, Response, ResponseBody, S3Error};
use siltstone::service::{MetricsAccess, Service, ServiceSettings};
use siltstone::store::{BucketConfigurationKind, Store, StoreOptions};

/// The time of all requests.
pub const NOW_MILLIS: u64 = 1_769_860_800_000;

/// The same time in the form of signatures.
pub const NOW_BASIC: &str = "20260131T120000Z";

/// Everyone may do everything, and so may `owner`, with the key `AK` and the secret `secret`.
const USERS: &str = r#"
[[user]]
name = "owner"
access_key = "AK"
secret_key = "secret"
[[user.allow]]
actions = ["*"]
resources = ["*"]
[[user]]
name = "anonymous"
[[user.allow]]
actions = ["*"]
resources = ["*"]
"#;

/// The website of the bucket.
const WEBSITE: &[u8] = b"<WebsiteConfiguration><IndexDocument><Suffix>k</Suffix></IndexDocument><ErrorDocument><Key>e</Key>\
    </ErrorDocument><RoutingRules><RoutingRule><Condition><KeyPrefixEquals>r</KeyPrefixEquals></Condition><Redirect>\
    <ReplaceKeyPrefixWith>s</ReplaceKeyPrefixWith></Redirect></RoutingRule></RoutingRules></WebsiteConfiguration>";

/// A clock fixed at [`NOW_MILLIS`].
pub fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_millis(NOW_MILLIS)))
}

/// Opens the store in `fs`, if it can be opened.
pub fn open(fs: &SimFs) -> Option<Store> {
    let options = StoreOptions { keep_free_bytes: 0, idle_group_after: None, ..StoreOptions::default() };
    Store::open(Arc::new(fs.clone()), clock(), &SeededEntropy::new(1), options).ok()
}

fn addressing() -> Addressing {
    Addressing { domain: Some("s3.example".into()), website_domain: Some("web.example".into()) }
}

/// A server with a bucket `b` that holds the object `k`.
pub fn service() -> Service {
    let fs = SimFs::new();
    let store = Arc::new(open(&fs).expect("an empty disk takes a store"));
    store.create_bucket("b", "owner").expect("a new store has no buckets");
    store
        .set_bucket_configuration("b", BucketConfigurationKind::Website, Some(WEBSITE.to_vec()))
        .expect("a bucket takes a website");
    let authenticator =
        Authenticator::new(Users::parse(USERS).expect("it is well-formed"), vec!["eu".into()], clock())
            .with_version_2(addressing());
    let md5 = Md5Pool::start().expect("a thread can be started");
    let context = Context::new(store, "eu".into(), md5, siltstone::base::Budget::unlimited());
    let settings = ServiceSettings {
        addressing: addressing(),
        metrics: MetricsAccess::Open,
        cors_allow_origins: vec!["https://*.example".into()],
        ..ServiceSettings::default()
    };
    Service::new(context, Arc::new(authenticator), clock(), Arc::new(SeededEntropy::new(2)), settings)
}

/// A body that arrives in pieces of at most `step` bytes.
pub struct Pieces<'b> {
    /// The bytes that have not arrived.
    pub bytes: &'b [u8],
    /// The size of a piece; not 0.
    pub step: usize,
}

impl BodyRead for Pieces<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        let count = self.bytes.len().min(buf.len()).min(self.step);
        buf[..count].copy_from_slice(&self.bytes[..count]);
        self.bytes = &self.bytes[count..];
        Ok(count)
    }
}

/// Reads a response to its end and checks that it can be sent.
pub fn receive(response: Response) {
    assert!((200..600).contains(&response.status), "status {}", response.status);
    for (name, value) in &response.headers {
        assert!(!name.is_empty() && !name.contains([':', '\r', '\n', ' ']), "{name:?}");
        assert!(!value.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)), "{name}: {value:?}");
    }
    let panicked = response.status == 500;
    if let ResponseBody::Stream { length, mut source } = response.body {
        let mut total = 0;
        let mut buffer = vec![0; 65_536];
        while let Ok(count @ 1..) = source.read(&mut buffer) {
            total += count as u64;
        }
        assert!(length.is_none_or(|length| length == total), "{total} bytes of {length:?}");
    }
    assert!(!panicked, "nothing that a client sends is an internal error");
}
