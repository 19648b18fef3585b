//! PutBucketLogging, and the access logs of buckets that are delivered to others.

use std::time::Duration;

use siltstone::base::{Clock, Timestamp};
use siltstone::s3::{Body, Headers, Method, ObjectKey, Request, TargetResource};
use siltstone::service::DueRecords;

use super::delete::content_md5;
use super::*;
use crate::support::form::Form;
use crate::support::users::user;

fn document(target: &str, more: &str) -> String {
    format!(
        "<BucketLoggingStatus><LoggingEnabled><TargetBucket>{target}</TargetBucket>{more}\
         <TargetPrefix>of b/</TargetPrefix></LoggingEnabled></BucketLoggingStatus>"
    )
}

fn set(server: &Server, bucket: &str, document: &str) -> Answer {
    server.request("PUT", &format!("/{bucket}?logging")).body(document.as_bytes()).send()
}

/// A server whose bucket `b` is logged in `logs`.
fn logged() -> Server {
    let server = Server::new();
    server.store.create_bucket("logs", "owner").unwrap();
    assert_eq!(set(&server, "b", &document("logs", "")).status, 200);
    server
}

fn encoded_path(key: &str) -> String {
    key.replace(' ', "%20")
}

fn keys(server: &Server, bucket: &str) -> Vec<String> {
    let listing = server.get(&format!("/{bucket}?list-type=2"));
    assert_eq!(listing.status, 200, "{listing:?}");
    listing.all("Key")
}

/// The lines that are delivered, over all objects of `bucket` below the prefix of the logs.
fn lines(server: &Server, bucket: &str) -> Vec<String> {
    let keys = keys(server, bucket);
    let objects = keys.iter().filter(|key| key.starts_with("of b/"));
    let texts = objects.map(|key| server.get(&format!("/{bucket}/{}", encoded_path(key))).text().to_owned());
    texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// The fields of a line, those in quotes and brackets whole.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut within = None;
    for c in line.chars() {
        match (c, within) {
            (' ', None) => fields.push(String::new()),
            ('"', None) => within = Some('"'),
            ('[', None) => within = Some(']'),
            (end, Some(open)) if end == open => within = None,
            (c, _) => fields.last_mut().unwrap().push(c),
        }
    }
    fields
}

/// The operation, the key, the status, the error, the bytes that were sent and the size of the
/// object.
fn outline(line: &str) -> String {
    let fields = fields(line);
    assert_eq!(fields.len(), 26, "{line}");
    [6, 7, 9, 10, 11, 12].map(|at| fields[at].clone()).join(" ")
}

fn figure(server: &Server, name: &str) -> u64 {
    let page = server.request("GET", "/-/metrics").anonymous().send();
    let start = format!("siltstone_{name} ");
    let value = page.text().lines().find_map(|line| line.strip_prefix(&start));
    value.unwrap_or_else(|| panic!("no {name} in {}", page.text())).parse().unwrap()
}

