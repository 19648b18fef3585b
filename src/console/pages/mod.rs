//! The pages: a file for each group, and what all have in common.

mod account;
mod activity;
mod archive;
mod audit;
mod bucket;
mod change;
mod chart;
mod connect;
mod delete;
mod deleted_count;
mod disks;
mod documents;
mod editor;
mod expiry;
mod find;
mod greyed;
mod home;
mod listing;
mod moving;
mod new_folder;
mod new_keys;
mod object;
mod object_rows;
mod outbound;
mod overview;
mod page_links;
mod pasted;
mod quota_bar;
mod restore;
mod rewind;
mod roles;
mod selected;
mod set;
mod settings;
mod share;
mod state;
mod state_tabs;
mod tagging;
mod undo;
mod user_quota;
mod user_refusal;
mod user_rows;
mod users;
mod walk;

use askama::Template;

use super::address::{self, ConsoleRoot, PagePath};
use super::assets;
use super::cookie::{self, Preference};
use super::form::{self, EnteredFields};
use super::guard;
use super::notification_rules;
use super::s3_client::{Refusal, S3Client, S3Request, target};
use super::sessions::Told;
use super::{Console, Visitor};
use crate::auth::Action;
use crate::s3::{Method, Operation, QueryParams, Request, Response, ResponseBody, uri};

/// The frame of a page.
pub(super) struct Page {
    root: ConsoleRoot,
    user: String,
    /// Whether the user may see the users.
    sees_users: bool,
    /// The page about the server that the navigation leads to, if the user may see one.
    server_page: Option<&'static str>,
    style: String,
    script: String,
    icon: String,
    /// Lists for the browser which scripts belong to this page. No script that was stored, or
    /// brought into the page, knows it.
    nonce: String,
    /// The entry of the navigation to which this page belongs; empty for none.
    section: &'static str,
    /// Whether single letters are keys.
    has_letter_keys: bool,
    /// The outcome of the change that led here.
    told: Option<Told>,
    /// Why the form that was sent is shown again.
    refusal: Option<Refusal>,
}

impl Page {
    /// The frame for a signed-in user.
    pub(super) fn of(console: &Console, visitor: &Visitor) -> Self {
        let user = visitor.identity.name().to_owned();
        let server_page = if visitor.identity.may_administer(Action::AdminGetState) {
            Some("state")
        } else if visitor.identity.may_administer(Action::AdminGetActivity) {
            Some("activity")
        } else {
            None
        };
        let sees_users = visitor.identity.may_administer(Action::AdminListUsers);
        let told = console.sessions.take_told(&visitor.session);
        Self { user, sees_users, server_page, told, ..Self::of_stranger(console) }
    }

    /// The frame for a browser that has not signed in.
    pub(super) fn of_stranger(console: &Console) -> Self {
        let root = &console.root;
        Self {
            root: root.clone(),
            user: String::new(),
            sees_users: false,
            server_page: None,
            style: assets::STYLE.address(root),
            script: assets::SCRIPT.address(root),
            icon: assets::ICON.address(root),
            nonce: guard::nonce(&*console.entropy),
            section: "",
            has_letter_keys: true,
            told: None,
            refusal: None,
        }
    }

    /// The address of a page without parameters.
    fn link(&self, page: &str) -> String {
        self.root.link(page)
    }
}

/// A request for a page of a signed-in user.
struct View<'a> {
    console: &'a Console,
    visitor: &'a Visitor,
    request: &'a Request<'a>,
    /// The parameters of the query, or the fields of the form.
    params: QueryParams,
    /// Why the form was refused, whose page is shown again.
    refusal: Option<Refusal>,
}

impl<'a> View<'a> {
    fn page(&self) -> Page {
        let path = self.console.root.page(&self.request.path);
        let section = path.map_or("", |path| path.section());
        Page {
            section,
            has_letter_keys: cookie::prefers(self.request, Preference::LetterKeys),
            refusal: self.refusal.clone(),
            ..Page::of(self.console, self.visitor)
        }
    }

    /// Lets the page to which a change leads tell its outcome.
    fn tell(&self, outcome: impl Into<String>) {
        self.tell_outcome(Told { text: outcome.into(), undo: None });
    }

    /// Likewise, with a way to take the change back.
    fn tell_outcome(&self, told: Told) {
        self.console.sessions.tell(&self.visitor.session, told);
    }

