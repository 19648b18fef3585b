//! Answers that take longer than clients are left waiting. Gates hold commits back: nothing here
//! depends on a clock.

use std::time::Duration;

use siltstone::ops::PaddingTimes;
use siltstone::s3::{BodySource, Response, ResponseBody};

use super::*;

const IMPATIENT: PaddingTimes = PaddingTimes { after: Duration::ZERO, every: Duration::from_millis(1) };
const PATIENT: PaddingTimes =
    PaddingTimes { after: Duration::from_secs(600), every: Duration::from_secs(600) };

fn with_part(padding: PaddingTimes) -> (Server, String, String) {
    let server = Server::with_padding(padding);
    let id = server.begin(&[]);
    let tag = server.put_part(&id, 1, b"x");
    (server, id, tag)
}

/// The body of a response that has begun before its end is known.
fn body_of(response: Response) -> Box<dyn BodySource> {
    assert_eq!(response.status, 200);
    assert_eq!(response.get_header("Content-Type"), Some(&b"application/xml"[..]));
    match response.body {
        ResponseBody::Stream { length: None, source } => source,
        _ => panic!("the response is not late"),
    }
}

fn read(source: &mut dyn BodySource) -> String {
    let mut buffer = [0; 4096];
    let count = source.read(&mut buffer).unwrap();
    String::from_utf8(buffer[..count].to_vec()).unwrap()
}

fn rest(source: &mut dyn BodySource) -> String {
    let pieces = std::iter::repeat_with(|| read(source)).take_while(|piece| !piece.is_empty());
    pieces.collect()
}

#[test]
fn an_answer_in_time_is_an_ordinary_one() {
    let (server, id, tag) = with_part(PATIENT);
    let response = server.completion(&id, &[(1, &tag)]).respond();
    assert!(matches!(response.body, ResponseBody::Bytes(_)));
    assert_eq!(response.status, 200);
}

#[test]
fn a_failure_in_time_is_an_ordinary_error() {
    let (server, id, tag) = with_part(PATIENT);
    server.fs.fail_sync_at(server.fs.syncs() + 1);
    server.complete(&id, &[(1, &tag)]).is_error(503, "ServiceUnavailable");
}

