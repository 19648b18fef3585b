//! The lifecycle rules of buckets, as the protocol shows them: documents, refusals, and the headers
//! of objects and uploads.

use base64::Engine as _;
use siltstone::xml::{Document, Element};

use super::*;

const MINIMUM: &str = "p-transition-default-minimum-object-size";
const SEVEN_DAYS: &str = "<AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload>";

fn rule(id: &str, filter: &str, actions: &str) -> String {
    format!("<Rule><ID>{id}</ID>{filter}<Status>Enabled</Status>{actions}</Rule>")
}

fn days(days: u32) -> String {
    format!("<Expiration><Days>{days}</Days></Expiration>")
}

fn document(rules: &str) -> String {
    format!("<LifecycleConfiguration xmlns=\"{NAMESPACE}\">{rules}</LifecycleConfiguration>")
}

fn asked<'s>(server: &'s Server, document: &str) -> Asked<'s> {
    let asked = server.request("PUT", "/b?lifecycle").header("Content-MD5", delete::content_md5(document));
    asked.body(document.as_bytes())
}

fn set(server: &Server, rules: &str) -> Answer {
    asked(server, &document(rules)).send()
}

/// A server whose bucket has these rules.
fn server_with(rules: &str) -> Server {
    let server = Server::new();
    assert_eq!(set(&server, rules).status, 200);
    server
}

/// An element as a client sees it that parses it into a structure: the order of unlike children
/// does not matter.
fn structure(element: Element<'_>) -> String {
    let mut children: Vec<_> = element.children().map(structure).collect();
    children.sort();
    let text = if children.is_empty() { element.text().into_owned() } else { String::new() };
    // Times are compared as times.
    let text = if element.name() == "Date" { text.replace(".000Z", "Z") } else { text };
    format!("{}({text}{})", element.name(), children.join(","))
}

fn rules_of(document: &str) -> Vec<String> {
    let document = Document::parse(document.as_bytes()).unwrap();
    document.root().all("Rule").map(structure).collect()
}

#[test]
fn rules_are_read_back_as_they_were_written() {
    let server = Server::new();
    server.get("/b?lifecycle").is_error(404, "NoSuchLifecycleConfiguration");
    server.get("/absent?lifecycle").is_error(404, "NoSuchBucket");
    let rules =
        rule("a", "<Filter><Prefix>logs/</Prefix></Filter>", &days(3)) + &rule("b", "<Prefix/>", &days(9));
    let answer = set(&server, &rules);
    assert_eq!((answer.status, answer.header(MINIMUM)), (200, Some("all_storage_classes_128K")));
    let read = server.get("/b?lifecycle");
    assert!(read.text().ends_with(&document(&rules)), "{}", read.text());
    assert_eq!(server.delete("/b?lifecycle").status, 204);
    server.get("/b?lifecycle").is_error(404, "NoSuchLifecycleConfiguration");
    assert_eq!(server.delete("/b?lifecycle").status, 204);
}

