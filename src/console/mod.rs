//! Floor 6: the console, pages for browsers below `/-/console`.
//!
//! A browser signs in once and gets a session (`sessions`), which stands for a key of the users
//! file. The pages are made of responses to S3 requests that are handled as its user's
//! (`s3_client`), and a page's scripts send S3 requests the same way (`gateway`). So the console
//! has no authority of its own: permissions, limits and records are the S3 API's.
//!
//! | Files | Job |
//! |---|---|
//! | `mod`, `address` | the way of a request; the paths of the pages |
//! | `proxies` | what a trusted proxy says about the browser |
//! | `guard` | the checks before anything else: plain HTTP, requests from other origins; the headers of all responses |
//! | `sessions`, `user_agent`, `cookie`, `sign_in`, `oidc`, `attempts` | who the browser acts for |
//! | `gateway`, `summed_body`, `s3_client`, `objects` | S3 requests of scripts, of pages; listings and objects as values |
//! | `pages`, `templates`, `text`, `shown_time` | the pages, their texts and their times |
//! | `selected_object` | an object as a form names it |
//! | `selection` | the objects, versions and folders that a form selects |
//! | `archive` | several objects as one download, a zip or a tar archive |
//! | `rewind` | the changes by which a prefix returns to a time |
//! | `rules`, `lifecycle_rules` | rules of forms as parts of documents; the rules of a lifecycle document, one by one |
//! | `document_words`, `text_diff` | the documents of a bucket in words; what an edit of one changes |
//! | `copy` | copies of objects and versions |
//! | `form`, `pair_rows`, `quota_fields`, `seen` | the fields of forms; rows of names and values; the limits of a quota; what a form showed |
//! | `grant_words` | grants in words |
//! | `tickets` | new keys, until they are shown |
//! | `assets` | the style sheet and the scripts |
//!
//! Forms work without scripts. Requests that change something come from forms or scripts of the
//! console's own origin alone.

mod address;
mod archive;
mod assets;
mod attempts;
mod cookie;
mod copy;
mod document_words;
mod door;
mod form;
mod gateway;
mod grant_words;
mod guard;
mod lifecycle_rules;
mod notification_rules;
mod objects;
mod oidc;
mod pages;
mod pair_rows;
mod proxies;
mod qr_code;
mod quota_fields;
mod rewind;
mod rules;
mod s3_client;
mod seen;
mod selected_object;
mod selection;
mod sessions;
mod shown_time;
mod sign_in;
mod summed_body;
mod text;
mod text_diff;
mod tickets;
mod user_agent;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::auth::{Authenticator, EnteredKey, Identity};
use crate::base::{Clock, Entropy};
pub use door::ConsoleDoor;
pub use oidc::OidcSettings;

use crate::s3::{Handler, Method, Request, Response, S3Error};
use crate::service::{Service, TrustedProxy};
pub use address::ConsoleRoot;
use address::PagePath;
use attempts::Attempts;
use oidc::Oidc;
use pages::Page;
use s3_client::Refusal;
use sessions::{SessionId, SessionKey, SessionUse, Sessions};
use tickets::Tickets;

/// The header of requests that a page makes by itself again and again. They do not keep a session
/// from ending that nobody uses.
const REFRESH: &str = "x-console-refresh";

/// The settings of the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsoleAccess {
    /// There is no console.
    Off,
    /// Browsers may use it over TLS, or on the server's host.
    On,
    /// Browsers may also use it over plain HTTP, where everyone on the way can read the session.
    Insecure,
}

/// The handler of all requests: those for the console, and S3 requests, which it passes on or, on a
/// listener of its own, does not know.
pub struct Console {
    service: Arc<Service>,
    authenticator: Arc<Authenticator>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    access: ConsoleAccess,
    sessions: Sessions,
    attempts: Attempts,
    tickets: Tickets,
    oidc: Option<Oidc>,
    is_trusted_proxy: TrustedProxy,
    /// The port of S3 requests, if the console has a listener of its own.
    s3_port: Option<u16>,
    root: ConsoleRoot,
    /// Scheme, host and port of S3 requests as clients know them, if that is not where browsers
    /// reach the console.
    public_url: Option<String>,
    /// The address of the console as browsers know it, if that is another.
    url: Option<String>,
}

/// A signed-in browser.
struct Visitor {
    session: SessionId,
    key: EnteredKey,
    identity: Identity,
}

impl Handler for Console {
    fn handle(&self, mut request: Request<'_>) -> Response {
        let led = if self.s3_port.is_none() { self.lead(&mut request, None) } else { None };
        if let Some(response) = led {
            return response;
        }
        match self.root.page(&request.path) {
            Some(page) if self.access != ConsoleAccess::Off && !self.is_of_bucket(&request) => {
                guard::protect(self.answer(&page, request))
            }
            _ if self.s3_port.is_some() => guard::protect(pages::elsewhere(&self.root, &request)),
            _ if self.access != ConsoleAccess::Off => self.service.handle_beside_console(request),
            _ => self.service.handle(request),
        }
    }

    fn overloaded(&self, request: Option<&Request<'_>>) -> Response {
        Service::confined(self.service.overloaded(request))
    }

    fn refused(&self, error: S3Error) -> Response {
        Service::confined(self.service.refused(error))
    }

    fn uses_reserve(&self, method: &[u8], target: &[u8]) -> bool {
        self.access != ConsoleAccess::Off && self.root.is_overview(method, target)
    }

    fn note_queue_wait(&self, waited: Duration) {
        self.service.note_queue_wait(waited);
    }
}

