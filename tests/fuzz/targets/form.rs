//! Forms of browsers. The first byte chooses the sizes of the pieces in which the rest arrives. A
//! body is read alike in pieces of any size, and a broken one is never stored.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use siltstone::s3::form::PostForm;
use siltstone::s3::{Body, ErrorCode, Handler as _, Headers, Method, Request, S3Error};
use siltstone::service::Service;
use siltstone_fuzz::{Pieces, receive, service};

/// After this number of requests an empty server replaces the current one, so that memory does not
/// grow.
const REQUESTS_MAX: u32 = 2_000;

thread_local! {
    static SERVER: RefCell<(u32, Option<Service>)> = const { RefCell::new((0, None)) };
}

fn request(bytes: &[u8], step: usize) -> Request<'_> {
    let mut headers = Headers::default();
    headers.push("host", b"localhost");
    headers.push("content-type", b"multipart/form-data; boundary=b");
    let reader = Box::new(Pieces { bytes, step });
    Request {
        method: Method::Post,
        path: "/b".into(),
        query: String::new(),
        headers,
        body: Body { content_length: Some(bytes.len() as u64), chunked: false, reader },
        secure: false,
        peer: None,
        client: None,
    }
}

/// The form and the file in `bytes`.
fn read(bytes: &[u8], step: usize) -> Result<(PostForm, Vec<u8>), S3Error> {
    let mut request = request(bytes, step);
    let form = PostForm::open(&mut request)?;
    let mut file = Vec::new();
    let mut buffer = vec![0; step + 1];
    loop {
        match request.body.reader.read(&mut buffer)? {
            0 => return Ok((form, file)),
            count => file.extend_from_slice(&buffer[..count]),
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let [step, rest @ ..] = bytes else { return };
    let step = usize::from(*step) + 1;
    let whole = read(rest, rest.len() + 1);
    assert_eq!(read(rest, step), whole);
    if let Err(error) = &whole {
        let known = [
            ErrorCode::InvalidArgument,
            ErrorCode::MalformedPOSTRequest,
            ErrorCode::MaxPostPreDataLengthExceeded,
        ];
        assert!(known.contains(&error.code), "{error}");
    }
    SERVER.with_borrow_mut(|(count, server)| {
        if *count >= REQUESTS_MAX {
            (*count, *server) = (0, None);
        }
        *count += 1;
        let response = server.get_or_insert_with(service).handle(request(rest, step));
        assert!(whole.is_ok() || response.status >= 400, "a broken form was stored");
        receive(response);
    });
});
