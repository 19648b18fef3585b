//! The checks that come before every page, and the headers of every response.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64_URL;

use super::s3_client::Refusal;
use super::{ConsoleAccess, address};
use crate::base::Entropy;
use crate::s3::{Headers, Method, Request, Response};

/// Headers of every response: it runs and loads nothing from elsewhere, is in no frame, is not
/// stored, and gives its address to no other site.
const HEADERS: [(&str, &str); 7] = [
    (
        "Content-Security-Policy",
        "default-src 'none'; style-src 'self'; img-src 'self' blob:; media-src 'self'; connect-src 'self'; \
         form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
];

/// Bytes of a nonce.
const NONCE_BYTES: usize = 16;

/// A value that no one outside of a page can know.
pub(super) fn nonce(entropy: &dyn Entropy) -> String {
    let mut bytes = [0; NONCE_BYTES];
    entropy.fill(&mut bytes);
    BASE64_URL.encode(bytes)
}

/// The policy of a page: of all scripts, those run that the page names with its nonce, and what
/// they import. The origin alone would let every stored object be one.
pub(super) fn page_policy(nonce: &str) -> String {
    format!("{}; script-src 'nonce-{nonce}'", HEADERS[0].1)
}

/// The response, a page, with a frame of this origin.
pub(super) fn with_frames(mut response: Response) -> Response {
    for (name, value) in &mut response.headers {
        if name == HEADERS[0].0 {
            value.extend_from_slice(b"; frame-src 'self'");
        }
    }
    response
}

/// Whether nobody on the way can read the session, or whoever started the server lets them.
pub(super) fn is_shown(request: &Request<'_>, access: ConsoleAccess) -> bool {
    access == ConsoleAccess::Insecure || request.secure || request.is_local()
}

/// What a browser is told that may not see the console, whose port on the server's host is `port`.
pub(super) fn not_shown(port: u16) -> Refusal {
    Refusal::new(
        403,
        format!(
            "The console is not shown over plain HTTP to other hosts, where everyone on the way could read the session. Give the server a \
             certificate (--tls-cert, --tls-key), use a tunnel (ssh -L {port}:127.0.0.1:{port} HOST, then open http://127.0.0.1:{port}/), \
             or, behind a proxy with TLS, name the proxy by --trusted-proxies and let it send X-Forwarded-Proto. In a network that you \
             trust, start the server with --console-insecure true; in a container, where every browser comes through a published port, \
             set SILTSTONE_CONSOLE_INSECURE=true."
        ),
    )
}

/// Checks that the console may be shown, and that a change was asked for by a page of the console.
///
/// # Errors
/// The refusal to show.
pub(super) fn check(request: &Request<'_>, access: ConsoleAccess) -> Result<(), Refusal> {
    if !is_shown(request, access) {
        return Err(not_shown(address::port(request)));
    }
    // Requests that change nothing may come from anywhere: links lead here.
    let is_safe = matches!(request.method, Method::Get | Method::Head);
    match is_safe || is_from_own_origin(&request.headers) {
        true => Ok(()),
        false => Err(Refusal::new(403, "This request came from a page of another origin.")),
    }
}

/// Adds the headers of every response that it does not have already.
pub(super) fn protect(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        if response.get_header(name).is_none() {
            response = response.header(name, value);
        }
    }
    response
}

/// Whether a page of this origin sent the request. Cookies prove nothing: the ports of a host are
/// one site, so a page on another port could send them. A browser too old for `Sec-Fetch-Site`
/// names the origin; without both headers nothing is known.
fn is_from_own_origin(headers: &Headers) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == b"same-origin";
    }
    let Some(origin) = headers.get_str("origin") else { return false };
    let Some(host) = headers.get_str("host") else { return false };
    origin.split_once("://").is_some_and(|(_, of_origin)| of_origin.eq_ignore_ascii_case(host))
}

/// Whether a page of another site led to the request.
pub(super) fn is_from_another_site(headers: &Headers) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site == b"cross-site")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::Body;

    fn request(method: Method, lines: &[(&str, &str)]) -> Request<'static> {
        let mut headers = Headers::default();
        lines.iter().for_each(|(name, value)| headers.push(name, value.as_bytes()));
        Request {
            method,
            path: "/-/console/".to_owned(),
            query: String::new(),
            headers,
            body: Body::none(),
            secure: false,
            peer: Some(([127, 0, 0, 1], 5).into()),
            client: None,
        }
    }

    fn is_refused(request: &Request<'_>) -> bool {
        check(request, ConsoleAccess::On).is_err()
    }

    #[test]
    fn changes_come_from_the_own_origin_alone() {
        let post = |lines: &[(&str, &str)]| is_refused(&request(Method::Post, lines));
        for site in ["same-site", "cross-site", "none", ""] {
            let lines = [("sec-fetch-site", site), ("origin", "http://h:9000"), ("host", "h:9000")];
            assert!(post(&lines), "{site}");
        }
        assert!(!post(&[("sec-fetch-site", "same-origin")]));
        assert!(!post(&[("origin", "http://h:9000"), ("host", "h:9000")]));
        for (origin, host) in
            [("http://h:9001", "h:9000"), ("http://evil", "h"), ("null", "h"), ("h:9000", "h:9000")]
        {
            assert!(post(&[("origin", origin), ("host", host)]), "{origin}");
        }
        assert!(post(&[]) && post(&[("origin", "http://h")]) && post(&[("host", "h")]));
        assert!(!is_refused(&request(Method::Get, &[("sec-fetch-site", "cross-site")])));
        assert!(is_refused(&request(Method::Delete, &[])) && is_refused(&request(Method::Put, &[])));
    }

    #[test]
    fn other_hosts_need_tls() {
        let far = |secure, lines: &[(&str, &str)]| Request {
            peer: Some(([192, 0, 2, 1], 5).into()),
            secure,
            ..request(Method::Get, lines)
        };
        assert!(is_refused(&far(false, &[])) && !is_refused(&far(true, &[])));
        assert!(check(&far(false, &[]), ConsoleAccess::Insecure).is_ok());
        assert!(is_refused(&request(Method::Get, &[("x-forwarded-for", "192.0.2.1")])));
        assert!(is_refused(&Request { peer: None, ..request(Method::Get, &[]) }));
    }
}