impl Console {
    /// A console before `service`, for the users of `authenticator`. `entropy` must be fit for
    /// secrets.
    pub fn new(
        service: Arc<Service>,
        authenticator: Arc<Authenticator>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        access: ConsoleAccess,
    ) -> Self {
        Self {
            service,
            authenticator,
            clock,
            entropy,
            access,
            sessions: Sessions::default(),
            attempts: Attempts::default(),
            tickets: Tickets::default(),
            oidc: None,
            is_trusted_proxy: Box::new(|_| false),
            s3_port: None,
            root: ConsoleRoot::default(),
            public_url: None,
            url: None,
        }
    }

    /// The same console with the addresses by which clients and browsers reach the server:
    /// `public_url` without a path for S3 requests, in links to share and in lines to paste, and
    /// `url` for the console.
    #[must_use]
    pub fn known_as(self, public_url: Option<String>, url: Option<String>) -> Self {
        Self { public_url, url, ..self }
    }

    /// The same console for a listener of its own, which knows no other paths. Links to share and
    /// lines to paste name the listener of S3 requests: the host of the page, with `s3_port`.
    #[must_use]
    pub fn on_own_listener(self, s3_port: u16) -> Self {
        Self { s3_port: Some(s3_port), ..self }
    }

    /// The same console, which takes scheme, host and sender of a request from the headers of
    /// proxies whose addresses pass `is_trusted`.
    #[must_use]
    pub fn with_trusted_proxies(self, is_trusted: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self { is_trusted_proxy: Box::new(is_trusted), ..self }
    }

    /// Whether a path belongs to a bucket or a website that the host names. A listener of its own
    /// has none.
    fn is_of_bucket(&self, request: &Request<'_>) -> bool {
        self.s3_port.is_none() && self.service.is_host_of_bucket(request)
    }

    /// The same console below another path than [`ConsoleRoot::DEFAULT`]. Beside S3 requests it
    /// must be a reserved one ([`ConsoleRoot::is_reserved`]): of others, buckets could no longer be
    /// reached.
    #[must_use]
    pub fn below(self, root: ConsoleRoot) -> Self {
        Self { root, ..self }
    }

    fn answer(&self, page: &PagePath, mut request: Request<'_>) -> Response {
        // First: the checks are about the request that the browser sent to the proxy.
        proxies::restate(&mut request, &self.is_trusted_proxy);
        // The page of a refusal has them, too; they hold nothing of the store.
        if let PagePath::Asset(name) = page
            && matches!(request.method, Method::Get | Method::Head)
        {
            return assets::response(name);
        }
        if let Err(refusal) = guard::check(&request, self.access) {
            return pages::refusal(&Page::of_stranger(self), &refusal);
        }
        // A browser that signs in acts for nobody yet, whatever session it has.
        let signs_in = page.is_of_provider() || (*page == PagePath::SignIn && request.method == Method::Post);
        let visitor = if signs_in { None } else { self.visitor(&request) };
        let Some(visitor) = visitor else { return self.answer_stranger(page, &mut request) };
        match page {
            PagePath::SignOut if request.method == Method::Post => self.sign_out(&visitor, &request),
            PagePath::S3 => gateway::handle(self, &visitor, request),
            PagePath::Content => gateway::content(self, &visitor, request),
            page => {
                let outcome = pages::answer(self, &visitor, page, &mut request);
                outcome.unwrap_or_else(|refusal| pages::refusal(&Page::of(self, &visitor), &refusal))
            }
        }
    }

    /// The signed-in user of the browser. Cookies of no session are left out, and with two sessions
    /// none counts: an attacker who wants this browser to act could have set one of them.
    fn visitor(&self, request: &Request<'_>) -> Option<Visitor> {
        let mut visitors = cookie::sessions(request).filter_map(|session| self.visitor_of(session, request));
        let first = visitors.next()?;
        visitors.all(|other| other.session == first.session).then_some(first)
    }

    /// The user of a session. One whose key no longer counts has ended.
    fn visitor_of(&self, session: SessionId, request: &Request<'_>) -> Option<Visitor> {
        let used = match request.headers.get(REFRESH) {
            Some(_) => SessionUse::ByPage,
            None => SessionUse::ByPerson,
        };
        let SessionKey { key, number } = self.sessions.key(&session, used, self.clock.instant())?;
        let Some(identity) = self.authenticator.identity_of(&key, request) else {
            self.sessions.end(&session);
            return None;
        };
        Some(Visitor { session, key, identity: identity.in_console_session(number) })
    }

    fn answer_stranger(&self, page: &PagePath, request: &mut Request<'_>) -> Response {
        // Browsers keep strict cookies back when another site leads here. A page of the console
        // that leads on to the same address gets them, if there are any.
        let address = address::of_request(request);
        let has_token = *page == PagePath::Home && request.query.contains("token=");
        let is_new =
            request.method == Method::Get && !has_token && cookie::sessions(request).next().is_none();
        if is_new && guard::is_from_another_site(&request.headers) && self.root.is_local(&address) {
            return pages::from_elsewhere(self, &address);
        }
        let outcome = match (page, &request.method) {
            (PagePath::SignIn, Method::Post) => self.sign_in(request),
            (PagePath::Home | PagePath::SignIn, Method::Get) => self.sign_in_page(request),
            (PagePath::S3 | PagePath::Content | PagePath::DeletedCount, _) => Err(Refusal::signed_out()),
            (PagePath::Oidc, Method::Get) => self.begin_oidc(request),
            (PagePath::OidcCallback, Method::Get) => self.end_oidc(request),
            (_, Method::Get) => Ok(self.sign_in_form(401, &address, None)),
            _ => Err(Refusal::signed_out()),
        };
        outcome.unwrap_or_else(|refusal| pages::refusal(&Page::of_stranger(self), &refusal))
    }
}
