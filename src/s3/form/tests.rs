//! Forms, whole and broken.

use proptest::prelude::*;

use super::*;
use crate::s3::{BodyRead, Method};

const TYPE: &str = "multipart/form-data; boundary=b";

/// A body in pieces of at most `step` bytes.
struct Pieces<'b> {
    bytes: &'b [u8],
    step: usize,
}

impl BodyRead for Pieces<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        let count = self.bytes.len().min(buf.len()).min(self.step);
        buf[..count].copy_from_slice(&self.bytes[..count]);
        self.bytes = &self.bytes[count..];
        Ok(count)
    }
}

fn request<'b>(media_type: &str, bytes: &'b [u8], step: usize) -> Request<'b> {
    let mut headers = Headers::default();
    headers.push("Content-Type", media_type.as_bytes());
    let reader = Box::new(Pieces { bytes, step });
    let body = Body { content_length: Some(bytes.len() as u64), chunked: false, reader };
    let path = "/b".to_owned();
    let query = String::new();
    Request { method: Method::Post, path, query, headers, body, secure: false, peer: None, client: None }
}

fn read_all(reader: &mut dyn BodyRead, step: usize) -> Result<Vec<u8>, S3Error> {
    let mut read = Vec::new();
    let mut buf = vec![0; step];
    loop {
        match reader.read(&mut buf) {
            Ok(0) => {
                assert_eq!(reader.read(&mut buf), Ok(0), "the end stays the end");
                return Ok(read);
            }
            Ok(count) => read.extend_from_slice(&buf[..count]),
            Err(error) => {
                assert_eq!(reader.read(&mut buf), Err(error.clone()), "a failed body goes on failing");
                return Err(error);
            }
        }
    }
}

/// The form and the file in `bytes`, which come in pieces.
fn open_as(media_type: &str, bytes: &[u8], step: usize) -> Result<(PostForm, Vec<u8>), S3Error> {
    let mut request = request(media_type, bytes, step);
    let form = PostForm::open(&mut request)?;
    Ok((form, read_all(&mut *request.body.reader, step)?))
}

fn open(bytes: &[u8]) -> Result<(PostForm, Vec<u8>), S3Error> {
    open_as(TYPE, bytes, 1 << 20)
}

fn code(bytes: &[u8]) -> ErrorCode {
    open(bytes).unwrap_err().code
}

fn part(name: &str, more: &str, value: &str) -> String {
    format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n{value}\r\n")
}

/// A form with these fields and a file.
fn form(fields: &[(&str, &str)], file_name: &str, content: &str) -> Vec<u8> {
    let fields: String = fields.iter().map(|(name, value)| part(name, "", value)).collect();
    let file = part("file", &format!("; filename=\"{file_name}\"\r\nContent-Type: a/b"), content);
    format!("{fields}{file}--b--\r\n").into_bytes()
}

#[test]
fn fields_and_file_are_read_in_pieces_of_any_size() {
    let content = "--b\r\n\r\n--a\r\n--\r\n\r\r\n--\n--b--".repeat(3);
    let bytes = form(&[("key", "k"), ("Content-Type", "text/plain"), ("empty", "")], "f.txt", &content);
    for step in [1, 2, 3, 7, 16, 1000, 1 << 20] {
        let (form, file) = open_as(TYPE, &bytes, step).unwrap();
        assert_eq!(
            form.iter().collect::<Vec<_>>(),
            [("key", "k"), ("Content-Type", "text/plain"), ("empty", "")]
        );
        assert_eq!(String::from_utf8(file).unwrap(), content, "{step}");
    }
}

#[test]
fn a_form_that_is_cut_off_anywhere_has_no_file() {
    let bytes = form(&[("key", "k"), ("x", "1")], "f.txt", "content\r\n--c");
    let whole = bytes.len() - "\r\n".len();
    for cut in 0..bytes.len() {
        let outcome = open(&bytes[..cut]);
        assert_eq!(outcome.is_ok(), cut >= whole, "{cut}");
        if let Err(error) = outcome {
            assert_eq!(error.code, ErrorCode::MalformedPOSTRequest, "{cut}");
        }
    }
}

#[test]
fn what_surrounds_the_parts_is_ignored() {
    let mut bytes = b"preamble --b\r\n --b\r\n".to_vec();
    bytes.extend(form(&[("key", "k")], "f", "x"));
    bytes.extend(b"epilogue\r\n--b\r\n");
    assert_eq!(open(&bytes).unwrap().1, b"x");
    let long = [form(&[], "f", "x"), vec![b'e'; FORM_FIELDS_MAX_BYTES]].concat();
    assert_eq!(code(&long), ErrorCode::MalformedPOSTRequest);
}