    /// What was entered in the form that has these hidden fields, if it was refused.
    fn entered(&self, hidden: &[(&str, &str)]) -> EnteredFields<'_> {
        let is_sent = self.refusal.is_some()
            && hidden.iter().all(|(name, value)| self.params.get(name) == Some(*value));
        if is_sent { EnteredFields::of(&self.params) } else { EnteredFields::default() }
    }

    fn s3(&self) -> S3Client<'a> {
        S3Client { service: &self.console.service, visitor: self.visitor, page: self.request }
    }

    /// A parameter that is there and not empty.
    fn given(&self, name: &str) -> Option<&str> {
        self.params.get(name).filter(|value| !value.is_empty())
    }

    fn required(&self, name: &str) -> Result<&str, Refusal> {
        form::required(&self.params, name)
    }

    /// The text of a sub-resource of a bucket.
    ///
    /// # Errors
    /// Errors of S3, such as 404 for none.
    fn document(&self, bucket: &str, name: &str) -> Result<String, Refusal> {
        let request = S3Request { query: &[(name, "")], ..S3Request::default() };
        let reply = self.s3().send(Method::Get, target(Some(bucket), None)?, request)?;
        Ok(String::from_utf8_lossy(&reply.body).into_owned())
    }

    /// A stored document as its form shows it; empty for none.
    ///
    /// # Errors
    /// Errors of S3.
    fn stored_document(&self, bucket: &str, name: &str) -> Result<String, Refusal> {
        match self.document(bucket, name) {
            Ok(text) if name == notification_rules::DOCUMENT => Ok(notification_rules::text(text)),
            Err(refusal) if refusal.status == 404 => Ok(String::new()),
            stored => stored,
        }
    }

    /// The address of a page with parameters. Absent ones are left out.
    fn link(&self, page: &str, params: &[(&str, Option<&str>)]) -> String {
        self.console.root.with_params(page, params)
    }

    /// The folder that the fields name: `at` percent-encoded, since browsers change line ends in
    /// fields, or `prefix`.
    fn folder(&self) -> Result<String, Refusal> {
        match self.given("at") {
            Some(at) => form::decoded(at),
            None => Ok(self.given("prefix").unwrap_or_default().to_owned()),
        }
    }

    /// The key that the address names or, percent-encoded since browsers change line ends in
    /// fields, a form.
    fn key(&self) -> Result<String, Refusal> {
        let key = self.required("key")?;
        match self.request.method {
            Method::Post => form::decoded(key),
            _ => Ok(key.to_owned()),
        }
    }

    /// Whether the user may do this to a bucket or, with a key, to an object. It decides what a
    /// page offers, and nothing else.
    fn may(&self, operation: Operation, bucket: &str, key: Option<&str>) -> bool {
        target(Some(bucket), key).is_ok_and(|target| {
            self.console.service.may_do(&self.visitor.identity, self.request, target, operation)
        })
    }

    /// As [`View::may`], of versions of an object that are named: their permissions are others.
    fn may_to_versions(&self, operation: Operation, bucket: &str, key: &str) -> bool {
        target(Some(bucket), Some(key)).is_ok_and(|target| {
            let identity = &self.visitor.identity;
            self.console.service.may_do_to_versions(identity, self.request, target, operation)
        })
    }

    /// Whether the user may bring a deleted object back: list its versions, and delete the markers
    /// above them. It decides what a page offers, and nothing else.
    fn may_restore(&self, bucket: &str, key: &str) -> bool {
        let may_delete = self.may_to_versions(Operation::DeleteObject, bucket, key);
        may_delete && self.may(Operation::ListObjectVersions, bucket, None)
    }

    /// The URL of an object for clients.
    fn s3_url(&self, bucket: &str, key: &str) -> String {
        format!("{}/{bucket}/{}", self.s3_origin(), uri::encode_path(key))
    }

    /// Scheme, host and port of S3 requests.
    fn s3_origin(&self) -> String {
        let known = self.console.public_url.clone();
        known.unwrap_or_else(|| address::s3_origin(self.request, self.console.s3_port))
    }
}

