//! Locations of redirects. Configured text may have a query and a fragment; only bytes that no URI
//! has are encoded there. A part of a request's key is encoded as a path.

use crate::base::limits::KEY_LEN_MAX_BYTES;
use crate::s3::website::{invalid, text};
use crate::s3::{S3Error, uri};
use crate::xml::Element;

/// The scheme of a location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlScheme {
    /// `http`
    Http,
    /// `https`
    Https,
}

impl UrlScheme {
    /// The scheme as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Reads the element `Protocol` below `element`.
    ///
    /// # Errors
    /// `InvalidRequest` for another scheme; `MalformedXML` for several.
    pub(super) fn parse(element: Element<'_>) -> Result<Option<Self>, S3Error> {
        match text(element, "Protocol")?.as_deref() {
            None => Ok(None),
            Some("http") => Ok(Some(Self::Http)),
            Some("https") => Ok(Some(Self::Https)),
            Some(_) => Err(invalid(
                "Invalid protocol, protocol can be http or https. If not defined the protocol will be selected \
                 automatically.",
            )),
        }
    }
}

/// The address that a request was sent to: the default of locations.
#[derive(Debug, Clone, Copy)]
pub struct WebsiteAddress<'r> {
    pub scheme: UrlScheme,
    /// The host, with a port if it has one.
    pub host: &'r str,
}

impl WebsiteAddress<'_> {
    /// The location of `path`, which is encoded, on `host` or, without one, on the host of the
    /// request.
    pub(super) fn location(self, scheme: Option<UrlScheme>, host: Option<&str>, path: &str) -> String {
        let scheme = scheme.unwrap_or(self.scheme);
        let host = host.unwrap_or(self.host);
        format!("{}://{host}/{path}", scheme.as_str())
    }

    /// The location of the same path and query on another host. `path` begins with a slash, as
    /// sent.
    pub fn moved_to(self, host: &str, scheme: Option<UrlScheme>, path: &str, query: &str) -> String {
        let rest = match query {
            "" => path.to_owned(),
            _ => format!("{path}?{query}"),
        };
        let rest = rest.strip_prefix('/').unwrap_or(&rest);
        self.location(scheme, Some(host), &uri::encode_location(rest))
    }
}

/// The path of the folder `key`, whose slash is still missing. A slash at its start is encoded: two
/// slashes would name a host.
pub fn folder_location(key: &str) -> String {
    match key.strip_prefix('/') {
        Some(rest) => format!("/%2F{}/", uri::encode_path(rest)),
        None => format!("/{}/", uri::encode_path(key)),
    }
}

/// Checks the host of a location. S3 also takes a path after it.
///
/// # Errors
/// `InvalidRequest` for characters that no URI has.
pub(super) fn check_host(host: &str) -> Result<(), S3Error> {
    let mut bytes = host.bytes();
    let is_plain =
        bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte));
    if !host.is_empty() && host.len() <= KEY_LEN_MAX_BYTES && is_plain {
        return Ok(());
    }
    Err(invalid("The provided host name is not well formed."))
}
