//! Bodies in the coding `aws-chunked`, after a head with a correct signature. The first byte
//! chooses the form of the payload, the second the sizes of the pieces in which the rest arrives.
#![no_main]

use std::cell::RefCell;

use hmac::{Hmac, KeyInit as _, Mac as _};
use libfuzzer_sys::fuzz_target;
use sha2::{Digest as _, Sha256};
use siltstone::s3::{Body, Handler as _, Headers, Method, Request};
use siltstone::service::Service;
use siltstone_fuzz::{NOW_BASIC, Pieces, receive, service};

const FORMS: [&str; 5] = [
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    "UNSIGNED-PAYLOAD",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
];

thread_local! {
    static SERVER: RefCell<Option<Service>> = const { RefCell::new(None) };
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn signed_headers(form: &str, decoded_len: usize) -> Headers {
    let lines = [
        ("host", "localhost".to_owned()),
        ("x-amz-content-sha256", form.to_owned()),
        ("x-amz-date", NOW_BASIC.to_owned()),
        ("x-amz-decoded-content-length", decoded_len.to_string()),
        ("x-amz-trailer", "x-amz-checksum-crc32".to_owned()),
    ];
    let names = lines.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let canonical: String = lines.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let canonical = format!("PUT\n/b/k\n\n{canonical}\n{names}\n{form}");
    let scope = format!("{}/eu/s3/aws4_request", &NOW_BASIC[..8]);
    let text = format!("AWS4-HMAC-SHA256\n{NOW_BASIC}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
    let key = [&NOW_BASIC[..8], "eu", "s3", "aws4_request"]
        .iter()
        .fold(b"AWS4secret".to_vec(), |key, part| hmac(&key, part.as_bytes()));
    let signature = hex(&hmac(&key, text.as_bytes()));
    let authorization =
        format!("AWS4-HMAC-SHA256 Credential=AK/{scope}, SignedHeaders={names}, Signature={signature}");
    let mut headers = Headers::default();
    lines.iter().for_each(|(name, value)| headers.push(name, value.as_bytes()));
    headers.push("authorization", authorization.as_bytes());
    headers
}

fuzz_target!(|bytes: &[u8]| {
    let [form, step, rest @ ..] = bytes else { return };
    let form = FORMS[usize::from(*form) % FORMS.len()];
    // Some plausible decoded lengths.
    let decoded_len = rest.len().saturating_sub(usize::from(*step));
    let reader = Box::new(Pieces { bytes: rest, step: usize::from(*step).max(1) });
    let request = Request {
        method: Method::Put,
        path: "/b/k".into(),
        query: String::new(),
        headers: signed_headers(form, decoded_len),
        body: Body { content_length: Some(rest.len() as u64), chunked: false, reader },
        secure: false,
        peer: None,
        client: None,
    };
    SERVER.with_borrow_mut(|server| {
        let response = server.get_or_insert_with(service).handle(request);
        let may_be_forged = form.starts_with("STREAMING-AWS4");
        assert!(may_be_forged || response.status != 403, "the head's signature is right");
        receive(response);
    });
});
