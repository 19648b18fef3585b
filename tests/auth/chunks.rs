//! Bodies in `aws-chunked` encoding that are not as they must be, and some that are but look odd.

use siltstone::s3::{Dialect, ErrorCode, S3Error};

use super::vectors::{chunked, recorded, recorded_as, trailing};
use super::{Received, Sent, authenticate, authenticator};

/// An unsigned `aws-chunked` body of an anonymous request; `trailer` is the announced trailer.
fn unsigned(body: &str, decoded: &str, trailer: Option<&str>) -> Sent {
    let mut headers = vec![
        ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
        ("x-amz-decoded-content-length", decoded),
    ];
    headers.extend(trailer.map(|name| ("x-amz-trailer", name)));
    Sent::new(Dialect::Aws, "PUT", "/b/k", "", &headers).with_body(body)
}

fn outcome(sent: &Sent) -> Result<Received, S3Error> {
    sent.outcome(&authenticator().1)
}

/// The bodies in chunks that have been recorded.
fn recorded_chunks() -> impl Iterator<Item = (Sent, Vec<u8>)> {
    let cases = recorded().into_iter().filter(|case| case.sent.body != case.data);
    cases.map(|case| (case.sent, case.data))
}

#[test]
fn pieces_of_any_size_decode_to_the_same() {
    for (sent, data) in recorded_chunks() {
        for piece in (1..100).chain([sent.body.len() - 1, sent.body.len()]) {
            let received = Sent { piece, ..sent.clone() }.received();
            assert_eq!(received.data, data, "{piece}: {sent:?}");
        }
    }
    for piece in [1, 2, 3, 65_535, 65_536, 65_537] {
        assert_eq!(Sent { piece, ..trailing() }.received().data.len(), 66_560);
    }
}

#[test]
fn a_body_cut_off_anywhere_is_incomplete() {
    for (sent, _) in recorded_chunks() {
        for len in 0..sent.body.len() {
            let code = sent.clone().with_body(&sent.body[..len]).code();
            assert_eq!(code, ErrorCode::IncompleteBody, "at {len}: {sent:?}");
        }
    }
}

#[test]
fn every_byte_of_a_signed_body_in_chunks_counts() {
    for name in ["independent svc signed trailer 320", "independent aws signed chunks 200"] {
        let sent = recorded_as(name);
        for at in 0..sent.body.len() {
            let mut broken = sent.clone();
            broken.body[at] ^= 1;
            let (_, authenticator) = authenticator();
            let mut request = broken.request();
            authenticate(&authenticator, &mut request, broken.dialect).unwrap();
            let error = loop {
                match request.body.reader.read(&mut [0; 50]) {
                    Ok(0) => panic!("{name}: byte {at} does not count"),
                    Ok(_) => {}
                    Err(error) => break error,
                }
            };
            let expected = [
                ErrorCode::SignatureDoesNotMatch,
                ErrorCode::InvalidChunkSizeError,
                ErrorCode::IncompleteBody,
                ErrorCode::MalformedTrailerError,
            ];
            assert!(expected.contains(&error.code), "{name}: {error} at {at}");
            assert!(request.body.reader.trailers().is_empty());
        }
    }
}

#[test]
fn changed_data_and_changed_signatures_do_not_match() {
    let body = String::from_utf8(trailing().body).unwrap();
    for (from, to) in [
        ("\r\naaaa", "\r\nbaaa"),
        ("b474d8", "b474d9"),
        ("1c1344", "1c1345"),
        ("2ca2ab", "2ca2ac"),
        ("sOO8/Q==", "sOO8/A=="),
        ("d81f82", "d81f83"),
        ("x-amz-trailer-signature:d", "x-amz-trailer-signature:"),
    ] {
        let code = trailing().with_body(body.replacen(from, to, 1)).code();
        assert_eq!(code, ErrorCode::SignatureDoesNotMatch, "{to}");
    }
}

#[test]
fn chunks_cannot_change_places_or_be_left_out() {
    let body = chunked().body;
    let (first, rest) = body.split_at(65_536 + 90);
    for wrong in [rest.to_vec(), [rest, first].concat(), [first, first, rest].concat()] {
        let code = chunked().with_body(wrong).code();
        assert!(matches!(code, ErrorCode::SignatureDoesNotMatch | ErrorCode::IncompleteBody), "{code}");
    }
}

