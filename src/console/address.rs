//! The addresses of the pages.

use std::str::FromStr;

use crate::s3::{Request, uri};

/// The port of S3 requests, if nothing else is said.
const USUAL_PORT: u16 = 9000;

/// The longest path of the console.
const ROOT_MAX_BYTES: usize = 128;

/// The path below which all pages are. It begins and ends with a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleRoot(String);

impl Default for ConsoleRoot {
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

impl FromStr for ConsoleRoot {
    type Err = &'static str;

    /// The root of that path; a slash at its end may be missing. Only characters that no URL has to
    /// encode are allowed, so that the path is the same in links, in cookies and in requests that a
    /// proxy passes on.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "/" {
            return Ok(Self(text.to_owned()));
        }
        let steps = text.strip_prefix('/').ok_or("it does not begin with a slash")?;
        let steps = steps.strip_suffix('/').unwrap_or(steps);
        if !steps.split('/').all(is_step) {
            return Err("its parts are not letters, digits and -._~ alone");
        }
        match text.len() <= ROOT_MAX_BYTES {
            true => Ok(Self(format!("/{steps}/"))),
            false => Err("it is longer than 128 bytes"),
        }
    }
}

/// Whether `step` can be a part of the path of the console: browsers resolve `.` and `..`.
fn is_step(step: &str) -> bool {
    let mut chars = step.chars();
    let is_plain = chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~'));
    is_plain && !matches!(step, "" | "." | "..")
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PagePath {
    /// The buckets, or the form to sign in.
    Home,
    SignIn,
    /// The way to the OpenID provider, and back.
    Oidc,
    OidcCallback,
    SignOut,
    /// A folder of a bucket.
    Bucket,
    /// A step of the count of its deleted objects, for scripts.
    DeletedCount,
    CreateBucket,
    DeleteBucket,
    /// The settings of a bucket.
    Settings,
    /// A change of one setting.
    Set,
    /// One object, with its versions.
    Object,
    /// A change of an object: restoration of a version, tags, metadata.
    Change,
    /// The bytes of an object.
    Content,
    /// Deletion of objects, and the question before it.
    Delete,
    /// The move of objects to other keys, and the question before it.
    Move,
    /// Tags of objects, and the question before they are set.
    Tag,
    /// A new folder.
    NewFolder,
    /// The way back of deleted objects.
    Restore,
    /// The rewind of a folder to a time, and the question before it.
    Rewind,
    /// A document of a bucket as text.
    Document,
    /// The editor of a document of a bucket.
    Editor,
    /// Objects and folders as one download, and the question before it.
    Archive,
    /// A URL for everyone who has it.
    Share,
    /// Lines to paste into clients.
    Connect,
    /// The state of the server.
    State,
    /// Mirrors, webhooks and the remote.
    Outbound,
    /// The last requests.
    Activity,
    /// The last changes of users, permissions and locks.
    Audit,
    /// Sessions and access keys of the user, and changes of them.
    Account,
    /// The users.
    Users,
    /// A change of a user.
    User,
    /// The keys that a change has made, once.
    NewKeys,
    /// S3 requests of scripts.
    S3,
    /// A file of the pages.
    Asset(String),
    Unknown,
}

impl PagePath {
    /// Whether a person can look at it: it answers a GET, and not for a script alone.
    pub(super) fn is_shown(&self) -> bool {
        match self {
            Self::Home
            | Self::Bucket
            | Self::Settings
            | Self::Object
            | Self::Rewind
            | Self::Document
            | Self::Editor
            | Self::Connect
            | Self::State
            | Self::Outbound
            | Self::Activity
            | Self::Audit
            | Self::Account
            | Self::Users => true,
            Self::SignIn
            | Self::Oidc
            | Self::OidcCallback
            | Self::SignOut
            | Self::DeletedCount
            | Self::CreateBucket
            | Self::DeleteBucket
            | Self::Set
            | Self::Change
            | Self::Content
            | Self::Delete
            | Self::Move
            | Self::Tag
            | Self::NewFolder
            | Self::Restore
            | Self::Archive
            | Self::Share
            | Self::User
            | Self::NewKeys
            | Self::S3
            | Self::Asset(_)
            | Self::Unknown => false,
        }
    }

    /// The entry of the navigation to which it belongs; empty for none.
    pub(super) fn section(&self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::State | Self::Outbound | Self::Activity | Self::Audit => "state",
            Self::Account => "account",
            Self::Users | Self::User | Self::NewKeys => "users",
            Self::SignIn
            | Self::Oidc
            | Self::OidcCallback
            | Self::SignOut
            | Self::S3
            | Self::Asset(_)
            | Self::Unknown => "",
            _ => "buckets",
        }
    }

    /// Whether it is on the way to the OpenID provider, or back.
    pub(super) fn is_of_provider(&self) -> bool {
        matches!(self, Self::Oidc | Self::OidcCallback)
    }
}

