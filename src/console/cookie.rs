//! The cookies: one with the secret of a session, one for an attempt to sign in by an OpenID
//! provider, and those by which a browser remembers what somebody prefers.

use super::address::ConsoleRoot;
use super::sessions::SessionId;
use crate::s3::{Request, Response, uri};

/// The name over TLS: browsers refuse a cookie of this name that another host or a page without TLS
/// sets (RFC 6265bis, section 4.1.3.2).
const SECURE_NAME: &str = "__Host-siltstone";
/// Cookies that are looked at: each is one lookup, and a browser may be given any number of them.
const SESSIONS_MAX: usize = 16;
/// How long an attempt may take, in seconds.
const ATTEMPT_SECS: u32 = 600;
/// The name over plain HTTP.
const PLAIN_NAME: &str = "siltstone-console";
/// How long a preference is remembered, in seconds: a year.
const PREFERENCE_SECS: u32 = 365 * 24 * 60 * 60;

/// What somebody prefers in one browser. A page at another port of the host can set it: it changes
/// nothing but the look and the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Preference {
    /// Folders with images are shown as a grid.
    Grid,
    /// Single letters are keys of the pages (WCAG 2.1, 2.1.4).
    LetterKeys,
}

impl Preference {
    /// The name of its cookie.
    fn name(self) -> &'static str {
        match self {
            Self::Grid => "siltstone-grid",
            Self::LetterKeys => "siltstone-keys",
        }
    }

    /// Whether it is on in a browser that remembers nothing.
    fn is_on_at_first(self) -> bool {
        self == Self::LetterKeys
    }
}

/// The sessions that the cookies of a request name. Over plain HTTP a page at another port of the
/// host can add some.
pub(super) fn sessions(request: &Request<'_>) -> impl Iterator<Item = SessionId> {
    values(request, name_for(request)).take(SESSIONS_MAX).map(SessionId::of_secret)
}

fn values<'r>(request: &'r Request<'_>, wanted: &'static str) -> impl Iterator<Item = &'r str> {
    let lines = request.headers.get_all("cookie").filter_map(|line| std::str::from_utf8(line).ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(name, _)| *name == wanted).map(|(_, value)| value)
}

/// The response, with the secret of an attempt and the page that is to follow. Browsers send it
/// along when the provider leads back here, which they do not with the cookie of a session.
pub(super) fn begin_attempt(
    root: &ConsoleRoot,
    response: Response,
    request: &Request<'_>,
    secret: &str,
    next: &str,
) -> Response {
    let (name, attributes) = attempt_names(root, request);
    let next = uri::encode_query(next);
    response.header("Set-Cookie", format!("{name}={secret}.{next}; {attributes}; Max-Age={ATTEMPT_SECS}"))
}

/// The secret of an attempt, and the page that is to follow.
pub(super) fn attempt(root: &ConsoleRoot, request: &Request<'_>) -> Option<(String, String)> {
    let (secret, next) = values(request, attempt_names(root, request).0).next()?.split_once('.')?;
    let next = uri::decode_path(next).ok().filter(|next| root.is_local(next))?;
    Some((secret.to_owned(), next))
}

/// The response, which ends an attempt.
pub(super) fn end_attempt(root: &ConsoleRoot, response: Response, request: &Request<'_>) -> Response {
    let (name, attributes) = attempt_names(root, request);
    response.header("Set-Cookie", format!("{name}=; {attributes}; Max-Age=0"))
}

fn attempt_names(root: &ConsoleRoot, request: &Request<'_>) -> (&'static str, String) {
    match request.secure {
        true => ("__Host-siltstone-oidc", "Path=/; Secure; HttpOnly; SameSite=Lax".to_owned()),
        false => ("siltstone-console-oidc", format!("Path={}; HttpOnly; SameSite=Lax", root.link("oidc"))),
    }
}

/// The response, which gives the browser the secret of a session.
pub(super) fn set(root: &ConsoleRoot, response: Response, request: &Request<'_>, secret: &str) -> Response {
    response.header("Set-Cookie", format!("{}={secret}; {}", name_for(request), attributes(root, request)))
}

/// The response, which takes the secret from the browser.
pub(super) fn clear(root: &ConsoleRoot, response: Response, request: &Request<'_>) -> Response {
    response.header("Set-Cookie", format!("{}=; {}; Max-Age=0", name_for(request), attributes(root, request)))
}

/// Whether a preference is on, as the browser remembers it.
pub(super) fn prefers(request: &Request<'_>, preference: Preference) -> bool {
    match values(request, preference.name()).next() {
        Some("0") => false,
        Some("1") => true,
        _ => preference.is_on_at_first(),
    }
}

/// The response, by which the browser remembers whether a preference is on.
pub(super) fn remember(
    root: &ConsoleRoot,
    response: Response,
    request: &Request<'_>,
    preference: Preference,
    is_on: bool,
) -> Response {
    let name = preference.name();
    let value = u8::from(is_on);
    let attributes = attributes(root, request);
    response.header("Set-Cookie", format!("{name}={value}; {attributes}; Max-Age={PREFERENCE_SECS}"))
}

fn name_for(request: &Request<'_>) -> &'static str {
    if request.secure { SECURE_NAME } else { PLAIN_NAME }
}

fn attributes(root: &ConsoleRoot, request: &Request<'_>) -> String {
    match request.secure {
        true => "Path=/; Secure; HttpOnly; SameSite=Strict".to_owned(),
        false => format!("Path={}; HttpOnly; SameSite=Strict", root.cookie_path()),
    }
}
