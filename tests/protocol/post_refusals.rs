//! PostObject: forms that are refused, and leave no object.

use super::*;
use crate::support::form::{Form, FormVersion};

fn version() -> FormVersion<'static> {
    FormVersion::V4 { prefix: usual_dialect().header_prefix() }
}

/// The names of the fields of version 4: in the dialect of requests, and as errors show them.
fn names(suffix: &str) -> (String, String) {
    let dialect = usual_dialect();
    let shown = format!("{}{}{}", dialect.query_prefix(), suffix[..1].to_uppercase(), &suffix[1..]);
    (format!("{}{suffix}", dialect.header_prefix()), shown)
}

/// A form of `owner` for the object `k`.
fn signed() -> Form {
    Form::new(&[("key", "k")], b"123456789").signed(&signer("owner"), version())
}

fn send(server: &Server, form: &Form) -> Answer {
    let answer = server.request("POST", "/b").form(form).send();
    if answer.status >= 400 {
        assert_eq!(server.head("/b/k").status, 404, "{answer:?}");
    }
    answer
}

#[test]
fn the_policy_decides_about_fields_and_file() {
    let server = Server::new();
    for (condition, code) in [
        ("{\"bucket\": \"other\"}", "AccessDenied"),
        ("{\"key\": \"other\"}", "AccessDenied"),
        ("[\"eq\", \"$key\", \"K\"]", "AccessDenied"),
        ("[\"starts-with\", \"$key\", \"in/\"]", "AccessDenied"),
        ("[\"starts-with\", \"$acl\", \"\"]", "AccessDenied"),
        ("[\"content-length-range\", \"x\", 9]", "AccessDenied"),
        ("[\"content-length-range\", 0, 8]", "EntityTooLarge"),
        ("[\"content-length-range\", 10, 20]", "EntityTooSmall"),
        ("[\"content-length-range\", 10, 5]", "EntityTooLarge"),
        ("[\"content-length-range\", 0]", "InvalidPolicyDocument"),
        ("[\"content-length-range\", -1, 0]", "InvalidPolicyDocument"),
        ("[\"like\", \"$key\", \"k\"]", "InvalidPolicyDocument"),
        ("{}", "InvalidPolicyDocument"),
        ("1", "InvalidPolicyDocument"),
    ] {
        let answer = server.post(Form::new(&[("key", "k")], b"123456789").condition(condition));
        answer.is_error(if code == "AccessDenied" { 403 } else { 400 }, code);
        assert_eq!(server.head("/b/k").status, 404, "{condition}");
    }
    for condition in ["[\"content-length-range\", 9, 9]", "{\"KEY\": \"k\"}", "[\"EQ\", \"$bucket\", \"b\"]"]
    {
        assert_eq!(server.post(Form::new(&[("key", "k")], b"123456789").condition(condition)).status, 204);
    }
}

#[test]
fn a_large_file_beyond_the_range_leaves_nothing() {
    let server = Server::new();
    let form = Form::new(&[("key", "k")], &pattern(1_500_000));
    let answer = server.post(form.clone().condition("[\"content-length-range\", 0, 1499999]"));
    answer.is_error(400, "EntityTooLarge");
    assert_eq!(answer.one("MaxSizeAllowed").as_deref(), Some("1499999"));
    let answer = server.post(form.condition("[\"content-length-range\", 1500001, 9999999]"));
    answer.is_error(400, "EntityTooSmall");
    let told = ["ProposedSize", "MinSizeAllowed"].map(|name| answer.one(name).unwrap());
    assert_eq!(told, ["1500000", "1500001"].map(str::to_owned));
    assert_eq!(server.head("/b/k").status, 404);
}

#[test]
fn fields_without_a_condition_are_refused() {
    let server = Server::new();
    let answer = send(&server, &signed().field("acl", "private").field("Submit", "x"));
    answer.is_error(403, "AccessDenied");
    let message = answer.one("Message").unwrap();
    assert_eq!(message, "Invalid according to Policy: Extra input fields: acl, Submit");
    assert_eq!(send(&server, &signed().field("X-Ignore-Submit", "x")).status, 204);
}

#[test]
fn malformed_policies_are_refused() {
    let server = Server::new();
    for document in [
        "",
        "{",
        "[]",
        "{\"conditions\": []}",
        "{\"expiration\": \"2099-01-01T00:00:00Z\"}",
        "{\"EXPIRATION\": 1}",
    ] {
        let form = Form::new(&[("key", "k")], b"x").policy(document).signed(&signer("owner"), version());
        send(&server, &form).is_error(400, "InvalidPolicyDocument");
    }
    let over = "{\"expiration\": \"2026-01-31T12:00:00Z\", \"conditions\": []}";
    let form = Form::new(&[("key", "k")], b"x").policy(over).signed(&signer("owner"), version());
    let answer = send(&server, &form);
    answer.is_error(403, "AccessDenied");
    assert_eq!(answer.one("Message").as_deref(), Some("Invalid according to Policy: Policy expired."));
}