impl ConsoleRoot {
    /// The root unless another one is set. No bucket has a name that begins like it.
    pub const DEFAULT: &'static str = "/-/console/";

    /// Whether the path is one that no bucket and no other page of the server has.
    pub fn is_reserved(&self) -> bool {
        self.0.starts_with(Self::DEFAULT)
    }

    /// The path.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn without_slash(&self) -> &str {
        self.0.strip_suffix('/').unwrap_or_default()
    }

    /// The path of cookies, which go to all pages.
    pub(super) fn cookie_path(&self) -> &str {
        if self.0 == "/" { &self.0 } else { self.without_slash() }
    }

    /// The address of a page without parameters.
    pub(super) fn link(&self, page: &str) -> String {
        format!("{}{page}", self.0)
    }

    /// The page that a path names; `None` for a path outside of the console.
    pub(super) fn page(&self, path: &str) -> Option<PagePath> {
        let name = match path.strip_prefix(&*self.0) {
            None if path == self.without_slash() => "",
            name => name?,
        };
        Some(match name {
            "" => PagePath::Home,
            "sign-in" => PagePath::SignIn,
            "oidc" => PagePath::Oidc,
            "oidc/callback" => PagePath::OidcCallback,
            "sign-out" => PagePath::SignOut,
            "bucket" => PagePath::Bucket,
            "deleted-count" => PagePath::DeletedCount,
            "create-bucket" => PagePath::CreateBucket,
            "delete-bucket" => PagePath::DeleteBucket,
            "settings" => PagePath::Settings,
            "set" => PagePath::Set,
            "object" => PagePath::Object,
            "change" => PagePath::Change,
            "content" => PagePath::Content,
            "delete" => PagePath::Delete,
            "move" => PagePath::Move,
            "tag" => PagePath::Tag,
            "new-folder" => PagePath::NewFolder,
            "restore" => PagePath::Restore,
            "document" => PagePath::Document,
            "editor" => PagePath::Editor,
            "archive" => PagePath::Archive,
            "rewind" => PagePath::Rewind,
            "share" => PagePath::Share,
            "connect" => PagePath::Connect,
            "state" => PagePath::State,
            "outbound" => PagePath::Outbound,
            "activity" => PagePath::Activity,
            "audit" => PagePath::Audit,
            "account" => PagePath::Account,
            "users" => PagePath::Users,
            "user" => PagePath::User,
            "new-keys" => PagePath::NewKeys,
            "s3" => PagePath::S3,
            name => match name.strip_prefix("assets/") {
                Some(name) => PagePath::Asset(name.to_owned()),
                None => PagePath::Unknown,
            },
        })
    }

    /// Whether a request, by its method and target, shows a page or signs in or out: it writes
    /// nothing to the store, waits for no other server and sends no bytes of objects beyond a
    /// preview.
    pub(super) fn is_overview(&self, method: &[u8], target: &[u8]) -> bool {
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        let page = std::str::from_utf8(path).ok().and_then(|path| self.page(path));
        let is_read = matches!(method, b"GET" | b"HEAD");
        match page {
            Some(PagePath::SignIn | PagePath::SignOut) => is_read || method == b"POST",
            // An OpenID provider's pages need that; a rewind walks all versions of a folder, and so
            // does a count, a step after the other.
            None
            | Some(
                PagePath::Oidc
                | PagePath::OidcCallback
                | PagePath::S3
                | PagePath::Content
                | PagePath::DeletedCount
                | PagePath::Rewind,
            ) => false,
            Some(_) => is_read,
        }
    }

    /// The address of a page with parameters. Absent ones are left out.
    pub(super) fn with_params(&self, page: &str, params: &[(&str, Option<&str>)]) -> String {
        let query = uri::encode_pairs(params.iter().filter_map(|(name, value)| Some((*name, (*value)?))));
        if query.is_empty() { self.link(page) } else { format!("{}{page}?{query}", self.0) }
    }

    /// Whether a redirect may lead there: to a page of the console that is shown, at this origin.
    /// The path names a page as it stands, without any encoding that a browser could resolve.
    pub(super) fn is_local(&self, address: &str) -> bool {
        let path = address.split(['?', '#']).next().unwrap_or_default();
        address.starts_with(&*self.0)
            && address.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\\"<>".contains(&byte))
            && self.page(path).is_some_and(|page| page.is_shown())
    }
}

