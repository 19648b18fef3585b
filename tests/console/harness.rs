//! A console and a browser without scripts.

use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use siltstone::auth::Users;
use siltstone::base::SeededEntropy;
use siltstone::console::{Console, ConsoleAccess, ConsoleRoot, OidcSettings};
use siltstone::ops::{EntityTags, PaddingTimes};
use siltstone::s3::{
    Body, BodyRead, BodySource, Handler as _, Headers, Method, ObjectOwnership, Request, Response,
    ResponseBody, S3Error,
};
use siltstone::service::{AuditLog, ServiceSettings, UserDirectory};

use crate::support::service::{InProcess, ServiceOptions, store_options};
use crate::support::users::{access_key, secret_key, user};

pub(super) const HOST: &str = "127.0.0.1:9000";

/// A response, read to its end.
pub(super) struct Answer {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(super) fn headers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The address of the next page of a list (`next`), or of the one before (`prev`).
    pub(super) fn page_of_list(&self, which: &str) -> Option<String> {
        let mark = format!(" class=\"button\" rel=\"{which}\" href=\"");
        let (_, rest) = self.text().split_once(&mark)?;
        Some(rest.split('"').next()?.replace("&#38;", "&"))
    }

    /// The addresses of all links and forms whose address begins with `start`.
    pub(super) fn links(&self, start: &str) -> Vec<String> {
        let texts = self.text().split(['"']).map(|text| text.replace("&#38;", "&").replace("&amp;", "&"));
        texts.filter(|text| text.starts_with(start)).collect()
    }
}

pub(super) struct Site {
    pub(super) server: InProcess,
    /// The path of the console.
    root: String,
    pub(super) console: Arc<Console>,
}

/// A browser with its cookies.
pub(super) struct Browser<'s> {
    site: &'s Site,
    pub(super) cookie: Option<String>,
    pub(super) peer: SocketAddr,
    pub(super) secure: bool,
}

impl Site {
    /// `owner` is an administrator; `reader` may read the bucket `b`.
    pub(super) fn new() -> Self {
        Self::with_access(ConsoleAccess::On)
    }

    pub(super) fn with_access(access: ConsoleAccess) -> Self {
        Self::start(access, None, None, EntityTags::Md5)
    }

    /// Entity tags that are quick to compute, for large objects.
    pub(super) fn with_quick_tags() -> Self {
        Self::start(ConsoleAccess::On, None, None, EntityTags::Crc)
    }

    pub(super) fn with_directory(directory: Arc<dyn UserDirectory>) -> Self {
        Self::start(ConsoleAccess::On, Some(directory), None, EntityTags::Md5)
    }

    pub(super) fn with_audit_log(log: Arc<dyn AuditLog>) -> Self {
        Self::start(ConsoleAccess::On, None, Some(log), EntityTags::Md5)
    }

    fn start(
        access: ConsoleAccess,
        directory: Option<Arc<dyn UserDirectory>>,
        audit_log: Option<Arc<dyn AuditLog>>,
        entity_tags: EntityTags,
    ) -> Self {
        let server = InProcess::start(ServiceOptions {
            ownership: ObjectOwnership::default(),
            encryption: crate::support::service::EncryptionOptions::default(),
            users: &Self::users("secret of owner"),
            settings: ServiceSettings::default(),
            padding: PaddingTimes::default(),
            entity_tags,
            store: store_options(),
            audit_log,
            directory,
        });
        let service = server.service.clone();
        let authenticator = server.authenticator.clone();
        let entropy = Arc::new(SeededEntropy::new(7));
        let console = Console::new(service, authenticator, server.clock.clone(), entropy, access);
        Self { console: Arc::new(console), server, root: ConsoleRoot::DEFAULT.to_owned() }
    }

    /// The same site behind proxies with that address.
    pub(super) fn behind(self, proxy: IpAddr) -> Self {
        let console = Arc::into_inner(self.console).unwrap().with_trusted_proxies(move |peer| peer == proxy);
        Self { console: Arc::new(console), ..self }
    }

    /// The same site with a listener of its own, beside that of S3 requests on a port.
    pub(super) fn on_own_listener(self, s3_port: u16) -> Self {
        let console = Arc::into_inner(self.console).unwrap().on_own_listener(s3_port);
        Self { console: Arc::new(console), ..self }
    }

    /// The same site with another path, which ends with a slash.
    pub(super) fn below(self, root: &str) -> Self {
        let console = Arc::into_inner(self.console).unwrap().below(root.parse().unwrap());
        Self { console: Arc::new(console), root: root.to_owned(), ..self }
    }

    pub(super) fn with_oidc(self, settings: OidcSettings) -> Self {
        let console = Arc::into_inner(self.console).unwrap().with_oidc(settings);
        Self { console: Arc::new(console), ..self }
    }

    pub(super) fn users(secret_of_owner: &str) -> String {
        let owner = user("owner", &["*"], &["*"]).replace(&secret_key("owner"), secret_of_owner);
        owner
            + &user(
                "reader",
                &["ListBucket", "ListBucketVersions", "GetObject", "GetObjectVersion"],
                &["b", "b/*"],
            )
            + &user("anonymous", &["GetObject"], &["public/*"])
    }