#[test]
fn a_changed_policy_or_signature_is_refused() {
    let server = Server::new();
    for version in [version(), FormVersion::V2] {
        let form = Form::new(&[("key", "k")], b"x").signed(&signer("owner"), version);
        let aws = |form: &Form| match version {
            FormVersion::V2 => server.request("POST", "/b").aws().form(form).send(),
            FormVersion::V4 { .. } => send(&server, form),
        };
        let signature =
            if matches!(version, FormVersion::V2) { "signature".to_owned() } else { names("signature").0 };
        for name in ["policy", &signature] {
            let mut changed = form.clone();
            let (_, value) = changed.fields.iter_mut().find(|(other, _)| other == name).unwrap();
            value.pop();
            let answer = aws(&changed);
            answer.is_error(403, "SignatureDoesNotMatch");
            let policy = changed.fields.iter().find(|(other, _)| other == "policy").unwrap();
            assert_eq!(answer.one("StringToSign").as_deref(), Some(&*policy.1));
        }
        let nobody = Form::new(&[("key", "k")], b"x").signed(&signer("nobody"), version);
        aws(&nobody).is_error(403, "InvalidAccessKeyId");
    }
}

#[test]
fn every_field_of_the_signature_is_needed() {
    let server = Server::new();
    for suffix in ["algorithm", "credential", "date", "signature"] {
        let (name, shown) = names(suffix);
        let answer = send(&server, &signed().without(&name));
        answer.is_error(400, "InvalidArgument");
        assert_eq!(answer.one("ArgumentName").as_deref(), Some(&*shown));
    }
    let answer = send(&server, &signed().without("policy"));
    assert_eq!(answer.one("ArgumentName").as_deref(), Some("Policy"));
    let by_2 = Form::new(&[("key", "k")], b"x").signed(&signer("owner"), FormVersion::V2);
    for (name, shown) in
        [("signature", "Signature"), ("AWSAccessKeyId", "AWSAccessKeyId"), ("policy", "Policy")]
    {
        let answer = server.request("POST", "/b").aws().form(&by_2.clone().without(name)).send();
        answer.is_error(400, "InvalidArgument");
        assert_eq!(answer.one("ArgumentName").as_deref(), Some(shown));
    }
}

#[test]
fn malformed_fields_of_the_signature_are_refused() {
    let server = Server::new();
    for (suffix, from, to) in [
        ("algorithm", "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1"),
        ("credential", "/eu/", "/mars/"),
        ("credential", "/s3/", "/ec2/"),
        ("credential", "/20260131/", "/20260130/"),
        ("credential", "/aws4_request", ""),
        ("date", "20260131T120000Z", "2026-01-31"),
        ("date", "20260131T", "20260130T"),
    ] {
        let (name, shown) = names(suffix);
        let mut form = signed();
        let (_, value) = form.fields.iter_mut().find(|(other, _)| *other == name).unwrap();
        *value = value.replace(from, to);
        let answer = send(&server, &form);
        answer.is_error(400, "InvalidArgument");
        let argument = answer.one("ArgumentName").unwrap();
        assert!(argument == shown || argument == names("date").1, "{suffix} {to}: {argument}");
        assert_eq!(answer.one("Region").as_deref(), (to == "/mars/").then_some("eu"));
    }
}

#[test]
fn a_form_is_signed_in_its_fields_alone() {
    let server = Server::new();
    let form = signed();
    let request = server.request("POST", "/b").header("Authorization", "Basic eDp5").form(&form);
    request.send().is_error(400, "InvalidRequest");
    for query in ["X-Amz-Signature=x", "X-Svc-Credential=x", "AWSAccessKeyId=x"] {
        let answer = server.request("POST", &format!("/b?{query}")).form(&form).send();
        answer.is_error(400, "InvalidRequest");
    }
    assert_eq!(server.head("/b/k").status, 404);
}