/// Scheme, host and port by which the browser reached the server.
pub(super) fn origin(request: &Request<'_>) -> String {
    let scheme = if request.secure { "https" } else { "http" };
    format!("{scheme}://{}", request.headers.get_str("host").unwrap_or_default())
}

/// The same of S3 requests: the page's, or with `port` if the console has a listener of its
/// own.
pub(super) fn s3_origin(request: &Request<'_>, port: Option<u16>) -> String {
    port.map_or_else(|| origin(request), |port| with_port(request, port))
}

/// Scheme and host by which the browser reached the server, with another port.
pub(super) fn with_port(request: &Request<'_>, port: u16) -> String {
    let page = origin(request);
    let usual = if request.secure { 443 } else { 80 };
    let host = match page.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => &*page,
    };
    if port == usual { host.to_owned() } else { format!("{host}:{port}") }
}

/// The port by which the browser reached the server, as far as it is known.
pub(super) fn port(request: &Request<'_>) -> u16 {
    let named = request.headers.get_str("host").and_then(|host| host.rsplit_once(':'));
    named.and_then(|(_, port)| port.parse().ok()).unwrap_or(USUAL_PORT)
}

/// The page that was asked for, to return to after signing in.
pub(super) fn of_request(request: &Request<'_>) -> String {
    match request.query.is_empty() {
        true => request.path.clone(),
        false => format!("{}?{}", request.path, request.query),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_below_one_path() {
        for (path, page) in [
            ("/-/console", Some(PagePath::Home)),
            ("/-/console/", Some(PagePath::Home)),
            ("/-/console/bucket", Some(PagePath::Bucket)),
            ("/-/console/bucket/", Some(PagePath::Unknown)),
            ("/-/console/assets/a.css", Some(PagePath::Asset("a.css".to_owned()))),
            ("/-/console/oidc/callback", Some(PagePath::OidcCallback)),
            ("/-/consoles", None),
            ("/-/metrics", None),
            ("/b/-/console/", None),
        ] {
            assert_eq!(ConsoleRoot::default().page(path), page, "{path}");
        }
    }

    #[test]
    fn pages_are_overviews_and_changes_and_contents_are_not() {
        for line in [
            "GET /-/console",
            "HEAD /-/console/",
            "GET /-/console/?token=a",
            "GET /-/console/bucket?name=b",
            "GET /-/console/assets/a/style.css",
            "GET /-/console/state",
            "GET /-/console/outbound",
            "GET /-/console/activity?user=a",
            "GET /-/console/audit",
            "POST /-/console/sign-in",
            "POST /-/console/sign-out",
        ] {
            let (method, target) = line.split_once(' ').unwrap();
            assert!(ConsoleRoot::default().is_overview(method.as_bytes(), target.as_bytes()), "{line}");
        }
        for line in [
            "POST /-/console/delete",
            "POST /-/console/move",
            "POST /-/console/new-folder",
            "POST /-/console/restore",
            "POST /-/console/tag",
            "POST /-/console/outbound",
            "POST /-/console/account",
            "POST /-/console/archive",
            "GET /-/console/content?bucket=b&key=k",
            "GET /-/console/s3?bucket=b",
            "PUT /-/console/s3?bucket=b&key=k",
            "PUT /-/console/sign-in",
            "GET /-/console/oidc",
            "GET /-/console/oidc/callback?code=a",
            "GET /-/consoles",
            "GET /b/-/console/",
            "GET http://a/-/console/",
            "GET ",
        ] {
            let (method, target) = line.split_once(' ').unwrap();
            assert!(!ConsoleRoot::default().is_overview(method.as_bytes(), target.as_bytes()), "{line}");
        }
    }

    #[test]
    fn another_root_is_a_plain_path() {
        let parsed = |text: &str| text.parse::<ConsoleRoot>().map(|root| root.0);
        for (text, root) in [("/", "/"), ("/ui", "/ui/"), ("/ui/", "/ui/"), ("/a/B_1.~-/c/", "/a/B_1.~-/c/")]
        {
            assert_eq!(parsed(text).as_deref(), Ok(root));
        }
        let long = format!("/{}", "a".repeat(128));
        for text in [
            "",
            "ui",
            "//",
            "/ui//",
            "//ui",
            "/a//b",
            "/./",
            "/a/..",
            "/a b",
            "/a%20b",
            "/ü",
            "/a;b",
            "/a?b",
            "/a#b",
            "/a\\b",
            "/a\"b",
            "/a<b",
            "/a\r\nb",
            "/a,b",
            "https://a/",
            &long,
        ] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_root_has_its_pages_alone() {
        let root: ConsoleRoot = "/box/ui".parse().unwrap();
        assert_eq!(root.page("/box/ui"), Some(PagePath::Home));
        assert_eq!(root.page("/box/ui/state"), Some(PagePath::State));
        for path in ["/", "/box", "/box/", "/box/uix", "/-/console/", "/box/ui-/state"] {
            assert_eq!(root.page(path), None, "{path}");
        }
        assert!(root.is_local("/box/ui/state") && !root.is_local("/-/console/") && !root.is_local("/box/ui"));
        assert_eq!((root.cookie_path(), root.is_reserved()), ("/box/ui", false));
        let root: ConsoleRoot = "/".parse().unwrap();
        assert_eq!(root.page("/"), Some(PagePath::Home));
        assert_eq!(root.page("/state"), Some(PagePath::State));
        assert!(
            root.is_local("/state")
                && !root.is_local("//evil.example/")
                && !root.is_local("/\\evil.example/")
        );
        assert_eq!(root.cookie_path(), "/");
        assert!(
            ["/-/console", "/-/console/box"].map(|text| text.parse::<ConsoleRoot>().unwrap().is_reserved())
                == [true; 2]
        );
    }

    #[test]
    fn values_are_encoded_and_absent_ones_left_out() {
        assert_eq!(ConsoleRoot::default().with_params("state", &[("x", None)]), "/-/console/state");
        assert_eq!(
            ConsoleRoot::default()
                .with_params("bucket", &[("name", Some("b")), ("prefix", Some("a/ &=#+ü")), ("after", None)]),
            "/-/console/bucket?name=b&prefix=a%2F%20%26%3D%23%2B%C3%BC"
        );
    }

    #[test]
    fn redirects_stay_in_the_console() {
        for address in ["/-/console/", "/-/console/bucket?name=b&prefix=a%2F%2F.."] {
            assert!(ConsoleRoot::default().is_local(address), "{address}");
        }
        for address in [
            "",
            "/",
            "//evil.example/-/console/",
            "https://evil.example/-/console/",
            "/-/console",
            "/-/console/../../b/page.html",
            "/-/console/%2e%2e/%2e%2e/b/page.html",
            "/-/console/%252e%252e/b",
            "/-/console/state/%2e%2e/../b",
            "/-/console/bucket;x",
            "/-/console/b%75cket?name=b",
            "/-/console/nowhere",
            "/-/console/assets/console.js",
            "/-/console/content?bucket=b&key=k",
            "/-/console/s3?bucket=b",
            "/-/console/sign-out",
            "/-/console/delete",
            "/-/console/move",
            "/-/console/tag",
            "/-/console//evil.example",
            "/-/console/\\evil.example",
            "/-/console/ x",
            "/-/console/\r\nSet-Cookie: a=b",
        ] {
            assert!(!ConsoleRoot::default().is_local(address), "{address}");
        }
    }
}