    pub(super) fn replace_users(&self, text: &str) {
        self.server.authenticator.replace(Users::parse(text).unwrap());
    }

    pub(super) fn browser(&self) -> Browser<'_> {
        Browser { site: self, cookie: None, peer: ([127, 0, 0, 1], 50_000).into(), secure: false }
    }

    pub(super) fn signed_in(&self, user: &str) -> Browser<'_> {
        let mut browser = self.browser();
        let answer = browser.sign_in(&access_key(user), &secret_key(user));
        assert_eq!(answer.status, 200, "{}", answer.text());
        browser
    }
}

impl Browser<'_> {
    pub(super) fn sign_in(&mut self, access_key: &str, secret_key: &str) -> Answer {
        self.post("sign-in", &[("access_key", access_key), ("secret_key", secret_key)])
    }

    /// Opens a page below the console, or an absolute address.
    pub(super) fn get(&mut self, page: &str) -> Answer {
        self.send(Method::Get, page, &[], b"")
    }

    /// Submits a form of the console.
    pub(super) fn post(&mut self, page: &str, fields: &[(&str, &str)]) -> Answer {
        self.post_with(page, fields, &[("sec-fetch-site", "same-origin")])
    }

    /// Submits a form with the headers of a browser on some page.
    pub(super) fn post_with(
        &mut self,
        page: &str,
        fields: &[(&str, &str)],
        lines: &[(&str, &str)],
    ) -> Answer {
        let mut lines = lines.to_vec();
        lines.push(("content-type", "application/x-www-form-urlencoded"));
        self.send(Method::Post, page, &lines, encoded(fields).as_bytes())
    }

    /// Sends an S3 request as a script of the console does.
    pub(super) fn s3(&mut self, method: Method, query: &str, lines: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut lines = lines.to_vec();
        lines.push(("sec-fetch-site", "same-origin"));
        self.send(method, &format!("s3?{query}"), &lines, body)
    }

    pub(super) fn put(&mut self, bucket: &str, key: &str, lines: &[(&str, &str)], body: &[u8]) {
        let key = percent_encoding::utf8_percent_encode(key, percent_encoding::NON_ALPHANUMERIC);
        let answer = self.s3(Method::Put, &format!("bucket={bucket}&key={key}"), lines, body);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    /// Submits a form whose response is a stream: its length, and its bytes.
    pub(super) fn stream(&mut self, page: &str, fields: &[(&str, &str)]) -> (u64, Box<dyn BodySource>) {
        let lines =
            [("sec-fetch-site", "same-origin"), ("content-type", "application/x-www-form-urlencoded")];
        match self.request(Method::Post, page, &lines, encoded(fields).as_bytes()).body {
            ResponseBody::Stream { length: Some(length), source } => (length, source),
            _ => panic!("the response is no stream"),
        }
    }

    pub(super) fn send(&mut self, method: Method, page: &str, lines: &[(&str, &str)], body: &[u8]) -> Answer {
        let response = self.request(method, page, lines, body);
        let headers: Vec<_> = response
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value).into_owned()))
            .collect();
        for (name, value) in &headers {
            assert!(!value.contains(['\r', '\n']), "{name}: {value:?}");
            let is_preference = ["siltstone-grid=", "siltstone-keys="].iter().any(|it| value.starts_with(it));
            if name == "Set-Cookie" && !is_preference {
                self.cookie = value.split(';').next().map(str::to_owned);
            }
        }
        Answer { status: response.status, headers, body: read(response.body) }
    }

    fn request(&self, method: Method, page: &str, lines: &[(&str, &str)], body: &[u8]) -> Response {
        let address =
            if page.starts_with('/') { page.to_owned() } else { format!("{}{page}", self.site.root) };
        let (path, query) = address.split_once('?').unwrap_or((&address, ""));
        let mut headers = Headers::default();
        if !lines.iter().any(|(name, _)| *name == "host") {
            headers.push("host", HOST.as_bytes());
        }
        self.cookie.iter().for_each(|cookie| headers.push("cookie", cookie.as_bytes()));
        lines.iter().for_each(|(name, value)| headers.push(name, value.as_bytes()));
        let body = Body {
            content_length: Some(body.len() as u64),
            chunked: false,
            reader: Box::new(InMemory(body.to_vec().into())),
        };
        let request = Request {
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            headers,
            body,
            secure: self.secure,
            peer: Some(self.peer),
            client: None,
        };
        self.site.console.handle(request).complete_deferred().unwrap()
    }
}

/// The body of a form.
fn encoded(fields: &[(&str, &str)]) -> String {
    let encoded = |text: &str| {
        percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
    };
    let pairs = fields.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    pairs.collect::<Vec<_>>().join("&")
}

fn read(body: ResponseBody) -> Vec<u8> {
    match body {
        ResponseBody::Bytes(bytes) => bytes,
        ResponseBody::Stream { mut source, .. } => {
            let mut bytes = Vec::new();
            let mut piece = [0; 4096];
            loop {
                match source.read(&mut piece).unwrap() {
                    0 => return bytes,
                    read => bytes.extend_from_slice(&piece[..read]),
                }
            }
        }
        _ => Vec::new(),
    }
}

struct InMemory(std::collections::VecDeque<u8>);

impl BodyRead for InMemory {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        Ok(self.0.read(buf).unwrap())
    }
}