/// After its put Terraform reads until the rules equal those that it sent, as its client parses
/// both, and the minimum size as well.
#[test]
fn terraform_finds_what_it_sent() {
    let tag = "<Tag><Key>kind</Key><Value>scratch + more</Value></Tag>";
    // In the order in which its client writes the elements.
    let rules = [
        "<Rule><Expiration><Days>90</Days></Expiration><Filter><Prefix></Prefix></Filter><ID>all</ID>\
         <Status>Enabled</Status></Rule>"
            .to_owned(),
        "<Rule><Expiration><Date>2030-01-01T00:00:00Z</Date></Expiration><Filter></Filter><ID>by date</ID>\
         <Status>Disabled</Status></Rule>"
            .to_owned(),
        format!(
            "<Rule><Expiration><Days>1</Days></Expiration><Filter><And><ObjectSizeGreaterThan>500</ObjectSizeGreaterThan>\
             <ObjectSizeLessThan>64000</ObjectSizeLessThan><Prefix>tmp&amp;/</Prefix>{tag}</And></Filter><ID>both</ID>\
             <NoncurrentVersionExpiration><NewerNoncurrentVersions>2</NewerNoncurrentVersions>\
             <NoncurrentDays>30</NoncurrentDays></NoncurrentVersionExpiration><Status>Enabled</Status></Rule>"
        ),
        format!("<Rule><Expiration><Days>2</Days></Expiration><Filter>{tag}</Filter><ID>tag</ID><Status>Enabled</Status></Rule>"),
        "<Rule><Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration><ID>old</ID>\
         <Prefix></Prefix><Status>Enabled</Status></Rule>"
            .to_owned(),
        format!("<Rule>{SEVEN_DAYS}<Filter><Prefix>up/</Prefix></Filter><ID>uploads</ID><Status>Enabled</Status></Rule>"),
    ];
    let sent = document(&rules.concat());
    let server = Server::new();
    for minimum in ["varies_by_storage_class", "all_storage_classes_128K"] {
        let put = asked(&server, &sent).header(MINIMUM, minimum).send();
        assert_eq!((put.status, put.header(MINIMUM)), (200, Some(minimum)));
        let read = server.get("/b?lifecycle");
        assert_eq!(read.header(MINIMUM), Some(minimum));
        assert_eq!(rules_of(read.text()), rules_of(&sent));
    }
}

#[test]
fn rules_without_an_id_get_one_and_keep_it() {
    let server = server_with(&rule("", "<Filter/>", &days(1)));
    let ids = server.get("/b?lifecycle").all("ID");
    assert_eq!(ids.len(), 1);
    assert!(!ids[0].is_empty());
    assert_eq!(server.get("/b?lifecycle").all("ID"), ids);
}

#[test]
fn documents_need_a_digest_and_the_right_one() {
    let server = Server::new();
    let sent = document(&rule("a", "<Filter/>", &days(1)));
    let bare = || server.request("PUT", "/b?lifecycle").body(sent.as_bytes());
    bare().send().is_error(400, "InvalidRequest");
    bare().header("Content-MD5", delete::content_md5("other")).send().is_error(400, "BadDigest");
    let crc =
        base64::engine::general_purpose::STANDARD.encode(crc32fast::hash(sent.as_bytes()).to_be_bytes());
    assert_eq!(bare().header("p-checksum-crc32", crc).send().status, 200);
}

#[test]
fn a_refused_document_leaves_the_rules_as_they_are() {
    let server = server_with(&rule("kept", "<Filter/>", &days(1)));
    let all = "<Filter/>";
    let transition =
        format!("{}<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>", days(2));
    for (rules, code) in [
        (String::new(), "MalformedXML"),
        (rule("a", "", &days(1)), "MalformedXML"),
        (rule("a", all, &days(0)), "InvalidArgument"),
        (rule("a", all, "<Expiration><Date>2030-01-01T01:00:00Z</Date></Expiration>"), "InvalidArgument"),
        (rule("a", all, &days(1)).repeat(2), "InvalidArgument"),
        (rule(&"i".repeat(256), all, &days(1)), "InvalidArgument"),
        (rule("a", all, ""), "InvalidRequest"),
        (rule("a", "<Filter><Tag><Key>k</Key><Value/></Tag></Filter>", SEVEN_DAYS), "InvalidRequest"),
        (rule("a", all, &transition), "InvalidStorageClass"),
    ] {
        set(&server, &rules).is_error(400, code);
    }
    asked(&server, &document(&rule("a", all, &days(1))))
        .header(MINIMUM, "small")
        .send()
        .is_error(400, "InvalidArgument");
    asked(&server, "<Rules/>").send().is_error(400, "MalformedXML");
    assert_eq!(server.get("/b?lifecycle").all("ID"), ["kept"]);
    let absent = server.request("PUT", "/absent?lifecycle").body(b"<x/>").send();
    absent.is_error(404, "NoSuchBucket");
    assert!(set(&server, &rule("a", all, &transition)).one("Message").unwrap().contains("'GLACIER'"));
}