#[test]
fn each_request_has_a_line_in_an_object_of_the_target() {
    let server = logged();
    server.store.create_bucket("other", "owner").unwrap();
    server.put("/b/a%20b", b"hello");
    server.request("GET", "/b/a%20b?x=%22").header("Range", "bytes=1-2").send();
    server.request("GET", "/b/absent").header("Referer", "http://a/\"b\" c").send();
    server.request("GET", "/b/a%20b").anonymous().send().is_error(403, "AccessDenied");
    server.request("HEAD", "/b/a%20b").presigned(&[]).send();
    server.request("PUT", "/other/copy").header("p-copy-source", "/b/a%20b").send();
    server.request("PUT", "/b/copy").header("p-copy-source", "/other/copy").send();
    let body = "<Delete><Object><Key>copy</Key></Object><Object><Key>never</Key><VersionId>x</VersionId></Object></Delete>";
    server.request("POST", "/b?delete").header("Content-MD5", content_md5(body)).body(body.as_bytes()).send();
    server.delete("/b/a%20b");
    server.get("/other/copy");
    server.get("/logs?list-type=2");
    assert_eq!(keys(&server, "logs"), Vec::<String>::new(), "nothing is delivered yet");
    server.service.deliver_bucket_logs(DueRecords::All);
    let [key] = &keys(&server, "logs")[..] else { panic!() };
    assert!(
        key.starts_with("of b/2026-01-31-12-00-00-") && key.len() == "of b/2026-01-31-12-00-00-".len() + 16
    );
    let object = server.get(&format!("/logs/{}", encoded_path(key)));
    assert_eq!(object.header("content-type"), Some("text/plain"));
    let lines = lines(&server, "logs");
    let outlines: Vec<_> = lines.iter().map(|line| outline(line)).collect();
    assert_eq!(
        outlines,
        [
            "REST.PUT.OBJECT a%20b 200 - - 5",
            "REST.GET.OBJECT a%20b 206 - 2 5",
            "REST.GET.OBJECT absent 404 NoSuchKey SIZE -",
            "REST.GET.OBJECT a%20b 403 AccessDenied SIZE -",
            "REST.HEAD.OBJECT a%20b 200 - - 5",
            "REST.COPY.OBJECT_GET a%20b 200 - SIZE -",
            "REST.COPY.OBJECT copy 200 - SIZE -",
            "REST.POST.MULTI_OBJECT_DELETE - 200 - SIZE -",
            "BATCH.DELETE.OBJECT copy 204 - - -",
            "BATCH.DELETE.OBJECT never 404 NoSuchVersion - -",
            "REST.DELETE.OBJECT a%20b 204 - - -",
        ]
        .map(|line| sized(line, &outlines)),
    );
    let of = |at: usize, field: usize| fields(&lines[at])[field].clone();
    assert_eq!((of(0, 0), of(0, 1)), ("owner".to_owned(), "b".to_owned()));
    assert_eq!(of(0, 2), "31/Jan/2026:12:00:00 +0000");
    assert_eq!(
        (of(0, 3), of(0, 4)),
        ("127.0.0.1".to_owned(), "arn:aws:iam::000000000000:user/owner".to_owned())
    );
    assert_eq!(of(1, 8), "GET /b/a%20b?x=%22 HTTP/1.1");
    assert_eq!(of(2, 15), "http://a/%22b%22 c");
    assert_eq!(
        (of(0, 19), of(0, 21), of(0, 22)),
        ("SigV4".into(), "AuthHeader".into(), "localhost:9000".into())
    );
    assert_eq!((of(3, 4), of(3, 19), of(3, 21)), ("-".into(), "-".into(), "-".into()));
    assert_eq!(of(4, 21), "QueryString");
    assert!(lines.iter().all(|line| !line.contains("Signature=") || line.contains("Signature=-")));
    server.service.deliver_bucket_logs(DueRecords::All);
    assert_eq!(keys(&server, "logs").len(), 1, "the target has no log");
}

/// The expected line with the sizes of documents, which are not what is tested.
fn sized(line: &str, all: &[String]) -> String {
    let Some(start) = line.strip_suffix("SIZE -") else { return line.to_owned() };
    let found = all.iter().find(|known| known.starts_with(start)).cloned().unwrap_or_default();
    let size = found.strip_prefix(start).and_then(|rest| rest.strip_suffix(" -"));
    assert!(size.is_some_and(|size| size.parse::<u64>().is_ok()), "{line}: {found}");
    found
}

#[test]
fn requests_of_the_console_and_forms_are_recorded_too() {
    let server = logged();
    server.put("/b/x", b"hello");
    let key = server.authenticator.enter("AK-owner", "secret of owner").unwrap();
    let request = || Request {
        method: Method::Get,
        path: "/console".to_owned(),
        query: String::new(),
        headers: Headers::default(),
        body: Body::none(),
        secure: false,
        peer: None,
        client: None,
    };
    let identity = server.authenticator.identity_of(&key, &request()).unwrap();
    let target =
        TargetResource::Object { bucket: "b".to_owned(), key: ObjectKey::new("x".to_owned()).unwrap() };
    assert_eq!(server.service.handle_as(&identity, target, request()).status, 200);
    assert_eq!(server.post(Form::new(&[("key", "posted")], b"bytes")).status, 204);
    server.service.deliver_bucket_logs(DueRecords::All);
    let lines = lines(&server, "logs");
    let outlines: Vec<_> = lines.iter().map(|line| outline(line)).collect();
    let expected =
        ["REST.PUT.OBJECT x 200 - - 5", "REST.GET.OBJECT x 200 - 5 5", "REST.POST.BUCKET posted 204 - - -"];
    assert_eq!(outlines, expected);
    for line in &lines {
        assert_eq!(fields(line)[4], "arn:aws:iam::000000000000:user/owner", "{line}");
    }
}

