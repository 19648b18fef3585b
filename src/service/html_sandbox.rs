//! Answers that browsers open at the origin of the server. A user who may put objects could
//! otherwise run scripts there, with access to everything that a page of that origin may reach.

use crate::s3::Response;

/// Whether browsers run scripts of stored documents that they read without a signature. Websites
/// have hosts of their own and are not affected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HtmlSandbox {
    /// No: every document except passive types gets an origin of its own and runs nothing
    /// (Content Security Policy, "sandbox").
    On,
    /// Yes, unless the console has the same origin.
    Off,
}

/// The types of which browsers run nothing, in lower case. All others are confined, so that a type
/// that some browser takes for a document is no hole. PDF is here since some browsers show none in
/// a sandbox, and their viewers have an origin of their own.
const PASSIVE: [&str; 44] = [
    "application/json",
    "application/octet-stream",
    "application/pdf",
    "audio/aac",
    "audio/flac",
    "audio/mp4",
    "audio/mpeg",
    "audio/ogg",
    "audio/opus",
    "audio/wav",
    "audio/wave",
    "audio/webm",
    "audio/x-flac",
    "audio/x-m4a",
    "audio/x-wav",
    "binary/octet-stream",
    "font/collection",
    "font/otf",
    "font/ttf",
    "font/woff",
    "font/woff2",
    "image/apng",
    "image/avif",
    "image/bmp",
    "image/gif",
    "image/heic",
    "image/heif",
    "image/jpeg",
    "image/jpg",
    "image/jxl",
    "image/png",
    "image/tiff",
    "image/vnd.microsoft.icon",
    "image/webp",
    "image/x-icon",
    "text/csv",
    "text/plain",
    "video/mp4",
    "video/mpeg",
    "video/ogg",
    "video/quicktime",
    "video/webm",
    "video/x-m4v",
    "video/x-matroska",
];

/// The headers that [`confine`] decides.
const NOSNIFF: &str = "X-Content-Type-Options";
const POLICY: &str = "Content-Security-Policy";
const DISPOSITION: &str = "Content-Disposition";

/// Adds the headers that keep an answer from running scripts, and its type from being guessed. A
/// body whose type is no single one, or that has several bodies, comes as a download, too: browsers
/// disagree about what it is.
pub(super) fn confine(mut response: Response) -> Response {
    let kind = DocumentKind::of(&response);
    remove(&mut response, NOSNIFF);
    remove(&mut response, POLICY);
    if kind == DocumentKind::Doubtful {
        remove(&mut response, DISPOSITION);
        response = response.header(DISPOSITION, "attachment");
    }
    let response = response.header(NOSNIFF, "nosniff");
    if kind == DocumentKind::Passive { response } else { response.header(POLICY, "sandbox") }
}

fn remove(response: &mut Response, header: &str) {
    response.headers.retain(|(name, _)| !name.eq_ignore_ascii_case(header));
}

/// What browsers may do with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DocumentKind {
    /// They show it or save it.
    Passive,
    /// They may run scripts of it, or follow where it leads.
    Active,
    /// It depends on the browser.
    Doubtful,
}