#[test]
fn a_chunk_is_never_handed_out_to_its_end_before_it_is_verified() {
    let wrong = String::from_utf8(trailing().body).unwrap().replacen("\r\naaaa", "\r\nbaaa", 1);
    let sent = trailing().with_body(wrong);
    let mut request = sent.request();
    authenticate(&authenticator().1, &mut request, sent.dialect).unwrap();
    let mut buf = vec![0; 65_536];
    let mut given = 0;
    let error = loop {
        match request.body.reader.read(&mut buf) {
            Ok(read) => given += read,
            Err(error) => break error,
        }
    };
    assert_eq!(error.code, ErrorCode::SignatureDoesNotMatch);
    assert!(given < 65_536, "the end of the chunk was handed out");
}

#[test]
fn a_chunk_may_be_as_large_as_the_body() {
    let data = "z".repeat(16 * 1024 * 1024 + 1);
    let body = format!("{:x}\r\n{data}\r\n0\r\n\r\n", data.len());
    assert_eq!(unsigned(&body, &data.len().to_string(), None).received().data.len(), data.len());
}

#[test]
fn the_decoded_length_must_be_announced_as_a_number() {
    let without = |sent: Sent| {
        let headers = sent.headers.iter().filter(|(name, _)| !name.contains("decoded")).cloned().collect();
        Sent { headers, ..sent }
    };
    let error = without(unsigned("0\r\n\r\n", "0", None)).refusal();
    assert_eq!((error.code, error.status()), (ErrorCode::MissingContentLength, 411));
    for text in ["", "-1", "+1", "1.0", "0x1", "ten", "99999999999999999999"] {
        assert_eq!(unsigned("0\r\n\r\n", text, None).code(), ErrorCode::InvalidArgument, "{text}");
    }
}

#[test]
fn the_decoded_length_must_match_the_chunks() {
    let body = "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    assert_eq!(unsigned(body, "5", None).received().data, b"abcde");
    for length in ["0", "3", "4", "6", "5000"] {
        assert_eq!(unsigned(body, length, None).code(), ErrorCode::IncompleteBody, "{length}");
    }
}

#[test]
fn no_more_is_handed_out_than_was_announced() {
    for body in ["6\r\nabcdef", "7fffffffffffffff\r\nabcdef", "1\r\na\r\n7fffffffffffffff\r\nbcdefg"] {
        let sent = unsigned(body, "5", None);
        let mut request = sent.request();
        authenticate(&authenticator().1, &mut request, sent.dialect).unwrap();
        let mut buf = [0; 100];
        let mut given = 0;
        let error = loop {
            match request.body.reader.read(&mut buf) {
                Ok(read) => given += read,
                Err(error) => break error,
            }
            assert!(given <= 5, "{body}");
        };
        assert_eq!(error.code, ErrorCode::IncompleteBody);
    }
}

#[test]
fn malformed_size_lines_are_refused() {
    for line in [
        "",
        " 5",
        "5 ",
        "0x5",
        "-5",
        "+5",
        "5;",
        "5;chunk-signature=ab",
        "5;x=y",
        "g",
        "10000000000000005",
        "5\r",
    ] {
        let body = format!("{line}\r\nabcde\r\n0\r\n\r\n");
        assert_eq!(unsigned(&body, "5", None).code(), ErrorCode::InvalidChunkSizeError, "{line:?}");
    }
    assert_eq!(unsigned("5\nabcde\r\n0\r\n\r\n", "5", None).code(), ErrorCode::InvalidChunkSizeError);
    let long = format!("{}5\r\nabcde\r\n0\r\n\r\n", "0".repeat(600));
    assert_eq!(unsigned(&long, "5", None).code(), ErrorCode::InvalidChunkSizeError);
    assert_eq!(unsigned("005\r\nabcde\r\n00\r\n\r\n", "5", None).received().data, b"abcde");
}

#[test]
fn malformed_size_lines_of_signed_chunks_are_refused() {
    for line in [
        "10000",
        "10000;chunk-signature",
        "10000;signature=x",
        "10000; chunk-signature=x",
        ";chunk-signature=x",
    ] {
        let code = chunked().with_body(format!("{line}\r\naaaa")).code();
        assert_eq!(code, ErrorCode::InvalidChunkSizeError, "{line}");
    }
}

#[test]
fn data_longer_or_shorter_than_its_chunk_is_refused() {
    for body in
        ["5\r\nabcdef\r\n0\r\n\r\n", "5\r\nabcd\r\n0\r\n\r\n", "5\r\nabcde0\r\n\r\n", "5\r\nabcde\n0\r\n\r\n"]
    {
        assert_eq!(unsigned(body, "5", None).code(), ErrorCode::IncompleteBody, "{body:?}");
    }
}

