//! The cookie with the secret of a session.

use super::address::ROOT;
use super::sessions::SessionId;
use crate::s3::{Request, Response};

/// The name over TLS: browsers refuse a cookie of this name that another host or a page without TLS sets (RFC 6265bis, section 4.1.3.2).
const SECURE_NAME: &str = "__Host-siltstone";
/// The name over plain HTTP.
const PLAIN_NAME: &str = "siltstone-console";

/// The session that the cookie of a request names.
pub(super) fn session(request: &Request<'_>) -> Option<SessionId> {
    let lines = request.headers.get_all("cookie").filter_map(|line| std::str::from_utf8(line).ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == name_for(request)).map(|(_, secret)| SessionId::of_secret(secret))
}

/// The response, which gives the browser the secret of a session.
pub(super) fn set(response: Response, request: &Request<'_>, secret: &str) -> Response {
    response.header("Set-Cookie", format!("{}={secret}; {}", name_for(request), attributes(request)))
}

/// The response, which takes the secret from the browser.
pub(super) fn clear(response: Response, request: &Request<'_>) -> Response {
    response.header("Set-Cookie", format!("{}=; {}; Max-Age=0", name_for(request), attributes(request)))
}

fn name_for(request: &Request<'_>) -> &'static str {
    if request.secure { SECURE_NAME } else { PLAIN_NAME }
}

fn attributes(request: &Request<'_>) -> String {
    match request.secure {
        true => "Path=/; Secure; HttpOnly; SameSite=Strict".to_owned(),
        false => format!("Path={}; HttpOnly; SameSite=Strict", ROOT.trim_end_matches('/')),
    }
}
