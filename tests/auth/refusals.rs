//! What authentication must refuse, and with which error. Each test starts from a request that
//! others have signed and changes one thing of it.

use siltstone::auth::{Action, Authenticator, Resource, Users};
use siltstone::base::{Clock as _, Timestamp};
use siltstone::s3::{Dialect, ErrorCode, S3Error};

use super::vectors::{EMPTY, get_lifecycle, get_object, list_objects, presigned, put_object, recorded_as};
use super::{ACCESS_KEY, Bare, SECRET_KEY, Sent, authenticate, authenticator, moment, users};

fn element<'e>(error: &'e S3Error, name: &str) -> &'e str {
    let found = error.elements.iter().find(|(other, _)| *other == name);
    &found.unwrap_or_else(|| panic!("{error} has no {name}")).1
}

/// The same request with one thing changed.
fn changed(mut sent: Sent, change: impl FnOnce(&mut Sent)) -> Sent {
    change(&mut sent);
    sent
}

#[test]
fn whatever_is_signed_cannot_be_changed() {
    type Change = fn(&mut Sent);
    let changes: [(&str, Change); 9] = [
        ("method", |sent| sent.method = "HEAD".to_owned()),
        ("path", |sent| sent.path.push('x')),
        ("path dots", |sent| sent.path.insert_str(0, "/.")),
        ("query", |sent| sent.query = "x".to_owned()),
        ("host", |sent| sent.edit("host", "examplebucket", "otherbucket")),
        ("signed header", |sent| sent.edit("range", "0-9", "0-8")),
        ("signed header again", |sent| sent.headers.push(("range".to_owned(), b"bytes=0-1".to_vec()))),
        ("signed header gone", |sent| sent.headers.retain(|(name, _)| name != "Range")),
        ("date", |sent| sent.edit("x-amz-date", "000000Z", "000001Z")),
    ];
    for (what, change) in changes {
        assert_eq!(changed(get_object(), change).code(), ErrorCode::SignatureDoesNotMatch, "{what}");
    }
}

#[test]
fn no_parameter_can_be_added_changed_or_taken_away() {
    for query in
        ["max-keys=2", "max-keys=3&prefix=J", "max-keys=2&prefix=J&x", "max-keys=2&prefix=J&prefix=J", ""]
    {
        let code = changed(list_objects(), |sent| sent.query = query.to_owned()).code();
        assert_eq!(code, ErrorCode::SignatureDoesNotMatch, "{query}");
    }
    for query in ["", "Lifecycle", "lifecycle=x", "lifecycle&acl"] {
        let code = changed(get_lifecycle(), |sent| sent.query = query.to_owned()).code();
        assert_eq!(code, ErrorCode::SignatureDoesNotMatch, "{query}");
    }
}

#[test]
fn every_digit_of_the_signature_counts() {
    let signature = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
    for at in 0..signature.len() {
        let mut wrong = signature.to_owned().into_bytes();
        wrong[at] = if wrong[at] == b'0' { b'1' } else { b'0' };
        let wrong = String::from_utf8(wrong).unwrap();
        let code = changed(get_object(), |sent| sent.edit("authorization", signature, &wrong)).code();
        assert_eq!(code, ErrorCode::SignatureDoesNotMatch, "{wrong}");
    }
    for wrong in ["", "f0e8", &signature.to_uppercase(), &format!("{signature}0"), "zz", "ü"] {
        let code = changed(get_object(), |sent| sent.edit("authorization", signature, wrong)).code();
        assert_eq!(code, ErrorCode::SignatureDoesNotMatch, "{wrong}");
    }
}

#[test]
fn the_error_for_a_wrong_signature_shows_the_signed_text() {
    let error = changed(get_object(), |sent| sent.edit("authorization", "f0e8", "0000")).refusal();
    // The texts of the example "GET object".
    let canonical = format!(
        "GET\n/test.txt\n\nhost:examplebucket.s3.amazonaws.com\nrange:bytes=0-9\nx-amz-content-sha256:{EMPTY}\n\
         x-amz-date:20130524T000000Z\n\nhost;range;x-amz-content-sha256;x-amz-date\n{EMPTY}"
    );
    assert_eq!(element(&error, "CanonicalRequest"), canonical);
    let string_to_sign = "AWS4-HMAC-SHA256\n20130524T000000Z\n20130524/us-east-1/s3/aws4_request\n\
         7344ae5b7ee6c3e7e6b0fe0640412a37625d1fbfff95c48bbb2dc43964946972";
    assert_eq!(element(&error, "StringToSign"), string_to_sign);
    assert_eq!(element(&error, "AWSAccessKeyId"), ACCESS_KEY);
    assert!(element(&error, "SignatureProvided").starts_with("0000bdb8"));
    assert_eq!(error.status(), 403);
}