#[test]
fn a_log_in_its_own_bucket_does_not_record_its_delivery() {
    let server = Server::new();
    assert_eq!(set(&server, "b", &document("b", "")).status, 200);
    server.put("/b/x", b"x");
    for objects in 1..4 {
        server.service.deliver_bucket_logs(DueRecords::All);
        server.service.deliver_bucket_logs(DueRecords::All);
        assert_eq!(figure(&server, "bucket_log_objects_total"), objects);
        // The listing is the one request of the next object.
        let keys = server.get("/b?list-type=2").all("Key");
        assert_eq!(keys.iter().filter(|key| key.starts_with("of b/")).count(), objects as usize);
    }
}

#[test]
fn records_are_due_after_a_while_or_once_they_fill_an_object() {
    let server = logged();
    let objects = |server: &Server| server.get("/logs?list-type=2").all("Key").len();
    let five_minutes = Duration::from_secs(300);
    server.put("/b/a", b"a");
    server.clock.advance(five_minutes - Duration::from_millis(1));
    server.service.deliver_bucket_logs(DueRecords::After(five_minutes));
    assert_eq!(objects(&server), 0);
    server.clock.advance(Duration::from_millis(1));
    server.service.deliver_bucket_logs(DueRecords::After(five_minutes));
    assert_eq!(objects(&server), 1);
    let agent = "x".repeat(7_000);
    let mut requests = 0;
    while objects(&server) == 1 {
        server.request("HEAD", "/b").header("User-Agent", &agent).at("20260131T120500Z").send();
        server.service.deliver_bucket_logs(DueRecords::After(five_minutes));
        requests += 1;
    }
    assert!((130..155).contains(&requests), "about a mebibyte: {requests} lines");
}

#[test]
fn the_thread_that_delivers_sleeps_until_there_is_something_to_deliver() {
    let server = logged();
    let changes = server.service.bucket_log_changes();
    let five_minutes = Duration::from_secs(300);
    let deliver = || server.service.deliver_bucket_logs(DueRecords::After(five_minutes));
    let began = server.clock.instant();
    deliver();
    server.clock.advance(five_minutes);
    deliver();
    while changes.try_recv().is_ok() {}
    assert_eq!(deliver(), None, "nothing waits");
    assert!(changes.try_recv().is_err());

    server.put("/b/a", b"a");
    assert!(changes.try_recv().is_ok(), "the first record");
    assert_eq!(deliver(), Some(began + 2 * five_minutes));
    server.put("/b/a", b"a");
    assert!(changes.try_recv().is_err(), "it is not due before the first");

    let agent = "x".repeat(7_000);
    let mut requests = 0;
    while changes.try_recv().is_err() {
        server.request("HEAD", "/b").header("User-Agent", &agent).at("20260131T120500Z").send();
        requests += 1;
        assert!(requests < 155, "a full object is not told");
    }
    assert_eq!(deliver(), None, "the full object is delivered");
}

#[test]
fn the_thread_that_delivers_wakes_for_another_attempt() {
    let server = logged();
    server.store.delete_bucket("logs").unwrap();
    server.put("/b/a", b"a");
    let next = server.service.deliver_bucket_logs(DueRecords::After(Duration::ZERO));
    assert_eq!(next, Some(server.clock.instant() + Duration::from_secs(30)));
}