impl DocumentKind {
    fn of(response: &Response) -> Self {
        let headers = response.headers.iter();
        let mut types = headers.filter(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        match (types.next(), types.next()) {
            (None, _) => Self::Active,
            (Some((_, value)), None) => Self::of_type(value),
            (Some(_), Some(_)) => Self::Doubtful,
        }
    }

    fn of_type(content_type: &[u8]) -> Self {
        let Some(essence) = essence(content_type) else { return Self::Doubtful };
        let essence = essence.to_ascii_lowercase();
        if essence.starts_with("multipart/") {
            return Self::Doubtful;
        }
        if PASSIVE.contains(&essence.as_str()) { Self::Passive } else { Self::Active }
    }
}

/// Type and subtype of a value that is one media type with well-formed parameters (RFC 9110,
/// section 8.3.1). Browsers take the last one of several types with commas between them, also
/// within what quotes seem to enclose, so a comma is none here.
fn essence(content_type: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(content_type).ok()?;
    if text.contains(',') || !text.is_ascii() {
        return None;
    }
    let (essence, parameters) = text.split_once(';').map_or((text, None), |(it, rest)| (it, Some(rest)));
    let essence = essence.trim_matches(WHITESPACE);
    let (kind, subtype) = essence.split_once('/')?;
    let has_names = is_token(kind) && is_token(subtype);
    (has_names && parameters.is_none_or(are_parameters)).then_some(essence)
}

/// What may stand around types and parameters.
const WHITESPACE: [char; 2] = [' ', '\t'];

/// Whether `text` is a list of parameters. A semicolon within quotes would end one, and so makes it
/// none.
fn are_parameters(text: &str) -> bool {
    text.split(';').all(|parameter| {
        let pair = parameter.trim_matches(WHITESPACE).split_once('=');
        pair.is_some_and(|(name, value)| is_token(name) && (is_token(value) || is_quoted(value)))
    })
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Whether `text` is a quoted string without escapes.
fn is_quoted(text: &str) -> bool {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.is_some_and(|inner| {
        inner.bytes().all(|byte| matches!(byte, b' '..=b'~') && !b"\"\\".contains(&byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(content_type: &str) -> DocumentKind {
        DocumentKind::of_type(content_type.as_bytes())
    }

    #[test]
    fn types_that_browsers_may_run_are_active_however_they_are_written() {
        for active in [
            "text/html",
            " Text/HTML ; charset=utf-8",
            "image/svg+xml",
            "application/xhtml+xml;x=y",
            "text/xml",
            "application/xml",
            "text/xsl",
            "image/anything+xml",
            "text/javascript",
            "application/x-shockwave-flash",
            "model/unheard-of",
        ] {
            assert_eq!(kind(active), DocumentKind::Active, "{active}");
        }
    }

    #[test]
    fn passive_types_are_passive_with_proper_parameters_alone() {
        for passive in [
            "image/png",
            "IMAGE/PNG",
            "application/pdf",
            "text/plain; charset=utf-8",
            "text/plain;a=b; c=\"d e\"",
        ] {
            assert_eq!(kind(passive), DocumentKind::Passive, "{passive}");
        }
        for doubtful in [
            "",
            "html",
            "/",
            "image/",
            "image/png;",
            "image/png;x",
            "image/png;=y",
            "image/png;x=",
            "image/png;x=\"y",
            "image/png;x=\"\\\"\"",
            "image/png, text/html",
            "image/png;x=y, text/html",
            "image/png;x=\"y, text/html\"",
            "image/png;x=y;q=\";, text/html",
            "image/png text/html",
            "image/png\u{b}",
            "image/png/x",
            "image/pn\u{e9}",
            "multipart/x-mixed-replace",
            "multipart/mixed; boundary=b",
        ] {
            assert_eq!(kind(doubtful), DocumentKind::Doubtful, "{doubtful}");
        }
    }

    #[test]
    fn confinement_replaces_what_stands_in_its_place() {
        let stored = Response::new(200)
            .header("content-type", "a/b, text/html")
            .header("content-disposition", "inline")
            .header("content-security-policy", "script-src *");
        for response in [confine(stored), confine(confine(Response::new(200).header("Content-Type", "x")))] {
            for (name, value) in [(NOSNIFF, "nosniff"), (POLICY, "sandbox"), (DISPOSITION, "attachment")] {
                let is_it = |(header, _): &&(_, _)| AsRef::<str>::as_ref(header).eq_ignore_ascii_case(name);
                let found: Vec<_> = response.headers.iter().filter(is_it).collect();
                assert_eq!(found.len(), 1, "{name}");
                assert_eq!(found[0].1, value.as_bytes());
            }
        }
    }

    #[test]
    fn two_types_are_none() {
        let two = Response::new(200).header("Content-Type", "image/png").header("content-type", "text/plain");
        assert_eq!(DocumentKind::of(&two), DocumentKind::Doubtful);
        assert_eq!(DocumentKind::of(&Response::new(204)), DocumentKind::Active);
    }
}
