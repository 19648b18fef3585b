//! Signing in and out.

use log::{info, warn};

use super::pages::SignInForm;
use super::s3_client::Refusal;
use super::sessions::SignInPlace;
use super::user_agent::UserAgent;
use super::{Console, ConsoleAccess, Visitor, cookie, form, pages};
use crate::auth::EnteredKey;
use crate::s3::{Request, Response};
use crate::service::client_address;

// One message for both, so that no answer shows which access keys there are.
const WRONG: &str = "The access key or the secret key is wrong.";
const TOO_MANY: &str = "There were too many wrong attempts. Try again in a minute.";
const USED: &str = "This link has been used, or is older than an hour. Sign in with your keys, or restart the server on an empty directory.";

impl Console {
    /// The path and the query of a page that signs in the user of an access key, once and within an
    /// hour. For the operator of the server, whom it may be shown to. `None` for an unknown access
    /// key, and where there is no console.
    pub fn first_link(&self, access_key: &str) -> Option<String> {
        let key = self.authenticator.admit(access_key).filter(|_| self.access != ConsoleAccess::Off)?;
        let token = self.sessions.offer(key, self.clock.instant(), &*self.entropy);
        Some(format!("{}?token={token}", self.root.as_str()))
    }

    /// The form to sign in, which leads on to `next`.
    pub(super) fn sign_in_form(&self, status: u16, next: &str, message: Option<&str>) -> Response {
        self.refused_form(status, SignInForm { next, access_key: "", message })
    }

    /// The form to sign in with what was entered before.
    fn refused_form(&self, status: u16, form: SignInForm<'_>) -> Response {
        pages::sign_in(self, status, form, self.oidc.is_some())
    }

    /// The form to sign in. A token in the address signs in at once.
    pub(super) fn sign_in_page(&self, request: &Request<'_>) -> Result<Response, Refusal> {
        let query = form::query(request)?;
        let Some(token) = query.get("token") else {
            return Ok(self.sign_in_form(401, self.root.as_str(), None));
        };
        match self.sessions.redeem(token, self.clock.instant()) {
            Some(key) => {
                info!("console: {} signed in by the link of the first start", key.access_key());
                Ok(self.start_session(request, key, self.root.as_str()))
            }
            None => Ok(self.sign_in_form(401, self.root.as_str(), Some(USED))),
        }
    }

    /// Checks the keys in a form.
    ///
    /// # Errors
    /// The form cannot be read.
    pub(super) fn sign_in(&self, request: &mut Request<'_>) -> Result<Response, Refusal> {
        let fields = form::read(request, form::SIGN_IN_MAX_BYTES)?;
        let secret_key = fields.get("secret_key").unwrap_or_default();
        let next = fields.get("next").filter(|next| self.root.is_local(next)).unwrap_or(self.root.as_str());
        let access_key = fields.get("access_key").unwrap_or_default().trim();
        let address = client_address(request, &self.is_trusted_proxy);
        if !self.attempts.begin(address, access_key, self.clock.instant()) {
            let form = SignInForm { next, access_key, message: Some(TOO_MANY) };
            return Ok(self.refused_form(429, form).header("Retry-After", "60"));
        }
        let Some(key) = self.authenticator.enter(access_key, secret_key.trim()) else {
            warn!("console: failed attempt to sign in from {address:?}");
            return Ok(self.refused_form(403, SignInForm { next, access_key, message: Some(WRONG) }));
        };
        self.attempts.succeeded(address, access_key, self.clock.instant());
        info!("console: {access_key} signed in from {address:?}");
        Ok(self.start_session(request, key, next))
    }

    /// Ends the session, on the server and in the browser. A person leads on to the OpenID
    /// provider, to sign out there; the page does it, since a form may not lead to another site.
    pub(super) fn sign_out(&self, visitor: &Visitor, request: &Request<'_>) -> Response {
        // On the server first: the browser may keep its cookie.
        self.sessions.end(&visitor.session);
        let response = match self.sign_out_address(&visitor.identity) {
            Some(address) => pages::signed_out(self, &address),
            None => pages::see_other(self.root.as_str()),
        };
        cookie::clear(&self.root, response, request)
    }

    /// A new session, never one that the browser named. The page leads on by itself: a browser
    /// sends a strict cookie only where the way began at this site, which a redirect from a link
    /// elsewhere did not.
    pub(super) fn start_session(&self, request: &Request<'_>, key: EnteredKey, next: &str) -> Response {
        let place = SignInPlace {
            address: client_address(request, &self.is_trusted_proxy),
            agent: UserAgent::of(&request.headers),
        };
        let secret = self.sessions.start(key, place, self.clock.instant(), &*self.entropy);
        cookie::set(&self.root, pages::signed_in(self, next), request, &secret)
    }
}