#[test]
fn unsigned_headers_are_allowed_unless_they_are_vendor_headers() {
    for name in ["Content-Type", "User-Agent", "X-Forwarded-For", "x-amzn-trace-id", "amz-sdk-request"] {
        changed(get_object(), |sent| sent.headers.push((name.to_owned(), b"v".to_vec()))).received();
        changed(presigned(), |sent| sent.headers.push((name.to_owned(), b"v".to_vec()))).received();
    }
    for sent in [get_object(), presigned()] {
        let error =
            changed(sent, |sent| sent.headers.push(("X-Amz-Acl".to_owned(), b"v".to_vec()))).refusal();
        assert_eq!((error.code, element(&error, "HeadersNotSigned")), (ErrorCode::AccessDenied, "x-amz-acl"));
    }
    let sent = changed(get_object(), |sent| sent.edit("authorization", "host;", ""));
    assert_eq!(element(&sent.refusal(), "HeadersNotSigned"), "host");
}

#[test]
fn an_unknown_access_key_is_named() {
    let error = changed(get_object(), |sent| sent.edit("authorization", ACCESS_KEY, "AKIAOTHER")).refusal();
    assert_eq!((error.code, element(&error, "AWSAccessKeyId")), (ErrorCode::InvalidAccessKeyId, "AKIAOTHER"));
    let sent = changed(presigned(), |sent| sent.query = sent.query.replace(ACCESS_KEY, "AKIAOTHER"));
    assert_eq!(sent.code(), ErrorCode::InvalidAccessKeyId);
}

#[test]
fn another_region_service_or_terminator_is_malformed() {
    for (from, to) in [
        ("us-east-1", "mars"),
        ("/s3/", "/ec2/"),
        ("aws4_request", "svc4_request"),
        ("20130524/", "20130525/"),
    ] {
        let header = changed(get_object(), |sent| sent.edit("authorization", from, to)).refusal();
        assert_eq!(header.code, ErrorCode::AuthorizationHeaderMalformed, "{to}");
        let encode = |text: &str| text.replace('/', "%2F");
        let query = changed(presigned(), |sent| sent.query = sent.query.replace(&encode(from), &encode(to)))
            .refusal();
        assert_eq!(query.code, ErrorCode::AuthorizationQueryParametersError, "{to}");
        if to == "mars" {
            assert_eq!((element(&header, "Region"), element(&query, "Region")), ("eu", "eu"));
        }
    }
}

#[test]
fn a_signature_of_an_accepted_region_is_no_signature_of_another() {
    let sent = changed(get_object(), |sent| sent.edit("authorization", "us-east-1", "eu"));
    assert_eq!(sent.code(), ErrorCode::SignatureDoesNotMatch);
}

#[test]
fn a_signature_holds_for_a_quarter_of_an_hour() {
    let at = |sent: &Sent, millis: i64| {
        let (clock, authenticator) = authenticator();
        clock.set(Timestamp::from_millis(moment().as_millis().checked_add_signed(millis).unwrap()));
        sent.outcome(&authenticator).map(drop).map_err(|error| {
            assert_eq!(element(&error, "ServerTime"), clock.now().to_iso8601());
            assert_eq!(element(&error, "RequestTime"), "20130524T000000Z");
            assert_eq!(element(&error, "MaxAllowedSkewMilliseconds"), "900000");
            error.code
        })
    };
    for millis in [-900_000, 0, 900_000] {
        assert_eq!(at(&get_object(), millis), Ok(()));
    }
    for millis in [-900_001, 900_001] {
        assert_eq!(at(&get_object(), millis), Err(ErrorCode::RequestTimeTooSkewed));
    }
}

#[test]
fn a_presigned_url_holds_until_it_expires() {
    let (clock, authenticator) = authenticator();
    let at = |secs: u64| {
        clock.set(Timestamp::from_millis(moment().as_millis() + secs * 1000));
        presigned().outcome(&authenticator)
    };
    assert!(at(86_400).is_ok());
    let error = at(86_401).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::AccessDenied, "Request has expired"));
    assert_eq!(element(&error, "Expires"), "2013-05-25T00:00:00.000Z");
    clock.set(Timestamp::from_millis(moment().as_millis() - 900_001));
    let error = presigned().outcome(&authenticator).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::AccessDenied, "Request is not yet valid"));
}