#[test]
fn fields_after_the_file_are_ignored_and_a_second_file_is_refused() {
    let file = part("file", "; filename=\"f\"", "x");
    let after = |more: &str| code_of(format!("{}{file}{more}--b--", part("key", "", "k")).as_bytes());
    assert_eq!(after(&part("submit", "", "Upload")), None);
    assert_eq!(after(&part("FILE", "; filename=\"g\"", "y")), Some(ErrorCode::InvalidArgument));
    assert_eq!(after("--b\r\n\r\nno name\r\n"), Some(ErrorCode::MalformedPOSTRequest));
    let long = part("x", "", &"v".repeat(FORM_FIELDS_MAX_BYTES));
    assert_eq!(after(&long), Some(ErrorCode::MalformedPOSTRequest));
    let error = open(format!("{}--b--", part("key", "", "k")).as_bytes()).unwrap_err();
    assert_eq!(error.elements[1], ("ArgumentValue", "0".to_owned()));
}

fn code_of(bytes: &[u8]) -> Option<ErrorCode> {
    open(bytes).err().map(|error| error.code)
}

#[test]
fn malformed_forms_are_refused() {
    let file = part("file", "", "x");
    for broken in [
        String::new(),
        "key=k&file=x".to_owned(),
        format!("--c\r\n{file}--c--"),
        format!("--bb\r\n{file}--b--"),
        format!("--b \r\n{file}--b--"),
        format!("--b\n\n{file}--b--"),
        format!("--b\r\n\r\nx\r\n{file}--b--"),
        format!("--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n{file}--b--"),
        format!("--b\r\nContent-Disposition: form-data; name=\"\"\r\n\r\nx\r\n{file}--b--"),
        format!("--b\r\nContent-Disposition: attachment; name=a\r\n\r\nx\r\n{file}--b--"),
        format!("--b\r\nContent-Disposition: form-data; name=\"a\r\n\r\nx\r\n{file}--b--"),
        format!("--b\r\nContent-Type: a/b\r\n\r\nx\r\n{file}--b--"),
        "--b\r\nContent-Disposition: form-data; name=file\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--b--"
            .to_owned(),
        format!("{file}--b-"),
        format!("{file}--b\r\n"),
        format!("{file}--bx\r\n"),
    ] {
        assert_eq!(code_of(broken.as_bytes()), Some(ErrorCode::MalformedPOSTRequest), "{broken}");
    }
    let no_text =
        [&b"--b\r\nContent-Disposition: form-data; name=a\r\n\r\n\xff\r\n"[..], file.as_bytes()].concat();
    assert_eq!(code(&no_text), ErrorCode::MalformedPOSTRequest);
}

#[test]
fn fields_are_limited_together() {
    let around = form(&[("key", "")], "f", "").len() - "\r\n--b--\r\n".len();
    let fits = FORM_FIELDS_MAX_BYTES - around;
    for step in [1000, 1 << 20] {
        let largest = form(&[("key", &"k".repeat(fits))], "f", &"x".repeat(100_000));
        assert_eq!(open_as(TYPE, &largest, step).unwrap().1.len(), 100_000);
        let larger = form(&[("key", &"k".repeat(fits + 1))], "f", "x");
        let error = open_as(TYPE, &larger, step).unwrap_err();
        assert_eq!(error.code, ErrorCode::MaxPostPreDataLengthExceeded);
        assert_eq!(error.elements, [("MaxPostPreDataLengthBytes", "20480".to_owned())]);
    }
    for endless in ["--b\r\nContent-Disposition: form-data; name=x", "x", "--b\r\nx: "] {
        let bytes = format!("{endless}{}", "y".repeat(1 << 20));
        assert_eq!(code(bytes.as_bytes()), ErrorCode::MaxPostPreDataLengthExceeded, "{endless}");
    }
    let many = part("a", "", "").repeat(10_000);
    assert!(matches!(code(many.as_bytes()), ErrorCode::InvalidArgument));
    let many: String = (0..10_000).map(|n| part(&n.to_string(), "", "")).collect();
    assert_eq!(code(many.as_bytes()), ErrorCode::MaxPostPreDataLengthExceeded);
}

