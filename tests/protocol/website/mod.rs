//! Websites of buckets: their configurations, and the requests that they answer.

mod access;
mod configuration;
mod errors;
mod hostile;
mod pages;
mod redirects;

use super::*;

const INDEX: &str = "<IndexDocument><Suffix>index.html</Suffix></IndexDocument>";
const WITH_ERROR: &str = "<IndexDocument><Suffix>index.html</Suffix></IndexDocument>\
    <ErrorDocument><Key>error.html</Key></ErrorDocument>";
/// The website of the bucket `b`.
const HOST: &str = "b.web.example";

fn document(inner: &str) -> String {
    format!("<WebsiteConfiguration xmlns=\"{NAMESPACE}\">{inner}</WebsiteConfiguration>")
}

/// A server whose bucket `b` has a website. The anonymous user may do these actions in all of it.
fn site(configuration: &str, actions: &[&str]) -> Server {
    let server = Server::with_grants(&[("anonymous", actions, &["b", "b/*"])]);
    server.set_website(configuration);
    server
}

impl Server {
    /// Gives the bucket `b` a website.
    fn set_website(&self, inner: &str) {
        let answer = self.request("PUT", "/b?website").body(document(inner).as_bytes()).send();
        assert_eq!((answer.status, answer.text()), (200, ""), "{answer:?}");
    }

    /// A request of a browser to the website of `b`.
    fn browse(&self, method: &str, target: &str) -> Asked<'_> {
        self.request(method, target).host(HOST).anonymous()
    }

    fn visit(&self, target: &str) -> Answer {
        self.browse("GET", target).send()
    }
}

impl Answer {
    /// Checks that this is the page of an error.
    fn is_page(&self, status: u16, code: &str) -> &Self {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("Content-Type"), Some("text/html; charset=utf-8"));
        assert_eq!(self.header("p-error-code"), Some(code));
        assert!(self.text().starts_with(&format!("<html>\n<head><title>{status} ")), "{self:?}");
        assert!(self.text().contains(&format!("<li>Code: {code}</li>")), "{self:?}");
        let id = self.header("x-request-id").unwrap();
        assert!(self.text().contains(&format!("<li>RequestId: {id}</li>")), "{self:?}");
        self
    }

    /// Checks that this is a redirect.
    fn is_redirect(&self, status: u16, location: &str) -> &Self {
        let shown = (self.status, self.header("Location"), self.text());
        assert_eq!(shown, (status, Some(location), ""), "{self:?}");
        self
    }
}
