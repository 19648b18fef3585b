//! Forms: malformed, oversized, cut off, nested, and with fields of garbage.

use super::victim::Case;

const MALFORMED: &str = "400 MalformedPOSTRequest";
const KEY: &str = "--B\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nposted\r\n";
const FILE: &str = "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nhello\r\n";

/// A name, the media type, a body, and the answer. `KEY` and `FILE` stand for these parts.
const BODIES: &[(&str, &str, &str, &str)] = &[
    ("a form", "multipart/form-data; boundary=B", "KEYFILE--B--\r\n", "204"),
    ("a form without its last line end", "multipart/form-data; boundary=B", "KEYFILE--B--", "204"),
    ("nothing", "multipart/form-data; boundary=B", "", MALFORMED),
    ("no boundary in the type", "multipart/form-data", "KEYFILE--B--", MALFORMED),
    ("an empty boundary", "multipart/form-data; boundary=", "KEYFILE--B--", MALFORMED),
    ("a boundary in half quotes", "multipart/form-data; boundary=\"B", "KEYFILE--B--", MALFORMED),
    ("two boundaries", "multipart/form-data; boundary=B; boundary=C", "KEYFILE--B--", MALFORMED),
    ("another boundary", "multipart/form-data; boundary=C", "KEYFILE--B--", MALFORMED),
    ("another type", "multipart/mixed; boundary=B", "KEYFILE--B--", "412 PreconditionFailed"),
    ("a type of letters", "form", "KEYFILE--B--", "412 PreconditionFailed"),
    ("a urlencoded form", "application/x-www-form-urlencoded", "key=posted&file=x", "412 PreconditionFailed"),
    ("no last delimiter", "multipart/form-data; boundary=B", "KEYFILE", MALFORMED),
    ("half a last delimiter", "multipart/form-data; boundary=B", "KEYFILE--B-", MALFORMED),
    ("a delimiter that goes on", "multipart/form-data; boundary=B", "KEY--BB\r\nFILE--B--", MALFORMED),
    (
        "line feeds alone",
        "multipart/form-data; boundary=B",
        "--B\nContent-Disposition: form-data\n\nx\n--B--",
        MALFORMED,
    ),
    ("no file", "multipart/form-data; boundary=B", "KEY--B--", "400 InvalidArgument"),
    ("two files", "multipart/form-data; boundary=B", "KEYFILEFILE--B--", "400 InvalidArgument"),
    ("the file first", "multipart/form-data; boundary=B", "FILEKEY--B--", "400 InvalidArgument"),
    ("two keys", "multipart/form-data; boundary=B", "KEYKEYFILE--B--", "400 InvalidArgument"),
    ("a part without headers", "multipart/form-data; boundary=B", "KEY--B\r\n\r\nx\r\nFILE--B--", MALFORMED),
    (
        "a part without a name",
        "multipart/form-data; boundary=B",
        "KEY--B\r\nContent-Disposition: form-data\r\n\r\nx\r\nFILE--B--",
        MALFORMED,
    ),
    (
        "a name in half quotes",
        "multipart/form-data; boundary=B",
        "KEY--B\r\nContent-Disposition: form-data; name=\"x\r\n\r\nx\r\nFILE--B--",
        MALFORMED,
    ),
    (
        "a form in a form",
        "multipart/form-data; boundary=B",
        "KEY--B\r\nContent-Disposition: form-data; name=x\r\nContent-Type: multipart/mixed; boundary=C\r\n\r\n\
         --C\r\n\r\nx\r\n--C--\r\nFILE--B--",
        "204",
    ),
    (
        "a file in a file",
        "multipart/form-data; boundary=B",
        "KEY--B\r\nContent-Disposition: form-data; name=file\r\n\r\n--B \r\nFILE--B--",
        "400 InvalidArgument",
    ),
];