/// The page for a signed-in user.
///
/// # Errors
/// The refusal to show.
pub(super) fn answer(
    console: &Console,
    visitor: &Visitor,
    path: &PagePath,
    request: &mut Request<'_>,
) -> Result<Response, Refusal> {
    let params = match request.method {
        Method::Post => form::read(request, form::FORM_MAX_BYTES)?,
        _ => form::query(request)?,
    };
    let mut view = View { console, visitor, request, params, refusal: None };
    let refusal = match answer_once(&view, path) {
        Ok(response) => return Ok(response),
        Err(refusal) => refusal,
    };
    view.refusal = Some(refusal.clone());
    let again = page_of_form(&view, path).and_then(Result::ok);
    again.ok_or(refusal)
}

/// The page with the form that was refused, which keeps what was entered; `None` for what no such
/// form leads to.
fn page_of_form(view: &View<'_>, path: &PagePath) -> Option<Result<Response, Refusal>> {
    let is_post = view.request.method == Method::Post;
    match (path, is_post) {
        (PagePath::CreateBucket, true) => Some(home::show(view)),
        (PagePath::DeleteBucket, true) => Some(bucket::show(view)),
        (PagePath::Set, true) => Some(set::show_again(view)),
        (PagePath::Change | PagePath::Share, true) => Some(object::show(view)),
        (PagePath::Editor, true) => Some(editor::show(view)),
        (PagePath::Delete, true) => Some(delete::answer(view)),
        (PagePath::Move, true) => Some(moving::answer(view)),
        (PagePath::Tag, true) => Some(tagging::answer(view)),
        (PagePath::NewFolder, true) => Some(bucket::show(view)),
        (PagePath::Rewind, _) => Some(rewind::show(view)),
        (PagePath::Outbound, true) => Some(outbound::show(view)),
        (PagePath::User, true) => Some(users::show(view)),
        (PagePath::Account, true) => Some(account::show(view)),
        _ => None,
    }
}

fn answer_once(view: &View<'_>, path: &PagePath) -> Result<Response, Refusal> {
    let is_post = view.request.method == Method::Post;
    let root = &view.console.root;
    match (path, is_post) {
        (PagePath::Home, false) => home::show(view),
        (PagePath::SignIn | PagePath::SignOut, false) => Ok(see_other(root.as_str())),
        (PagePath::CreateBucket, true) => home::create(view),
        (PagePath::DeleteBucket, true) => home::delete(view),
        (PagePath::Bucket, false) => bucket::show(view),
        (PagePath::DeletedCount, false) => deleted_count::step(view),
        (PagePath::Settings, false) => settings::show(view),
        (PagePath::Set, true) => set::answer(view),
        (PagePath::Object, false) => object::show(view),
        (PagePath::Change, true) => change::answer(view),
        (PagePath::Delete, true) => delete::answer(view),
        (PagePath::Move, true) => moving::answer(view),
        (PagePath::NewFolder, true) => new_folder::make(view),
        (PagePath::Restore, true) => restore::answer(view),
        (PagePath::Tag, true) => tagging::answer(view),
        (PagePath::Document, false) => documents::show(view),
        (PagePath::Editor, false) => editor::show(view),
        (PagePath::Editor, true) => editor::preview(view),
        (PagePath::Archive, true) => archive::answer(view),
        (PagePath::Rewind, false) => rewind::show(view),
        (PagePath::Rewind, true) => rewind::answer(view),
        (PagePath::Share, true) => share::answer(view),
        (PagePath::Connect, false) => connect::show(view),
        (PagePath::State, false) => state::show(view),
        (PagePath::Activity, false) => activity::show(view),
        (PagePath::Audit, false) => audit::show(view),
        (PagePath::Outbound, false) => outbound::show(view),
        (PagePath::Outbound, true) => outbound::resync(view),
        (PagePath::Users, false) => users::show(view),
        (PagePath::User, true) => users::change(view),
        (PagePath::Account, false) => account::show(view),
        (PagePath::Account, true) => account::change(view),
        (PagePath::NewKeys, false) => new_keys::show(view),
        (PagePath::Unknown, _) => Err(Refusal::not_found()),
        _ => Err(Refusal::new(405, "This page is not for this kind of request.")),
    }
}

/// A redirect after a change, by which a reload repeats nothing.
pub(super) fn see_other(location: &str) -> Response {
    Response::new(303).header("Location", location)
}

/// The form to sign in. `by_provider` adds the way by an OpenID provider.
pub(super) fn sign_in(console: &Console, status: u16, form: SignInForm<'_>, by_provider: bool) -> Response {
    let root = &console.root;
    let next = if root.is_local(form.next) { form.next } else { root.as_str() };
    let provider = by_provider.then(|| root.with_params("oidc", &[("next", Some(next))]));
    let page = SignInPage { page: Page::of_stranger(console), form: SignInForm { next, ..form }, provider };
    html(status, &page.page, &page)
}

