//! What a trusted proxy says about the browser's request.

use crate::s3::{Headers, Request};
use crate::service::{TrustedProxy, last_of_list};

/// Gives a request that a trusted proxy passed on the scheme and the host that the browser's
/// request had. Of several values the last counts: the nearest proxy added it, and clients may have
/// sent the others. The peer stays: policies decide by it (`aws:SourceIp`).
pub(super) fn restate(request: &mut Request<'_>, is_trusted: &TrustedProxy) {
    if !request.peer.is_some_and(|peer| is_trusted(peer.ip())) {
        return;
    }
    if let Some(scheme) = last_of_list(&request.headers, "x-forwarded-proto") {
        request.secure = scheme.eq_ignore_ascii_case("https");
    }
    let host =
        last_of_list(&request.headers, "x-forwarded-host").filter(|host| is_host(host)).map(str::to_owned);
    if let Some(host) = host {
        request.headers = with_host(&request.headers, &host);
    }
}

fn with_host(headers: &Headers, host: &str) -> Headers {
    let mut restated = Headers::default();
    let others = headers.iter().filter(|(name, _)| *name != "host");
    for (name, value) in others {
        restated.push(name, value);
    }
    restated.push("host", host.as_bytes());
    restated
}

/// Whether a text can stand as the host of a URL.
fn is_host(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte))
}
