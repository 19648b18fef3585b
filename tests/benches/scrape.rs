//! The cost of reading the metrics of a large store.

use std::sync::Arc;
use std::thread;

use siltstone::auth::{Authenticator, Users};
use siltstone::base::{Budget, Md5Pool, SeededEntropy, SystemClock};
use siltstone::ops::Context;
use siltstone::s3::{Body, Handler as _, Headers, Method, Request, ResponseBody};
use siltstone::service::{MetricsAccess, Service, ServiceSettings};
use siltstone::store::Store;

use super::measure::median;
use super::objects::put;

/// Buckets beside the large one, each with an object.
const BUCKETS: usize = 1_000;

/// Prints the time of a scrape with many buckets.
pub(super) fn scrapes(store: &Arc<Store>) {
    // Sixteen threads share the syncs.
    thread::scope(|scope| {
        for first in 0..16 {
            scope.spawn(move || {
                for nth in (first..BUCKETS).step_by(16) {
                    let bucket = format!("bucket-{nth:04}");
                    store.create_bucket(&bucket, "bench").expect("the bucket is new");
                    put(store, &bucket, "key", &vec![7; nth]);
                }
            });
        }
    });
    let service = service(Arc::clone(store));
    let page = || {
        let ResponseBody::Bytes(page) = service.handle(metrics()).body else { panic!("it is a page") };
        page.len()
    };
    let len = page();
    println!("scrape with {} more buckets: {:.2?} for {len} bytes", BUCKETS, median(page));
}

fn metrics() -> Request<'static> {
    let mut headers = Headers::default();
    headers.push("host", b"localhost");
    Request {
        method: Method::Get,
        path: "/-/metrics".to_owned(),
        query: String::new(),
        headers,
        body: Body::none(),
        secure: false,
        peer: None,
        client: None,
    }
}

fn service(store: Arc<Store>) -> Service {
    let clock = Arc::new(SystemClock);
    let md5 = Md5Pool::start().expect("a thread can be started");
    let context = Context::new(store, "us-east-1".into(), md5, Budget::unlimited());
    let users = Users::parse(
        "[[user]]\nname = \"anonymous\"\nallow = [{ actions = [\"*\"], resources = [\"*\"] }]\n",
    )
    .expect("the users are good");
    let authenticator = Authenticator::new(users, vec!["us-east-1".into()], clock.clone());
    let settings = ServiceSettings { metrics: MetricsAccess::Open, ..ServiceSettings::default() };
    Service::new(context, Arc::new(authenticator), clock, Arc::new(SeededEntropy::new(2)), settings)
}