/// The page after signing in, which leads on to `next`.
pub(super) fn signed_in(console: &Console, next: &str) -> Response {
    let page = OnwardPage { page: Page::of_stranger(console), heading: "You are signed in", next };
    html(200, &page.page, &page)
}

/// The page for a browser that followed a link of another site, which leads on to `next`.
pub(super) fn from_elsewhere(console: &Console, next: &str) -> Response {
    let page = OnwardPage { page: Page::of_stranger(console), heading: "Opening the console", next };
    html(200, &page.page, &page)
}

/// The response to a path outside of the console, on a listener without S3 requests: the way to the
/// console, or 404.
pub(super) fn elsewhere(root: &ConsoleRoot, request: &Request<'_>) -> Response {
    let is_read = matches!(request.method, Method::Get | Method::Head);
    match request.path == "/" && is_read {
        true => see_other(root.as_str()),
        false => {
            plain_refusal(&Refusal::new(404, "Only the console is here. S3 requests have another port."))
        }
    }
}

/// The page after signing out, which leads on to the OpenID provider.
pub(super) fn signed_out(console: &Console, provider: &str) -> Response {
    let page = SignedOutPage { page: Page::of_stranger(console), provider };
    html(200, &page.page, &page)
}

/// A refusal as a page.
pub(super) fn refusal(page: &Page, refusal: &Refusal) -> Response {
    html(refusal.status, page, &RefusalPage { page, refusal })
}

/// The page at the root of S3 requests for a browser to which the console is not shown. It loads
/// nothing: the console's files may be at another port.
pub(super) fn not_shown(refusal: &Refusal) -> Response {
    match (NotShownPage { refusal }).render() {
        Ok(text) => Response::new(refusal.status)
            .header("Content-Type", "text/html; charset=utf-8")
            .with_body(ResponseBody::Bytes(text.into_bytes())),
        // Writing to memory does not fail.
        Err(_) => Response::new(500),
    }
}

/// A refusal for a script, or in place of the bytes of an object.
pub(super) fn plain_refusal(refusal: &Refusal) -> Response {
    Response::new(refusal.status)
        .header("Content-Type", "text/plain; charset=utf-8")
        .with_body(ResponseBody::Bytes(format!("{}\n", refusal.message).into_bytes()))
}

/// A page with `frame`, whose scripts run. One that shows a refused form again has the status of
/// the refusal.
fn html(status: u16, frame: &Page, template: &impl Template) -> Response {
    let status = frame.refusal.as_ref().map_or(status, |refusal| refusal.status);
    match template.render() {
        Ok(text) => Response::new(status)
            .header("Content-Type", "text/html; charset=utf-8")
            .header("Content-Security-Policy", guard::page_policy(&frame.nonce))
            .with_body(ResponseBody::Bytes(text.into_bytes())),
        // Writing to memory does not fail.
        Err(_) => Response::new(500),
    }
}

/// What the form to sign in shows.
#[derive(Clone, Copy)]
pub(super) struct SignInForm<'a> {
    /// The page that it leads on to.
    pub(super) next: &'a str,
    /// The access key that was entered before.
    pub(super) access_key: &'a str,
    pub(super) message: Option<&'a str>,
}

#[derive(Template)]
#[template(path = "sign_in.html", config = "src/console/askama.toml")]
struct SignInPage<'a> {
    page: Page,
    form: SignInForm<'a>,
    /// The address that leads to the OpenID provider.
    provider: Option<String>,
}

#[derive(Template)]
#[template(path = "not_shown.html", config = "src/console/askama.toml")]
struct NotShownPage<'a> {
    refusal: &'a Refusal,
}

#[derive(Template)]
#[template(path = "onward.html", config = "src/console/askama.toml")]
struct OnwardPage<'a> {
    page: Page,
    heading: &'a str,
    next: &'a str,
}

#[derive(Template)]
#[template(path = "signed_out.html", config = "src/console/askama.toml")]
struct SignedOutPage<'a> {
    page: Page,
    /// The address at which the person signs out of the provider.
    provider: &'a str,
}

#[derive(Template)]
#[template(path = "refusal.html", config = "src/console/askama.toml")]
struct RefusalPage<'a> {
    page: &'a Page,
    refusal: &'a Refusal,
}