#[test]
fn nothing_may_follow_the_end() {
    for (sent, data) in recorded_chunks() {
        let with = |more: &[u8]| outcome(&sent.clone().with_body([&sent.body[..], more].concat()));
        for more in [&b"x"[..], b"\r", b"\n", b"0\r\n\r\n", b"\r\n\r\n", b"\r\nx"] {
            assert_eq!(with(more).unwrap_err().code, ErrorCode::IncompleteBody, "{more:?}: {sent:?}");
        }
        assert_eq!(with(b"\r\n").unwrap().data, data);
    }
}

const CRC: &str = "x-amz-checksum-crc32";

#[test]
fn announced_trailers_arrive_under_neutral_names() {
    let sent = unsigned(&format!("2\r\nab\r\n0\r\n{CRC}:AAAAAA==\r\n\r\n"), "2", Some(CRC));
    let received = sent.received();
    assert_eq!(received.trailers, [("p-checksum-crc32".to_owned(), "AAAAAA==".to_owned())]);
    assert_eq!(received.content_length, Some(2));
}

#[test]
fn the_trailers_of_minio_go_are_understood() {
    // Its last trailer ends with a line feed, and then comes a line end more than there should be.
    let sent = unsigned(&format!("2\r\nab\r\n0\r\n{CRC}:AAAAAA==\n\r\n\r\n"), "2", Some(CRC));
    assert_eq!(sent.received().trailers.len(), 1);
    let body = String::from_utf8(trailing().body).unwrap();
    let body = body.replace("sOO8/Q==\r\n", "sOO8/Q==\n\r\n");
    assert_eq!(trailing().with_body(body).received().trailers.len(), 1);
}

#[test]
fn trailers_other_than_announced_are_malformed() {
    for lines in [
        "",
        "x-amz-checksum-sha1:x\r\n",
        "x-svc-checksum-crc32:x\r\n",
        "x-amz-checksum-crc32\r\n",
        "x-amz-checksum-crc32:\r\n",
        "x-amz-checksum-crc32:x\r\nx-amz-checksum-crc32:x\r\n",
        "x-amz-checksum-crc32:x\r\nx-amz-meta-a:x\r\n",
        "x-amz-checksum-crc32:x\r\nx-amz-trailer-signature:x\r\n",
        " x-amz-checksum-crc32:x\r\n",
        "\r\nx-amz-checksum-crc32:x\r\n",
        &format!("x-amz-checksum-crc32:{}\r\n", "x".repeat(600)),
    ] {
        let sent = unsigned(&format!("2\r\nab\r\n0\r\n{lines}\r\n"), "2", Some(CRC));
        assert_eq!(sent.code(), ErrorCode::MalformedTrailerError, "{lines:?}");
    }
    let unannounced = unsigned("2\r\nab\r\n0\r\nx-amz-checksum-crc32:x\r\n\r\n", "2", None);
    assert_eq!(unannounced.code(), ErrorCode::MalformedTrailerError);
}

#[test]
fn signed_trailers_need_their_signature() {
    let body = String::from_utf8(trailing().body).unwrap();
    let line = "x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n";
    assert_eq!(trailing().with_body(body.replace(line, "\r\n")).code(), ErrorCode::MalformedTrailerError);
    let checksum = "x-amz-checksum-crc32c:sOO8/Q==\r\n";
    // Without the checksum, the signature over it cannot hold either.
    assert_eq!(trailing().with_body(body.replace(checksum, "")).code(), ErrorCode::SignatureDoesNotMatch);
}

#[test]
fn only_checksums_may_be_announced_and_only_of_a_body_with_trailers() {
    for name in ["", "x-amz-meta-a", "content-md5", "x-svc-checksum-crc32"] {
        assert_eq!(unsigned("0\r\n\r\n", "0", Some(name)).code(), ErrorCode::InvalidRequest, "{name}");
    }
    for hash in ["UNSIGNED-PAYLOAD", super::vectors::EMPTY] {
        let headers = [("x-amz-content-sha256", hash), ("x-amz-trailer", CRC)];
        let sent = Sent::new(Dialect::Aws, "PUT", "/b/k", "", &headers);
        assert_eq!(sent.code(), ErrorCode::MalformedTrailerError, "{hash}");
    }
}

#[test]
fn chunks_are_signed_only_in_a_signed_request() {
    for hash in ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"] {
        let headers = [("x-amz-content-sha256", hash), ("x-amz-decoded-content-length", "0")];
        assert_eq!(Sent::new(Dialect::Aws, "PUT", "/b/k", "", &headers).code(), ErrorCode::InvalidRequest);
    }
}