#[test]
fn each_day_has_objects_of_its_own_where_the_keys_name_it() {
    let server = logged();
    let by_day = "<TargetObjectKeyFormat><PartitionedPrefix><PartitionDateSource>EventTime</PartitionDateSource>\
                  </PartitionedPrefix></TargetObjectKeyFormat>";
    assert_eq!(set(&server, "b", &document("logs", by_day)).status, 200);
    server.put("/b/a", b"a");
    server.clock.set(Timestamp::parse_iso8601("2026-02-01T00:00:01Z").unwrap());
    server.request("GET", "/b/a").at("20260201T000001Z").send();
    server.service.deliver_bucket_logs(DueRecords::All);
    let keys = server.request("GET", "/logs?list-type=2").at("20260201T000001Z").send().all("Key");
    let days: Vec<_> = keys.iter().map(|key| key[..key.len() - 17].to_owned()).collect();
    // The request that set it was recorded by the configuration before.
    assert_eq!(days.len(), 3, "{days:?}");
    assert!(days.contains(&"of b/000000000000/eu/b/2026/01/31/2026-01-31-00-00-00".to_owned()), "{days:?}");
    assert!(days.contains(&"of b/000000000000/eu/b/2026/02/01/2026-02-01-00-00-00".to_owned()), "{days:?}");
}

#[test]
fn a_target_that_takes_nothing_holds_up_no_other_log_and_is_reported() {
    let server = logged();
    for bucket in ["c", "logs-of-c"] {
        server.store.create_bucket(bucket, "owner").unwrap();
    }
    assert_eq!(set(&server, "c", &document("logs-of-c", "")).status, 200);
    let deliver = || server.service.deliver_bucket_logs(DueRecords::After(Duration::ZERO));
    deliver();
    let retry = || {
        server.clock.advance(Duration::from_secs(31));
        deliver();
    };
    let get = |target: &str| server.request("GET", target).at("20260131T120200Z").send();
    let delivered = |bucket: &str| get(&format!("/{bucket}?list-type=2")).all("Key").len();
    server.store.delete_bucket("logs").unwrap();
    get("/b/x");
    get("/c/x");
    let before = delivered("logs-of-c");
    deliver();
    assert_eq!(delivered("logs-of-c"), before + 1);
    assert_eq!(
        (figure(&server, "bucket_logs_failing"), figure(&server, "bucket_log_lost_records_total")),
        (1, 0)
    );
    // A bucket of another owner that has taken the name gets nothing.
    server.store.create_bucket("logs", "eve").unwrap();
    retry();
    assert_eq!(delivered("logs"), 0);
    server.store.delete_bucket("logs").unwrap();
    server.store.create_bucket("logs", "owner").unwrap();
    // One that is full neither.
    let quota = server.request("PUT", "/logs?quota").at("20260131T120200Z").body(b"{\"bytes\": 1}").send();
    assert_eq!(quota.status, 200, "{quota:?}");
    retry();
    assert_eq!((delivered("logs"), figure(&server, "bucket_logs_failing")), (0, 1));
    server.request("DELETE", "/logs?quota").at("20260131T120200Z").send();
    get("/b/y");
    deliver();
    assert_eq!(delivered("logs"), 0, "it waits for a while");
    retry();
    assert_eq!((delivered("logs"), figure(&server, "bucket_logs_failing")), (1, 0));
    let [key] = &get("/logs?list-type=2").all("Key")[..] else { panic!() };
    let text = get(&format!("/logs/{}", encoded_path(key))).text().to_owned();
    let keys: Vec<_> = text.lines().map(|line| fields(line)[7].clone()).collect();
    assert_eq!(keys, ["x", "y"], "in their order");
    assert_eq!(figure(&server, "bucket_log_lost_records_total"), 0);
}

#[test]
fn what_waits_too_long_is_dropped_and_counted_and_takes_bounded_memory() {
    let server = logged();
    server.store.delete_bucket("logs").unwrap();
    let agent = "x".repeat(7_000);
    for _ in 0..700 {
        server.request("HEAD", "/b").header("User-Agent", &agent).send();
    }
    let waiting = figure(&server, "bucket_log_waiting_bytes");
    assert!(waiting <= 4 << 20 && waiting > (4 << 20) - 8_000, "{waiting}");
    assert!(figure(&server, "bucket_log_lost_records_total") > 100);
    server.service.deliver_bucket_logs(DueRecords::All);
    assert_eq!(figure(&server, "bucket_log_waiting_bytes"), 0);
    assert_eq!(figure(&server, "bucket_log_lost_records_total"), 700);
}