#[test]
fn current_versions_tell_when_they_expire() {
    let logs = "<Filter><Prefix>logs/</Prefix></Filter>";
    let tagged = "<Filter><Tag><Key>k</Key><Value>v</Value></Tag></Filter>";
    let rules = [rule("a b/\"ü", logs, &days(3)), rule("tagged", tagged, &days(1))];
    let server = server_with(&rules.concat());
    let three = "expiry-date=\"Wed, 04 Feb 2026 00:00:00 GMT\", rule-id=\"a%20b/%22%C3%BC\"";
    let one = "expiry-date=\"Mon, 02 Feb 2026 00:00:00 GMT\", rule-id=\"tagged\"";
    let told = |answer: &Answer| {
        assert!(answer.status < 300, "{}", answer.text());
        answer.header("p-expiration").map(str::to_owned)
    };
    assert_eq!(told(&server.put("/b/logs/a", b"x")).as_deref(), Some(three));
    assert_eq!(told(&server.get("/b/logs/a")).as_deref(), Some(three));
    assert_eq!(told(&server.head("/b/logs/a")).as_deref(), Some(three));
    assert_eq!(told(&server.put("/b/kept", b"x")), None);
    assert_eq!(told(&server.get("/b/kept")), None);
    let put = server.request("PUT", "/b/logs/b").header("p-tagging", "k=v").body(b"x").send();
    assert_eq!(told(&put).as_deref(), Some(one));
    let copy = |to: &str| server.request("PUT", to).header("p-copy-source", "/b/logs/b").send();
    assert_eq!(told(&copy("/b/copy")).as_deref(), Some(one));
    // A rule that is disabled or removed says nothing.
    assert_eq!(set(&server, &rules[0].replace("Enabled", "Disabled")).status, 200);
    assert_eq!(told(&server.head("/b/logs/a")), None);
    assert_eq!(set(&server, &rules[0]).status, 200);
    assert_eq!(told(&server.head("/b/logs/a")).as_deref(), Some(three));
    server.delete("/b?lifecycle");
    assert_eq!(told(&server.head("/b/logs/a")), None);
    assert_eq!(told(&server.put("/b/logs/a", b"x")), None);
}

#[test]
fn noncurrent_versions_tell_no_expiry() {
    let server = server_with(&rule("a", "<Filter/>", &days(3)));
    server.set_versioning("Enabled");
    let first = server.put("/b/k", b"x").header("p-version-id").unwrap().to_owned();
    server.put("/b/k", b"y");
    assert_eq!(server.get(&format!("/b/k?versionId={first}")).header("p-expiration"), None);
    assert!(server.get("/b/k").header("p-expiration").is_some());
}

#[test]
fn uploads_tell_when_they_are_aborted_and_their_objects_when_they_expire() {
    let rules = [
        rule("up loads", "<Filter><Prefix>film</Prefix></Filter>", SEVEN_DAYS),
        rule("all", "<Filter/>", &days(1)),
    ];
    let server = server_with(&rules.concat());
    let told = |answer: &Answer| {
        let header = |name| answer.header(name).map(str::to_owned);
        header("p-abort-date").zip(header("p-abort-rule-id"))
    };
    let expected = Some(("Sun, 08 Feb 2026 00:00:00 GMT".to_owned(), "up%20loads".to_owned()));
    let created = server.request("POST", "/b/film?uploads").send();
    assert_eq!(told(&created), expected);
    let upload = created.all("UploadId").remove(0);
    let target = format!("/b/film?uploadId={upload}");
    assert_eq!(told(&server.get(&target)), expected);
    assert_eq!(told(&server.request("POST", "/b/other?uploads").send()), None);
    let tag = server.put(&format!("{target}&partNumber=1"), b"x").header("ETag").unwrap().to_owned();
    let parts = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{tag}</ETag></Part></CompleteMultipartUpload>"
    );
    let done = server.request("POST", &target).body(parts.as_bytes()).send();
    let expiration = "expiry-date=\"Mon, 02 Feb 2026 00:00:00 GMT\", rule-id=\"all\"";
    assert_eq!((done.status, done.header("p-expiration")), (200, Some(expiration)));
}
