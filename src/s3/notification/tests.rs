use super::*;
use crate::xml::Document;

const EVERYTHING: &str = "<TopicConfiguration><Id>t</Id><Topic>arn:minio:sns:eu:audit:webhook</Topic>\
    <Event>s3:ObjectRemoved:Delete</Event><Event>s3:LifecycleExpiration:*</Event></TopicConfiguration>\
    <QueueConfiguration><Id>q</Id><Queue>arn:siltstone:sqs::thumbs:webhook</Queue><Event>s3:ObjectCreated:*</Event>\
    <Filter><S3Key><FilterRule><Name>prefix</Name><Value>in/ </Value></FilterRule><FilterRule><Name>suffix</Name>\
    <Value>.jpg</Value></FilterRule></S3Key></Filter></QueueConfiguration>\
    <CloudFunctionConfiguration><Id>f</Id><CloudFunction>arn:siltstone:lambda::f:webhook</CloudFunction>\
    <Event>s3:ObjectTagging:Put</Event></CloudFunctionConfiguration>";

fn parse(inner: &str) -> Result<NotificationConfiguration, S3Error> {
    let text = format!("<NotificationConfiguration>{inner}</NotificationConfiguration>");
    NotificationConfiguration::parse(Document::parse(text.as_bytes()).unwrap().root())
}

/// A notification of a queue with these events, prefix and suffix.
fn queue(id: &str, event: &str, prefix: &str, suffix: &str) -> String {
    let rule = |name: &str, value: &str| match value {
        "" => String::new(),
        value => format!("<FilterRule><Name>{name}</Name><Value>{value}</Value></FilterRule>"),
    };
    format!(
        "<QueueConfiguration><Id>{id}</Id><Queue>arn:siltstone:sqs::{id}:webhook</Queue><Event>{event}</Event><Filter>\
         <S3Key>{}{}</S3Key></Filter></QueueConfiguration>",
        rule("Prefix", prefix),
        rule("Suffix", suffix)
    )
}

#[test]
fn all_kinds_are_read_and_written_back() {
    let all = parse(EVERYTHING).unwrap();
    let document = String::from_utf8(all.to_document()).unwrap();
    assert!(
        document.ends_with(&format!("<NotificationConfiguration>{EVERYTHING}</NotificationConfiguration>")),
        "{document}"
    );
    assert_eq!(NotificationConfiguration::from_document(document.as_bytes()), Some(all.clone()));
    let names: Vec<_> = all.destinations().map(|destination| destination.name.as_str()).collect();
    assert_eq!(names, ["audit", "thumbs", "f"]);
    assert!(parse("").unwrap().is_empty());
    assert_eq!(Destination::queue_arn("thumbs"), "arn:siltstone:sqs::thumbs:webhook");
}

#[test]
fn a_notification_is_found_by_target_event_and_key() {
    let all = parse(EVERYTHING).unwrap();
    let id = |target, event, key| all.find(target, event, key).map(|found| found.id.as_str());
    assert_eq!(id("thumbs", ObjectEvent::CreatedCopy, "in/ a.jpg"), Some("q"));
    assert_eq!(id("thumbs", ObjectEvent::CreatedCopy, "in/a.jpg"), None);
    assert_eq!(id("thumbs", ObjectEvent::CreatedCopy, "in/ a.png"), None);
    assert_eq!(id("thumbs", ObjectEvent::RemovedDelete, "in/ a.jpg"), None);
    assert_eq!(id("audit", ObjectEvent::CreatedCopy, "in/ a.jpg"), None);
    assert_eq!(id("audit", ObjectEvent::ExpiredMarker, "x"), Some("t"));
    assert_eq!(id("audit", ObjectEvent::RemovedMarker, "x"), None);
    let encoded = parse(&queue("a", "s3:ObjectCreated:Put", "red+flowers/%C3%BC", "")).unwrap();
    assert!(encoded.find("a", ObjectEvent::CreatedPut, "red flowers/ü.jpg").is_some());
    assert!(encoded.find("a", ObjectEvent::CreatedPut, "red+flowers/%C3%BC").is_some());
}

#[test]
fn every_event_is_in_its_family_alone() {
    for (at, (event, name)) in ObjectEvent::TABLE.into_iter().enumerate() {
        assert_eq!((event as usize, event.as_str()), (at, name));
        let family = format!("s3:{}:*", name.split(':').next().unwrap());
        for (other, other_name) in ObjectEvent::TABLE {
            let is_one = EventPattern::parse(&format!("s3:{name}")).unwrap().events().contains(other);
            assert_eq!(is_one, other == event);
            let is_family = other_name.split(':').next() == name.split(':').next();
            // S3 has no family of transitions.
            if !name.starts_with("ObjectAcl") && name.contains(':') {
                assert_eq!(EventPattern::parse(&family).unwrap().events().contains(other), is_family);
            }
        }
    }
}

