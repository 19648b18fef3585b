//! Event notifications of buckets.

use super::*;

const THUMBS: &str = "<QueueConfiguration><Id>new</Id><Queue>arn:siltstone:sqs::thumbs:webhook</Queue>\
    <Event>s3:ObjectCreated:*</Event><Filter><S3Key><FilterRule><Name>prefix</Name><Value>in/</Value></FilterRule>\
    </S3Key></Filter></QueueConfiguration>";
const AUDIT: &str = "<TopicConfiguration><Id>gone</Id><Topic>arn:minio:sns:eu:audit:webhook</Topic>\
    <Event>s3:ObjectRemoved:*</Event></TopicConfiguration>";

fn document(notifications: &str) -> String {
    format!("<NotificationConfiguration xmlns=\"{NAMESPACE}\">{notifications}</NotificationConfiguration>")
}

fn set<'s>(server: &'s Server, notifications: &str) -> Asked<'s> {
    server.request("PUT", "/b?notification").body(document(notifications).as_bytes())
}

#[test]
fn notifications_are_set_read_and_taken_away_in_both_dialects() {
    for dialect in Dialect::ALL {
        let server = Server::new();
        let read = || server.request("GET", "/b?notification").dialect(dialect).send();
        let before = read();
        let shown = before.text().to_owned();
        assert_eq!(before.status, 200);
        assert!(shown.contains("<NotificationConfiguration") && !shown.contains("<Id>"), "{shown}");
        let put = set(&server, &format!("{THUMBS}{AUDIT}")).dialect(dialect).send();
        assert_eq!((put.status, put.body.len()), (200, 0));
        assert!(read().text().ends_with(&document(&format!("{THUMBS}{AUDIT}"))), "{:?}", read());
        assert_eq!(set(&server, AUDIT).dialect(dialect).send().status, 200);
        assert!(read().text().ends_with(&document(AUDIT)));
        assert_eq!(set(&server, "").dialect(dialect).send().status, 200);
        assert_eq!(read().text(), shown);
    }
}

#[test]
fn a_destination_that_no_operator_configured_is_refused_and_changes_nothing() {
    let server = Server::new();
    assert_eq!(set(&server, AUDIT).send().status, 200);
    let unknown = THUMBS.replace("::thumbs:", "::nobody:");
    for dialect in Dialect::ALL {
        let refused = set(&server, &unknown).dialect(dialect).send();
        refused.is_error(400, "InvalidArgument");
        let told = refused.text();
        assert!(told.contains("Unable to validate the following destination configurations"), "{told}");
        assert!(told.contains("arn:siltstone:sqs::nobody:webhook"), "{told}");
        assert!(server.get("/b?notification").text().ends_with(&document(AUDIT)));
    }
    let skipping = |value: &str| set(&server, &unknown).header("p-skip-destination-validation", value).send();
    skipping("perhaps").is_error(400, "InvalidArgument");
    skipping("false").is_error(400, "InvalidArgument");
    assert_eq!(skipping("true").status, 200);
    assert!(server.get("/b?notification").text().contains("::nobody:"));
}

#[test]
fn documents_that_s3_refuses_are_refused() {
    let server = Server::new();
    let both = format!("{THUMBS}{}", AUDIT.replace("ObjectRemoved:*", "ObjectCreated:Put"));
    for (notifications, status, code) in [
        ("<QueueConfiguration/>", 400, "MalformedXML"),
        (&THUMBS.replace("ObjectCreated:*", "ObjectAccessed:*"), 400, "InvalidArgument"),
        (&both, 400, "InvalidArgument"),
        ("<EventBridgeConfiguration/>", 501, "NotImplemented"),
    ] {
        set(&server, notifications).send().is_error(status, code);
    }
    server.request("PUT", "/b?notification").body(b"<Other/>").send().is_error(400, "MalformedXML");
    server
        .request("PUT", "/absent?notification")
        .body(document(THUMBS).as_bytes())
        .send()
        .is_error(404, "NoSuchBucket");
    server.get("/absent?notification").is_error(404, "NoSuchBucket");
    for method in ["DELETE", "POST"] {
        server.request(method, "/b?notification").send().is_error(501, "NotImplemented");
    }
}

#[test]
fn each_request_takes_its_own_permission() {
    let server = Server::with_grants(&[
        ("reader", &["GetBucketNotification"], &["b"]),
        ("writer", &["PutBucketNotification"], &["b"]),
    ]);
    let read = |user| server.request("GET", "/b?notification").by(user).send();
    set(&server, THUMBS).by("reader").send().is_error(403, "AccessDenied");
    read("writer").is_error(403, "AccessDenied");
    assert_eq!(set(&server, THUMBS).by("writer").send().status, 200);
    assert_eq!(read("reader").status, 200);
}