#[test]
fn no_parameter_of_a_presigned_url_can_be_changed() {
    for (from, to, code) in [
        ("Algorithm=AWS4-HMAC-SHA256", "Algorithm=AWS4", ErrorCode::AuthorizationQueryParametersError),
        ("T000000Z", "T000001Z", ErrorCode::SignatureDoesNotMatch),
        ("Expires=86400", "Expires=86401", ErrorCode::SignatureDoesNotMatch),
        ("Expires=86400", "Expires=604801", ErrorCode::AuthorizationQueryParametersError),
        ("SignedHeaders=host", "SignedHeaders=host%3Brange", ErrorCode::SignatureDoesNotMatch),
        ("SignedHeaders=host", "SignedHeaders=range", ErrorCode::AccessDenied),
        ("Signature=a", "Signature=b", ErrorCode::SignatureDoesNotMatch),
        ("X-Amz-Date", "versionId=1&X-Amz-Date", ErrorCode::SignatureDoesNotMatch),
    ] {
        let sent = changed(presigned(), |sent| sent.query = sent.query.replacen(from, to, 1));
        assert_eq!(sent.code(), code, "{to}");
    }
    assert_eq!(
        changed(presigned(), |sent| sent.method = "PUT".to_owned()).code(),
        ErrorCode::SignatureDoesNotMatch
    );
}

#[test]
fn the_order_and_spelling_of_parameters_is_free() {
    let sent = changed(presigned(), |sent| {
        let mut params: Vec<_> = sent.query.split('&').collect();
        params.reverse();
        sent.query = params.join("&").replace("%2F", "/").replace("X-Amz-Date", "X%2dAmz-Date");
    });
    sent.received();
}

#[test]
fn two_signatures_at_once_are_refused() {
    for query in [presigned().query, "X-Amz-Signature=x".to_owned(), "AWSAccessKeyId=AK".to_owned()] {
        let code = changed(get_object(), |sent| sent.query.clone_from(&query)).code();
        assert_eq!(code, ErrorCode::InvalidRequest, "{query}");
    }
}

#[test]
fn version_2_in_the_header_is_told_which_scheme_to_use() {
    let header =
        changed(get_object(), |sent| *sent.header("authorization") = b"AWS AKIAIOSFODNN7EXAMPLE:x".to_vec());
    let error = header.refusal();
    assert_eq!(error.code, ErrorCode::InvalidRequest);
    assert!(error.message.contains("AWS4-HMAC-SHA256"), "{error}");
}

#[test]
fn the_content_hash_is_needed_in_the_aws_dialect_alone() {
    let without = |sent: &mut Sent| sent.headers.retain(|(name, _)| !name.ends_with("content-sha256"));
    assert_eq!(changed(get_object(), without).code(), ErrorCode::InvalidRequest);
    let svc = recorded_as("independent svc body without hash");
    assert!(!svc.headers.iter().any(|(name, _)| name.ends_with("content-sha256")));
    assert_eq!(svc.received().data, b"hello");
}

#[test]
fn a_content_hash_that_is_none_is_refused() {
    let unsigned = |hash: &str| {
        Sent::new(Dialect::Aws, "PUT", "/b/k", "", &[("x-amz-content-sha256", hash)]).refusal().code
    };
    for hash in ["", "x", &EMPTY[1..], "STREAMING-PAYLOAD", "unsigned-payload"] {
        assert_eq!(unsigned(hash), ErrorCode::InvalidArgument, "{hash}");
    }
    assert_eq!(unsigned("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"), ErrorCode::NotImplemented);
    assert_eq!(unsigned("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER"), ErrorCode::NotImplemented);
    let twice = [("x-amz-content-sha256", EMPTY), ("x-amz-content-sha256", EMPTY)];
    assert_eq!(Sent::new(Dialect::Aws, "PUT", "/b/k", "", &twice).code(), ErrorCode::InvalidRequest);
}

#[test]
fn a_request_signed_in_one_dialect_is_none_in_the_other() {
    let aws = changed(get_object(), |sent| sent.dialect = Dialect::Svc);
    assert_eq!(aws.code(), ErrorCode::AccessDenied);
    let svc = changed(recorded_as("independent svc body UNSIGNED"), |sent| sent.dialect = Dialect::Aws);
    assert_eq!(svc.code(), ErrorCode::AccessDenied);
}

#[test]
fn every_byte_of_a_signed_body_counts() {
    let body = put_object().body;
    for at in 0..body.len() {
        let error = changed(put_object(), |sent| sent.body[at] ^= 1).refusal();
        assert_eq!(error.code, ErrorCode::XAmzContentSHA256Mismatch, "{at}");
    }
    let error = changed(put_object(), |sent| sent.body.clear()).refusal();
    let signed = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
    assert_eq!(element(&error, "ClientComputedContentSHA256"), signed);
    assert_eq!(element(&error, "S3ComputedContentSHA256"), EMPTY);
    assert_eq!(changed(put_object(), |sent| sent.body.push(0)).code(), ErrorCode::XAmzContentSHA256Mismatch);
}

#[test]
fn the_hash_in_a_presigned_url_binds_the_body() {
    for name in ["independent svc presigned hash in header", "independent aws presigned hash in query"] {
        let sent = recorded_as(name);
        sent.received();
        let code = changed(sent, |sent| sent.body[0] ^= 1).code();
        assert_eq!(code, ErrorCode::XAmzContentSHA256Mismatch, "{name}");
    }
}