#[test]
fn documents_that_s3_refuses_are_refused() {
    let one = |inner: &str| {
        format!("<QueueConfiguration><Queue>arn:siltstone:sqs::a:webhook</Queue>{inner}</QueueConfiguration>")
    };
    let event = "<Event>s3:ObjectCreated:*</Event>";
    let rules = |rules: &str| {
        one(&format!("{event}<Filter><S3Key><FilterRule>{rules}</FilterRule></S3Key></Filter>"))
    };
    let prefix = "<FilterRule><Name>prefix</Name><Value>a</Value></FilterRule>";
    let many: String = (0..=NOTIFICATIONS_MAX)
        .map(|at| queue(&format!("n{at}"), "s3:ObjectCreated:*", &format!("{at}/"), ""))
        .collect();
    let arn = |arn: &str| format!("<QueueConfiguration><Queue>{arn}</Queue>{event}</QueueConfiguration>");
    for (inner, code) in [
        ("<Other/>".to_owned(), ErrorCode::MalformedXML),
        ("<EventBridgeConfiguration/>".to_owned(), ErrorCode::NotImplemented),
        (one(""), ErrorCode::MalformedXML),
        (format!("<QueueConfiguration>{event}</QueueConfiguration>"), ErrorCode::MalformedXML),
        (one(&format!("{event}<Topic>x</Topic>")), ErrorCode::MalformedXML),
        (one("<Event>s3:ObjectCreated</Event>"), ErrorCode::InvalidArgument),
        (one("<Event>s3:ObjectCreated:P*</Event>"), ErrorCode::InvalidArgument),
        (one("<Event>s3:*</Event>"), ErrorCode::InvalidArgument),
        (one("<Event>*</Event>"), ErrorCode::InvalidArgument),
        (one("<Event>ObjectCreated:*</Event>"), ErrorCode::InvalidArgument),
        (one("<Event>s3:ObjectRestore:Post</Event>"), ErrorCode::InvalidArgument),
        (one(&format!("{event}<Id>{}</Id>", "i".repeat(256))), ErrorCode::InvalidArgument),
        (
            one(&format!("{event}<Filter><S3Key>{prefix}{prefix}</S3Key></Filter>")),
            ErrorCode::InvalidArgument,
        ),
        (rules("<Name>middle</Name><Value>a</Value>"), ErrorCode::InvalidArgument),
        (rules("<Name>prefix</Name>"), ErrorCode::MalformedXML),
        (
            rules(&format!("<Name>suffix</Name><Value>{}</Value>", "é".repeat(513))),
            ErrorCode::InvalidArgument,
        ),
        (arn("arn:aws:sqs::a:webhook"), ErrorCode::InvalidArgument),
        (arn("arn:siltstone:sns::a:webhook"), ErrorCode::InvalidArgument),
        (arn("arn:siltstone:sqs:::webhook"), ErrorCode::InvalidArgument),
        (arn("arn:siltstone:sqs::a:queue"), ErrorCode::InvalidArgument),
        (arn("a"), ErrorCode::InvalidArgument),
        (many, ErrorCode::InvalidArgument),
        (
            queue("a", "s3:ObjectCreated:*", "", "") + &queue("a", "s3:ObjectRemoved:*", "", ""),
            ErrorCode::InvalidArgument,
        ),
    ] {
        assert_eq!(parse(&inner).unwrap_err().code, code, "{inner}");
    }
}

#[test]
fn filters_for_one_event_may_not_overlap() {
    let both = |a: (&str, &str, &str), b: (&str, &str, &str)| {
        parse(&(queue("a", a.0, a.1, a.2) + &queue("b", b.0, b.1, b.2)))
    };
    let all = "s3:ObjectCreated:*";
    let put = "s3:ObjectCreated:Put";
    let removed = "s3:ObjectRemoved:*";
    for (a, b) in [
        ((all, "", ""), (removed, "", "")),
        ((all, "a/", ""), (put, "b/", "")),
        ((all, "a/", ".jpg"), (put, "a/b", ".png")),
        ((all, "", ".jpg"), (all, "", ".png")),
    ] {
        assert!(both(a, b).is_ok(), "{a:?} {b:?}");
    }
    for (a, b, message) in [
        ((all, "", ""), (put, "", ""), "Configurations overlap."),
        ((all, "a/", ""), (put, "a/b", ""), "ambiguously"),
        ((put, "a/", ""), (all, "", ".jpg"), "ambiguously"),
        ((all, "a", ".jpg"), (all, "", "g"), "ambiguously"),
    ] {
        let error = both(a, b).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidArgument);
        assert!(error.message.contains(message), "{a:?} {b:?}: {error}");
    }
}

#[test]
fn a_notification_without_an_id_gets_the_same_one_each_time() {
    let without = EVERYTHING.replace("<Id>q</Id>", "<Id></Id>").replace("<Id>t</Id>", "");
    let first = parse(&without).unwrap();
    let second = parse(&without).unwrap();
    assert_eq!(first, second);
    let ids: Vec<_> = first.notifications.iter().map(|it| it.id.len()).collect();
    assert_eq!(ids, [32, 32, 1]);
    assert_ne!(first.notifications[0].id, first.notifications[1].id);
}