#[test]
fn permissions_and_checks_are_those_of_a_put() {
    let server =
        Server::with_grants(&[("reader", &["GetObject"], &["b/*"]), ("tagless", &["PutObject"], &["b/*"])]);
    let form = Form::new(&[("key", "k")], b"x").signed(&signer("reader"), version());
    send(&server, &form).is_error(403, "AccessDenied");
    let tagging = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
    let tagged = Form::new(&[("key", "k"), ("tagging", tagging)], b"x").signed(&signer("tagless"), version());
    send(&server, &tagged).is_error(403, "AccessDenied");
    let absent = server.request("POST", "/absent").form(&signed()).send();
    absent.is_error(404, "NoSuchBucket");
    let crc = format!("{}checksum-crc32", usual_dialect().header_prefix());
    let sse = names("server-side-encryption").0;
    for (name, value, status, code) in [
        ("acl", "public-read", 400, "AccessControlListNotSupported"),
        (&*sse, "AES192", 400, "InvalidArgument"),
        (&*crc, "AAAAAA==", 400, "BadDigest"),
        (&*crc, "x", 400, "InvalidRequest"),
        ("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==", 400, "BadDigest"),
        ("tagging", "<Tagging>", 400, "MalformedXML"),
        ("Content-Type", "a/b\nc", 400, "InvalidArgument"),
        ("Cache-Control", &"x".repeat(2048), 400, "MetadataTooLarge"),
    ] {
        server.post(Form::new(&[("key", "k"), (name, value)], b"x")).is_error(status, code);
        assert_eq!(server.head("/b/k").status, 404, "{name}");
    }
}

#[test]
fn a_form_has_a_key_a_file_and_the_right_type() {
    let server = Server::new();
    let without = Form::new(&[("Content-Type", "a/b")], b"x").signed(&signer("owner"), version());
    let answer = send(&server, &without);
    answer.is_error(400, "InvalidArgument");
    assert_eq!(answer.one("ArgumentName").as_deref(), Some("key"));
    server.post(Form::new(&[("key", "")], b"x")).is_error(400, "InvalidArgument");
    server.post(Form::new(&[("key", &"k".repeat(1025))], b"x")).is_error(400, "KeyTooLongError");
    let form = signed();
    let request = || server.request("POST", "/b").anonymous();
    let answer = request().header("Content-Type", "text/plain").body(&form.body()).send();
    answer.is_error(412, "PreconditionFailed");
    assert!(answer.one("Condition").is_some());
    request().body(&form.body()).send().is_error(412, "PreconditionFailed");
    let unbounded = request().header("Content-Type", "multipart/form-data").body(&form.body()).send();
    unbounded.is_error(400, "MalformedPOSTRequest");
    let unframed = request().form(&Form::new(&[], b"")).unframed().send();
    unframed.is_error(411, "MissingContentLength");
    let body = String::from_utf8(form.body()).unwrap();
    let fileless = body.replace("name=\"file\"", "name=\"other\"");
    let answer = request().header("Content-Type", Form::media_type()).body(fileless.as_bytes()).send();
    answer.is_error(400, "InvalidArgument");
    assert_eq!(
        (answer.one("ArgumentName").as_deref(), answer.one("ArgumentValue").as_deref()),
        (Some("file"), Some("0"))
    );
    let late = body.replacen("name=\"key\"", "name=\"file\"", 1);
    let answer = request().header("Content-Type", Form::media_type()).body(late.as_bytes()).send();
    assert_eq!(answer.one("ArgumentName").as_deref(), Some("key"), "fields after the file do not count");
    assert_eq!(server.head("/b/k").status, 404);
}

#[test]
fn a_form_that_is_cut_off_anywhere_leaves_nothing() {
    let server = Server::new();
    let body = signed().body();
    for cut in (0..body.len() - 2).step_by(7).chain(body.len() - 50..body.len() - 2) {
        let request = server.request("POST", "/b").anonymous().header("Content-Type", Form::media_type());
        let answer = request.body(&body[..cut]).send();
        answer.is_error(400, "MalformedPOSTRequest");
        assert_eq!(server.head("/b/k").status, 404, "{cut}");
    }
}

#[test]
fn a_connection_that_ends_within_a_form_leaves_nothing() {
    let server = Server::new();
    let body = Form::new(&[("key", "k")], &pattern(100_000)).signed(&signer("owner"), version()).body();
    for cut in [2_000, 50_000, body.len() - 30, body.len() - 1] {
        let request = server.request("POST", "/b").anonymous().header("Content-Type", Form::media_type());
        let ended = siltstone::s3::S3Error::new(siltstone::s3::ErrorCode::IncompleteBody);
        let answer = request.body(&body[..cut]).failing(ended).send();
        answer.is_error(400, "IncompleteBody");
        assert_eq!(server.head("/b/k").status, 404, "{cut}");
    }
}