#[test]
fn a_configuration_is_set_read_and_taken_away_and_needs_rights_on_both_buckets() {
    let server = Server::with_users(
        &(user("owner", &["*"], &["*"])
            + &user("eve", &["*"], &["@owned", "@owned/*"])
            + &user("half", &["PutBucketLogging"], &["*"])),
        None,
    );
    server.store.create_bucket("logs", "owner").unwrap();
    server.store.create_bucket("eves", "eve").unwrap();
    let get = || server.get("/b?logging");
    assert_eq!(get().all("TargetBucket"), Vec::<String>::new());
    for dialect in Dialect::ALL {
        let format = "<TargetObjectKeyFormat><SimplePrefix/></TargetObjectKeyFormat>";
        let put = server.request("PUT", "/b?logging").dialect(dialect);
        let put = put.body(document("logs", format).as_bytes()).send();
        assert_eq!((put.status, put.body.len()), (200, 0));
        assert_eq!(get().one("TargetBucket").as_deref(), Some("logs"));
        assert_eq!(get().one("TargetPrefix").as_deref(), Some("of b/"));
        assert!(get().text().contains("<SimplePrefix"));
        assert_eq!(set(&server, "b", "<BucketLoggingStatus/>").status, 200);
        assert_eq!(get().all("TargetBucket"), Vec::<String>::new());
    }
    let refused = |bucket: &str, target: &str, by: &str| {
        let put = server.request("PUT", &format!("/{bucket}?logging")).by(by);
        put.body(document(target, "").as_bytes()).send()
    };
    refused("b", "absent", "owner").is_error(400, "InvalidTargetBucketForLogging");
    refused("b", "eves", "owner").is_error(400, "InvalidTargetBucketForLogging");
    refused("eves", "logs", "eve").is_error(403, "AccessDenied");
    refused("b", "logs", "half").is_error(403, "AccessDenied");
    refused("b", "logs", "eve").is_error(403, "AccessDenied");
    assert_eq!(refused("eves", "eves", "eve").status, 200);
    let grants = "<TargetGrants><Grant><Permission>READ</Permission></Grant></TargetGrants>";
    set(&server, "b", &document("logs", grants)).is_error(501, "NotImplemented");
    assert_eq!(get().all("TargetBucket"), Vec::<String>::new(), "a refusal changes nothing");
}

#[test]
fn the_objects_are_encrypted_and_locked_as_their_bucket_asks() {
    let server = logged();
    let encryption = "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>\
        <SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>";
    let put = server.request("PUT", "/logs?encryption").body(encryption.as_bytes()).send();
    assert_eq!(put.status, 200, "{put:?}");
    server.get("/b/x");
    server.service.deliver_bucket_logs(DueRecords::All);
    let [key] = &keys(&server, "logs")[..] else { panic!() };
    let object = server.get(&format!("/logs/{}", encoded_path(key)));
    assert_eq!((object.status, object.header("p-server-side-encryption")), (200, Some("AES256")));
}

#[test]
fn a_line_says_whether_nothing_but_an_acl_permitted_the_request() {
    let server = logged();
    let ownership = b"<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule>\
        </OwnershipControls>";
    assert_eq!(server.request("PUT", "/b?ownershipControls").body(ownership).send().status, 200);
    let public = server.request("PUT", "/b/k").header("p-acl", "public-read").body(b"x").send();
    assert_eq!(public.status, 200);
    let read = || assert_eq!(server.request("GET", "/b/k").anonymous().send().status, 200);
    read();
    server.get("/b/k");
    assert_eq!(server.request("GET", "/b").anonymous().send().status, 403);
    let policy = r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*",
        "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*"}]}"#;
    assert_eq!(server.request("PUT", "/b?policy").body(policy.as_bytes()).send().status, 204);
    read();
    server.service.deliver_bucket_logs(DueRecords::All);
    let lines = lines(&server, "logs");
    let of_reads = lines.iter().map(|line| fields(line)).filter(|fields| fields[6].starts_with("REST.GET"));
    let told: Vec<_> = of_reads.map(|fields| format!("{} {}", fields[9], fields[25])).collect();
    assert_eq!(told, ["200 Yes", "200 -", "403 -", "200 -"]);
}