/// A name, a field before the file, its value, and the answer.
const FIELDS: &[(&str, &str, &str, &str)] = &[
    ("a line end in metadata", "x-amz-meta-a", "1\r\nEvil: 1", "400 InvalidArgument"),
    ("a NUL in metadata", "x-amz-meta-a", "\0", "400 InvalidArgument"),
    ("a name with a blank", "x-amz-meta-a b", "1", "400 InvalidArgument"),
    ("a line end in the media type", "Content-Type", "a/b\nc", "400 InvalidArgument"),
    ("a line end in the next page", "success_action_redirect", "http://x/\r\nEvil: 1", "204"),
    ("an access list of nothing", "x-svc-acl", "x", "400 InvalidArgument"),
    ("a checksum of letters", "x-amz-checksum-crc32", "x", "400 InvalidRequest"),
    ("a checksum of no algorithm", "x-amz-checksum-md6", "x", "400 InvalidRequest"),
    ("a trailer", "x-amz-trailer", "x-amz-checksum-crc32", "400 MalformedTrailerError"),
    ("tags of letters", "tagging", "a=b", "400 MalformedXML"),
    (
        "tags that are a bomb",
        "tagging",
        "<!DOCTYPE l [<!ENTITY a \"ha\">]><Tagging>&a;</Tagging>",
        "400 MalformedXML",
    ),
    ("a signature alone", "x-amz-signature", "x", "400 InvalidArgument"),
    ("a credential alone", "x-amz-credential", "x", "400 InvalidArgument"),
    ("a key of version 2 alone", "AWSAccessKeyId", "AK", "400 InvalidArgument"),
    ("a signature of version 2 alone", "signature", "x", "400 InvalidArgument"),
    ("a policy alone", "policy", "!!", "204"),
    ("metadata of three kibibytes", "x-amz-meta-a", LONG, "400 MetadataTooLarge"),
    ("a list of metadata", "X-Amz-Meta-A", "", "204"),
];

const LONG: &str = match std::str::from_utf8(&[b'x'; 3 * 1024]) {
    Ok(text) => text,
    Err(_) => unreachable!(),
};

fn post(media_type: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "POST /b HTTP/1.1\r\nHost: a\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

pub(super) fn cases() -> Vec<Case> {
    let of_bodies = BODIES.iter().map(|(name, media_type, body, expected)| {
        let body = body.replace("KEY", KEY).replace("FILE", FILE);
        Case::new(format!("form: {name}"), post(media_type, &body), expected)
    });
    let media_type = "multipart/form-data; boundary=B";
    let of_fields = FIELDS.iter().map(|(name, field, value, expected)| {
        let field = format!("--B\r\nContent-Disposition: form-data; name=\"{field}\"\r\n\r\n{value}\r\n");
        Case::new(
            format!("form with {name}"),
            post(media_type, &format!("{KEY}{field}{FILE}--B--")),
            expected,
        )
    });
    let long = "x".repeat(1 << 20);
    let of_lengths = [
        (
            "fields of a mebibyte",
            format!("{KEY}--B\r\nContent-Disposition: form-data; name=x\r\n\r\n{long}\r\n{FILE}--B--"),
        ),
        (
            "a name of a mebibyte",
            format!("{KEY}--B\r\nContent-Disposition: form-data; name={long}\r\n\r\nx\r\n{FILE}--B--"),
        ),
        ("headers of a mebibyte", format!("{KEY}--B\r\nX: {long}\r\n\r\nx\r\n{FILE}--B--")),
        ("a preamble of a mebibyte", format!("{long}\r\n{KEY}{FILE}--B--")),
    ]
    .map(|(name, body)| {
        Case::new(format!("form: {name}"), post(media_type, &body), "400 MaxPostPreDataLengthExceeded")
    });
    let epilogue = Case::new(
        "form: an epilogue of a mebibyte".to_owned(),
        post(media_type, &format!("{KEY}{FILE}--B--{long}")),
        MALFORMED,
    );
    of_bodies.chain(of_fields).chain(of_lengths).chain([epilogue]).collect()
}

/// A form for the object `reset`, and the content of its file.
pub(super) fn whole() -> (Vec<u8>, &'static [u8]) {
    let key = KEY.replace("posted", "reset");
    (post("multipart/form-data; boundary=B", &format!("{key}{FILE}--B--")), b"hello")
}