#[test]
fn an_unsigned_request_has_the_permissions_of_the_anonymous_user() {
    let sent = Sent::new(Dialect::Svc, "GET", "/public/k", "response-expires=1", &[("Host", "h")]);
    let identity = sent.received().identity;
    assert!(identity.is_anonymous());
    assert_eq!(identity.name(), "anonymous");
    let may = |action, resource| identity.authorize(action, resource, &Bare).map(drop).map_err(|e| e.code);
    let object = |bucket| Resource::Object { bucket, key: "k" };
    assert_eq!(may(Action::GetObject, object("public")), Ok(()));
    assert_eq!(may(Action::GetObject, object("private")), Err(ErrorCode::AccessDenied));
    assert_eq!(may(Action::CreateBucket, Resource::Bucket("public")), Err(ErrorCode::AccessDenied));
}

#[test]
fn an_anonymous_body_is_still_held_to_its_hash() {
    let sent = Sent::new(Dialect::Aws, "PUT", "/b/k", "", &[("x-amz-content-sha256", EMPTY)]);
    sent.received();
    assert_eq!(sent.with_body("x").code(), ErrorCode::XAmzContentSHA256Mismatch);
}

#[test]
fn other_users_count_from_the_next_request_on() {
    let (_, authenticator) = authenticator();
    let before = get_object().outcome(&authenticator).unwrap().identity;
    let replace = |access_key: &str, secret_key: &str| {
        let text =
            format!("[[user]]\nname = \"a\"\naccess_key = \"{access_key}\"\nsecret_key = \"{secret_key}\"\n");
        authenticator.replace(Users::parse(&text).unwrap());
        get_object()
            .outcome(&authenticator)
            .map(|received| received.identity.name().to_owned())
            .map_err(|e| e.code)
    };
    assert_eq!(replace("AKIAOTHER", SECRET_KEY), Err(ErrorCode::InvalidAccessKeyId));
    assert_eq!(replace(ACCESS_KEY, "other"), Err(ErrorCode::SignatureDoesNotMatch));
    assert_eq!(replace(ACCESS_KEY, SECRET_KEY), Ok("a".to_owned()));
    // Requests under way keep their permissions.
    assert_eq!(before.name(), "alice");
    assert!(before.authorize(Action::CreateBucket, Resource::Bucket("b"), &Bare).is_ok());
}

#[test]
fn the_previous_keys_of_a_user_sign_beside_the_new_ones() {
    let (_, authenticator) = authenticator();
    let outcome_with = |present: [&str; 2], previous: Option<[&str; 2]>| {
        let previous = previous.map_or_else(String::new, |[access_key, secret_key]| {
            format!("previous = {{ access_key = \"{access_key}\", secret_key = \"{secret_key}\" }}\n")
        });
        let [access_key, secret_key] = present;
        let text = format!(
            "[[user]]\nname = \"a\"\naccess_key = \"{access_key}\"\nsecret_key = \"{secret_key}\"\n{previous}"
        );
        authenticator.replace(Users::parse(&text).unwrap());
        let received = get_object().outcome(&authenticator);
        received.map(|received| received.identity.name().to_owned()).map_err(|e| e.code)
    };
    let old = [ACCESS_KEY, SECRET_KEY];
    let new = ["AKIANEW", "another"];
    assert_eq!(outcome_with(old, None), Ok("a".to_owned()));
    assert_eq!(outcome_with(new, Some(old)), Ok("a".to_owned()));
    assert_eq!(outcome_with(old, Some(new)), Ok("a".to_owned()));
    // Each access key goes with its own secret.
    assert_eq!(
        outcome_with(["AKIANEW", SECRET_KEY], Some([ACCESS_KEY, "x"])),
        Err(ErrorCode::SignatureDoesNotMatch)
    );
    assert_eq!(outcome_with(new, None), Err(ErrorCode::InvalidAccessKeyId));
}

#[test]
fn a_refused_request_keeps_its_body() {
    let (_, authenticator) = authenticator();
    let sent = changed(put_object(), |sent| sent.edit("authorization", "98ad", "0000"));
    let mut request = sent.request();
    assert!(authenticate(&authenticator, &mut request, sent.dialect).is_err());
    assert_eq!(super::read_all(&mut *request.body.reader).unwrap(), sent.body);
}

#[test]
fn errors_about_the_region_name_the_first_one() {
    let (clock, _) = authenticator();
    let ours = Authenticator::new(users(), vec!["eu".to_owned()], clock);
    let error = get_object().outcome(&ours).unwrap_err();
    assert_eq!((error.code, element(&error, "Region")), (ErrorCode::AuthorizationHeaderMalformed, "eu"));
}
