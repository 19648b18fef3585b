//! A chunked body: it reads the same, wherever the network splits it. The first byte chooses the
//! split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone::http::fuzzing::read_chunked;

fuzz_target!(|bytes: &[u8]| {
    let Some((cut, body)) = bytes.split_first() else { return };
    let whole = read_chunked([body]);
    let step = usize::from(*cut).max(1);
    let pieces = read_chunked(body.chunks(step));
    match (whole, pieces) {
        (Ok(a), Ok(b)) => assert_eq!(a, b),
        (Err(_), Err(_)) => {}
        (a, b) => panic!("whole: {:?}, in pieces of {step}: {:?}", a.is_ok(), b.is_ok()),
    }
});
