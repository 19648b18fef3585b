//! The whole protocol without a socket: a head, as the engine reads it, and a body after it, for a
//! server that permits everything to everyone.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use siltstone::http::fuzzing::read_head;
use siltstone::s3::{Body, Handler as _, Request};
use siltstone::service::Service;
use siltstone_fuzz::{Pieces, receive, service};

/// After this number of requests an empty server replaces the current one, so that memory does not
/// grow.
const REQUESTS_MAX: u32 = 2_000;

thread_local! {
    static SERVER: RefCell<(u32, Option<Service>)> = const { RefCell::new((0, None)) };
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(Some(head)) = read_head(bytes) else { return };
    let rest = &bytes[head.len..];
    let announced = head.content_length.unwrap_or(rest.len() as u64);
    let len = rest.len().min(usize::try_from(announced).unwrap_or(usize::MAX));
    let reader = Box::new(Pieces { bytes: &rest[..len], step: 1 + head.len % 100 });
    let body = Body { content_length: head.content_length, chunked: head.chunked, reader };
    let body = if head.chunked || head.content_length.is_some() { body } else { Body::none() };
    let request = Request {
        method: head.method,
        path: head.path,
        query: head.query,
        headers: head.headers,
        body,
        secure: false,
        peer: None,
        client: None,
    };
    SERVER.with_borrow_mut(|(count, server)| {
        if *count >= REQUESTS_MAX {
            (*count, *server) = (0, None);
        }
        *count += 1;
        receive(server.get_or_insert_with(service).handle(request));
    });
});