#[test]
fn the_media_type_is_that_of_forms() {
    let bytes = form(&[], "f", "x");
    for other in
        ["", "text/plain", "multipart/mixed; boundary=b", "application/x-www-form-urlencoded", "multipart"]
    {
        let error = open_as(other, &bytes, 100).unwrap_err();
        assert_eq!(error.code, ErrorCode::PreconditionFailed, "{other}");
        assert_eq!(error.elements[0].1, "Bucket POST must be of the enclosure-type multipart/form-data");
    }
    for same in ["Multipart/Form-Data;charset=utf-8; Boundary=\"b\"", "multipart/form-data;boundary=b;"] {
        assert!(open_as(same, &bytes, 100).is_ok(), "{same}");
    }
    let long = "b".repeat(71);
    for boundary in [
        "",
        "boundary=",
        "boundary=\"b \"",
        "boundary=b; boundary=b",
        "boundary=\"b",
        "boundary=ü",
        "boundary=\"a\u{1}\"",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain([format!("boundary={long}")])
    {
        let error = open_as(&format!("multipart/form-data; {boundary}"), &bytes, 100).unwrap_err();
        assert_eq!(error.code, ErrorCode::MalformedPOSTRequest, "{boundary}");
    }
    let longest = String::from_utf8(bytes).unwrap().replace("--b", &format!("--{}", &long[..70]));
    assert!(
        open_as(&format!("multipart/form-data; boundary={}", &long[..70]), longest.as_bytes(), 1).is_ok()
    );
}

#[test]
fn a_form_needs_a_length_or_chunks() {
    let bytes = form(&[], "f", "x");
    let open = |content_length, chunked| {
        let mut request = request(TYPE, &bytes, 100);
        (request.body.content_length, request.body.chunked) = (content_length, chunked);
        PostForm::open(&mut request).map(drop).map_err(|error| error.code)
    };
    assert_eq!(open(None, false), Err(ErrorCode::MissingContentLength));
    assert_eq!((open(None, true), open(Some(bytes.len() as u64), false)), (Ok(()), Ok(())));
}

#[test]
fn the_name_of_the_file_stands_in_for_its_variable() {
    let key = |file_name: &str| {
        let bytes = form(&[("key", "up/${filename}-${filename}"), ("x", "${filename")], file_name, "x");
        let (form, _) = open(&bytes).unwrap();
        assert_eq!(form.get("x"), Some("${filename"));
        form.key().unwrap().as_str().to_owned()
    };
    assert_eq!(key("a b.txt"), "up/a b.txt-a b.txt");
    assert_eq!(key("C:\\Program Files\\directory1\\file.txt"), "up/file.txt-file.txt");
    assert_eq!(key("/home/me/file.txt"), "up/file.txt-file.txt");
    assert_eq!(key("ü\\\"x.txt"), "up/ü\"x.txt-ü\"x.txt");
    assert_eq!(key(""), "up/-");
    let unnamed = format!("{}{}--b--", part("key", "", "${filename}"), part("file", "", "x"));
    assert_eq!(open(unnamed.as_bytes()).unwrap().0.get("key"), Some("${filename}"));
    let amplified = form(&[("key", &"${filename}".repeat(500))], &"n".repeat(1000), "x");
    assert_eq!(code(&amplified), ErrorCode::MaxPostPreDataLengthExceeded);
}

#[test]
fn names_are_case_insensitive_and_only_metadata_is_repeated() {
    let repeated = [("x-amz-meta-a", "1"), ("X-Amz-Meta-A", "2"), ("Key", "k")];
    let (read, _) = open(&form(&repeated, "f", "x")).unwrap();
    assert_eq!((read.get("x-amz-META-a"), read.get("KEY")), (Some("1,2"), Some("k")));
    for name in ["key", "policy", "x-amz-signature", "acl", "meta-a"] {
        let bytes = form(&[(name, "1"), (&name.to_uppercase(), "1")], "f", "x");
        assert_eq!(code(&bytes), ErrorCode::InvalidArgument, "{name}");
    }
}

#[test]
fn a_key_has_one_character_at_least() {
    let key = |fields: &[(&str, &str)]| {
        open(&form(fields, "f", "x")).unwrap().0.key().map_err(|e| (e.code, e.message))
    };
    let (code, message) = key(&[]).unwrap_err();
    assert_eq!(code, ErrorCode::InvalidArgument);
    assert!(message.starts_with("Bucket POST must contain a field named 'key'.  If it is"), "{message}");
    assert_eq!(key(&[("key", "")]).unwrap_err().0, ErrorCode::InvalidArgument);
    assert_eq!(key(&[("key", &"k".repeat(1025))]).unwrap_err().0, ErrorCode::KeyTooLongError);
}

/// The headers that a form with these fields leaves, of a request with some of its own.
fn restored(fields: &[(&str, &str)]) -> Result<Vec<String>, ErrorCode> {
    let (form, _) = open(&form(fields, "f", "x")).unwrap();
    let mut headers = Headers::default();
    for name in
        ["Host", "Content-Type", "x-amz-meta-b", "If-Match", "x-amz-expected-bucket-owner", "User-Agent"]
    {
        headers.push(name, b"sent");
    }
    form.restore_headers(&mut headers, Dialect::Aws).map_err(|error| error.code)?;
    let text = |value| String::from_utf8_lossy(value).into_owned();
    Ok(headers.iter().map(|(name, value)| format!("{name}: {}", text(value))).skip(3).collect())
}

#[test]
fn fields_become_the_headers_of_the_object() {
    let tagging = "<Tagging><TagSet><Tag><Key>a</Key><Value>b c</Value></Tag></TagSet></Tagging>";
    let fields = [
        ("key", "k"),
        ("Content-Type", "text/plain"),
        ("ACL", "private"),
        ("tagging", tagging),
        ("X-Amz-Meta-A", "1"),
        ("x-amz-checksum-crc32", "AAAAAA=="),
        ("x-amz-credential", "c"),
        ("x-amz-date", "d"),
        ("x-amz-algorithm", "a"),
        ("X-Amz-Signature", "s"),
        ("policy", "p"),
        ("x-svc-meta-a", "1"),
        ("success_action_status", "201"),
        ("If-Match", "x"),
        ("x-ignore-a", "x"),
    ];
    let expected = [
        "content-type: text/plain",
        "x-amz-acl: private",
        "x-amz-tagging: a=b%20c",
        "x-amz-meta-a: 1",
        "x-amz-checksum-crc32: AAAAAA==",
    ];
    assert_eq!(restored(&fields).unwrap(), expected);
}

#[test]
fn fields_that_no_header_can_have_are_refused() {
    for (name, value) in [
        ("x-amz-meta-a", "1\r\nEvil: 1"),
        ("x-amz-meta-a b", "1"),
        ("x-amz-meta-ü", "1"),
        ("Content-Type", "a\0"),
    ] {
        assert_eq!(restored(&[(name, value)]), Err(ErrorCode::InvalidArgument), "{name}");
    }
    let many = format!("<Tagging>{}</Tagging>", "<a/>".repeat(1000));
    for document in ["", "a=b", "<Tagging/>", "<Other/>", "<Tagging><TagSet><Tag/></TagSet></Tagging>", &many]
    {
        assert_eq!(restored(&[("tagging", document)]), Err(ErrorCode::MalformedXML), "{document}");
    }
}

#[test]
fn a_length_beyond_the_range_is_refused_while_it_is_read() {
    let read = |range, count: usize| {
        let bytes = vec![1; count];
        let mut body = request(TYPE, &bytes, 3).body;
        SizeLimitedBody::wrap(&mut body, range);
        read_all(&mut *body.reader, 4).map(|read| read.len())
    };
    assert_eq!((read(5..=10, 5), read(5..=10, 10), read(0..=0, 0)), (Ok(5), Ok(10), Ok(0)));
    let large = read(5..=10, 11).unwrap_err();
    assert_eq!(
        (large.code, &large.elements[..]),
        (ErrorCode::EntityTooLarge, &[("MaxSizeAllowed", "10".to_owned())][..])
    );
    let small = read(5..=10, 4).unwrap_err();
    let elements = [("ProposedSize", "4".to_owned()), ("MinSizeAllowed", "5".to_owned())];
    assert_eq!((small.code, small.elements), (ErrorCode::EntityTooSmall, elements.to_vec()));
}

proptest! {
    #[test]
    fn files_are_read_as_they_were_sent(
        content in prop::collection::vec(prop::sample::select(b"\r\n-bx".to_vec()), 0..60), step in 1usize..40
    ) {
        let mut bytes = part("key", "", "k").into_bytes();
        bytes.extend(b"--b\r\nContent-Disposition: form-data; name=file\r\n\r\n");
        bytes.extend(&content);
        bytes.extend(b"\r\n--b--");
        // Content with a delimiter is not content: the file ends there.
        let cut = [b"\r\n", &content[..], b"\r\n--b--"].concat().windows(5).position(|window| window == b"\r\n--b");
        let is_whole = cut == Some(content.len() + 2);
        prop_assume!(is_whole || cut.is_some_and(|cut| cut >= 2));
        match open_as(TYPE, &bytes, step) {
            Ok((_, file)) if is_whole => prop_assert_eq!(file, content),
            Ok((_, file)) => prop_assert_eq!(file, &content[..cut.unwrap() - 2]),
            Err(_) => prop_assert!(!is_whole),
        }
    }

    #[test]
    fn no_body_makes_it_panic_or_read_differently_in_pieces(
        parts in prop::collection::vec(prop::sample::select(vec![
            "--b", "\r\n", "--", "Content-Disposition: form-data; name=", "\"file\"", "file", "key", "; filename=", "\"", "x", ":",
        ]), 0..30),
        step in 1usize..9,
    ) {
        let bytes = parts.concat();
        let whole = open(bytes.as_bytes());
        prop_assert_eq!(open_as(TYPE, bytes.as_bytes(), step), whole);
    }
}
