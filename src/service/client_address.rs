//! The addresses of clients behind proxies.

use std::net::IpAddr;

use crate::s3::{Headers, Request};

/// Whether a peer with this address is a proxy whose headers count.
pub type TrustedProxy = Box<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// The address of the client: as a trusted proxy names it, or the connection's.
pub fn client_address(request: &Request<'_>, is_trusted: &TrustedProxy) -> Option<IpAddr> {
    let peer = request.peer?.ip();
    if !is_trusted(peer) {
        return Some(peer);
    }
    let named = last_of_list(&request.headers, "x-forwarded-for").and_then(|address| address.parse().ok());
    Some(named.unwrap_or(peer))
}

/// The last value of a header that is a list: the nearest proxy added it, and clients may have sent
/// the others.
pub fn last_of_list<'h>(headers: &'h Headers, name: &'h str) -> Option<&'h str> {
    let value = std::str::from_utf8(headers.get_all(name).last()?).ok()?;
    value.rsplit(',').next().map(str::trim).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::{Body, Method};

    #[test]
    fn a_trusted_proxy_names_the_client_and_nobody_else_does() {
        let named = |peer: &str, forwarded: &[&str]| {
            let mut headers = Headers::default();
            for value in forwarded {
                headers.push("x-forwarded-for", value.as_bytes());
            }
            let request = Request {
                method: Method::Get,
                path: "/".to_owned(),
                query: String::new(),
                headers,
                body: Body::none(),
                secure: false,
                peer: Some((peer.parse::<IpAddr>().unwrap(), 1).into()),
                client: None,
            };
            let is_trusted: TrustedProxy = Box::new(|address| address.is_loopback());
            client_address(&request, &is_trusted).unwrap().to_string()
        };
        assert_eq!(named("127.0.0.1", &["192.0.2.1, 192.0.2.2"]), "192.0.2.2");
        assert_eq!(named("127.0.0.1", &["192.0.2.1", "192.0.2.3"]), "192.0.2.3");
        assert_eq!(named("192.0.2.9", &["192.0.2.1"]), "192.0.2.9");
        for none in [&[][..], &["unknown"], &[""]] {
            assert_eq!(named("127.0.0.1", none), "127.0.0.1");
        }
    }
}
