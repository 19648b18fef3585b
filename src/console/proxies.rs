//! What a trusted proxy says about the browser's request.

use std::net::IpAddr;

use crate::s3::{Headers, Request};

/// Whether a peer with this address is a proxy whose headers count.
pub(super) type TrustedProxy = Box<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// Gives a request that a trusted proxy passed on the scheme and the host that the browser's
/// request had. Of several values the last counts: the nearest proxy added it, and clients may have
/// sent the others. The peer stays: policies decide by it (`aws:SourceIp`).
pub(super) fn restate(request: &mut Request<'_>, is_trusted: &TrustedProxy) {
    if !request.peer.is_some_and(|peer| is_trusted(peer.ip())) {
        return;
    }
    if let Some(scheme) = last(&request.headers, "x-forwarded-proto") {
        request.secure = scheme.eq_ignore_ascii_case("https");
    }
    let host = last(&request.headers, "x-forwarded-host").filter(|host| is_host(host)).map(str::to_owned);
    if let Some(host) = host {
        request.headers = with_host(&request.headers, &host);
    }
}

/// The address of the browser: as a trusted proxy names it, or the connection's.
pub(super) fn browser(request: &Request<'_>, is_trusted: &TrustedProxy) -> Option<IpAddr> {
    let peer = request.peer?.ip();
    if !is_trusted(peer) {
        return Some(peer);
    }
    let named = last(&request.headers, "x-forwarded-for").and_then(|address| address.parse().ok());
    Some(named.unwrap_or(peer))
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

fn last<'h>(headers: &'h Headers, name: &'h str) -> Option<&'h str> {
    let value = std::str::from_utf8(headers.get_all(name).last()?).ok()?;
    value.rsplit(',').next().map(str::trim).filter(|value| !value.is_empty())
}

/// Whether a text can stand as the host of a URL.
fn is_host(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte))
}