#[test]
fn a_late_answer_begins_with_its_declaration_and_blanks() {
    for dialect in Dialect::ALL {
        let (server, id, tag) = with_part(IMPATIENT);
        let gate = server.fs.hold_syncs("");
        let response = server.completion(&id, &[(1, &tag)]).dialect(dialect).respond();
        let mut body = body_of(response);
        let mut text = read(&mut *body);
        assert_eq!(text, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        for _ in 0..3 {
            assert_eq!(read(&mut *body), " ");
        }
        server.get("/b/k").is_error(404, "NoSuchKey");
        drop(gate);
        text += &rest(&mut *body);
        let document = roxmltree::Document::parse(&text).unwrap();
        assert_eq!(document.root_element().tag_name().name(), "CompleteMultipartUploadResult");
        assert_eq!(server.get("/b/k").text(), "x");
    }
}

#[test]
fn a_late_failure_is_an_error_inside_of_the_answer() {
    let (server, id, tag) = with_part(IMPATIENT);
    let gate = server.fs.hold_syncs("");
    server.fs.fail_sync_at(server.fs.syncs() + 1);
    let response = server.completion(&id, &[(1, &tag)]).respond();
    let request = String::from_utf8(response.get_header("x-request-id").unwrap().to_vec()).unwrap();
    let mut body = body_of(response);
    drop(gate);
    let text = rest(&mut *body);
    let document = roxmltree::Document::parse(&text).unwrap();
    let names: Vec<_> = document.root_element().children().map(|node| node.tag_name().name()).collect();
    assert_eq!(document.root_element().tag_name().name(), "Error");
    assert_eq!(names, ["Code", "Message", "Resource", "RequestId"]);
    assert!(text.contains("<Code>ServiceUnavailable</Code>") && text.contains(&request), "{text}");
    server.get("/b/k").is_error(404, "NoSuchKey");
}

#[test]
fn checks_precede_the_response() {
    let server = Server::with_padding(IMPATIENT);
    let id = server.begin(&[("p-checksum-algorithm", "CRC32"), ("p-checksum-type", "FULL_OBJECT")]);
    let tag = server.put_part(&id, 1, b"x");
    let _gate = server.fs.hold_syncs("");
    let asked = server.completion(&id, &[(1, &tag)]);
    asked.header("p-checksum-crc32", "AAAAAA==").send().is_error(400, "BadDigest");
    server.complete(&id, &[(2, &tag)]).is_error(400, "InvalidPart");
    let asked = server.completion(&id, &[(1, &tag)]).header("If-Match", "x");
    asked.send().is_error(404, "NoSuchKey");
}

/// Completes an upload whose parts have no checksums, and declares their CRC-32.
fn claiming(server: &Server, crc: &str) -> (String, Response) {
    let id = server.begin(&[]);
    let tag = server.put_part(&id, 1, &pattern(3_000_000));
    let response = server.completion(&id, &[(1, &tag)]).header("p-checksum-crc32", crc).respond();
    (id, response)
}

#[test]
fn a_checksum_that_takes_reading_the_parts_is_verified_while_the_client_is_kept_waiting() {
    let server = Server::with_padding(IMPATIENT);
    let (id, response) = claiming(&server, "AAAAAA==");
    // Reading may for once be quicker than the least patience: then the error is an ordinary one.
    let (status, text) = match response {
        Response { body: ResponseBody::Bytes(bytes), status, .. } => {
            (status, String::from_utf8(bytes).unwrap())
        }
        late => (400, rest(&mut *body_of(late))),
    };
    assert!(status == 400 && text.contains("<Code>BadDigest</Code>"), "{text}");
    server.get("/b/k").is_error(404, "NoSuchKey");
    assert_eq!(server.get(&format!("/b/k?uploadId={id}")).all("PartNumber"), ["1"], "it goes on");
    let gate = server.fs.hold_syncs("");
    let crc = crc32(&pattern(3_000_000));
    let tag = server.get(&format!("/b/k?uploadId={id}")).one("ETag").unwrap();
    let asked = server.completion(&id, &[(1, &tag)]).header("p-checksum-crc32", &crc);
    let mut body = body_of(asked.respond());
    drop(gate);
    let text = rest(&mut *body);
    assert!(text.contains(&format!("<ChecksumCRC32>{crc}</ChecksumCRC32>")), "{text}");
    assert_eq!(server.get("/b/k").body.len(), 3_000_000);
}

#[test]
fn where_that_is_done_in_time_a_false_checksum_is_refused_before_the_answer_begins() {
    let server = Server::with_padding(PATIENT);
    let (_, response) = claiming(&server, "AAAAAA==");
    assert_eq!(response.status, 400);
    server.get("/b/k").is_error(404, "NoSuchKey");
    let (_, response) = claiming(&server, &crc32(&pattern(3_000_000)));
    assert_eq!(response.status, 200);
}

#[test]
fn an_object_is_made_also_when_its_client_has_gone() {
    let (server, id, tag) = with_part(IMPATIENT);
    let gate = server.fs.hold_syncs("");
    let response = server.completion(&id, &[(1, &tag)]).respond();
    drop(body_of(response));
    assert!(gate.wait_until_held(1));
    drop(gate);
    // This commit is queued after that one.
    server.put("/b/other", b"y");
    assert_eq!(server.get("/b/k").text(), "x");
}

#[test]
fn a_completion_repeated_while_the_first_is_at_work_has_the_same_answer() {
    let (server, id, tag) = with_part(IMPATIENT);
    let gate = server.fs.hold_syncs("");
    let ask = || body_of(server.completion(&id, &[(1, &tag)]).aws().respond());
    let mut bodies = [ask(), ask()];
    drop(gate);
    let [first, second] = bodies.each_mut().map(|body| rest(&mut **body).replace(' ', ""));
    assert!(first.contains("<CompleteMultipartUploadResult"), "{first}");
    assert_eq!(first, second);
}
