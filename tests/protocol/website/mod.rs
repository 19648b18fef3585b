//! Websites of buckets: their configurations, and the requests that they answer.

mod configuration;

use super::*;

const INDEX: &str = "<IndexDocument><Suffix>index.html</Suffix></IndexDocument>";

fn document(inner: &str) -> String {
    format!("<WebsiteConfiguration xmlns=\"{NAMESPACE}\">{inner}</WebsiteConfiguration>")
}

impl Server {
    /// Gives the bucket `b` a website.
    fn set_website(&self, inner: &str) {
        let answer = self.request("PUT", "/b?website").body(document(inner).as_bytes()).send();
        assert_eq!((answer.status, answer.text()), (200, ""), "{answer:?}");
    }
}
