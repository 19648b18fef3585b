//! A request head: any bytes are read to a head or refused, whatever the pieces in which they
//! arrive.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone::http::fuzzing::{head_is_complete, read_head};

fuzz_target!(|bytes: &[u8]| {
    let Ok(Some(head)) = read_head(bytes) else { return };
    assert!(head.len <= bytes.len());
    assert!(head.path.starts_with('/') || head.path == "*", "{:?}", head.path);
    assert!(!(head.chunked && head.content_length.is_some()), "a body has one end");
    for (name, value) in head.headers.iter() {
        assert!(!name.is_empty() && !name.bytes().any(|b| b.is_ascii_uppercase() || b <= b' '));
        assert!(!value.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)), "{value:?}");
    }
    let whole = &bytes[..head.len];
    assert!(head_is_complete(whole, 0), "a whole head must reach a worker");
    for searched in 0..head.len {
        let before = head_is_complete(&whole[..searched], 0);
        // A prefix that looked complete is complete or refused; the rest belongs to another
        // request.
        assert!(before || head_is_complete(whole, searched), "the end is overlooked behind {searched}");
    }
});
