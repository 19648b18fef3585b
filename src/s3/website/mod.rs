//! Websites of buckets: the configuration (S3 API reference, PutBucketWebsite), and what it makes
//! of a request (S3 user guide, "Hosting a static website using Amazon S3").

mod error_page;
mod redirect;
mod rule;

pub use error_page::{error_page, is_for_error_document, may_be_folder, name_error};
pub use redirect::{UrlScheme, WebsiteAddress, folder_location};
pub use rule::RoutingRule;

use crate::base::limits::{KEY_LEN_MAX_BYTES, ROUTING_RULES_MAX};
use crate::s3::elements::{check_children, child, invalid, missing, text};
use crate::s3::{S3Error, XmlConfiguration};
use crate::xml::{Element, Writer};

/// The website of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebsiteConfiguration {
    /// All requests are redirected to another host.
    RedirectAll {
        /// The host, and a path below it if it has a `/`.
        host: String,
        /// The scheme; `None` for the request's.
        scheme: Option<UrlScheme>,
    },
    /// Objects are served.
    Pages(WebsitePages),
}

/// A website of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebsitePages {
    /// The last part of the keys that are served for folders.
    index_suffix: String,
    /// The key of the object that is served with errors.
    error_key: Option<String>,
    /// The rules, in order.
    rules: Vec<RoutingRule>,
}

impl WebsiteConfiguration {
    /// A website of these documents, with the routing rules of `old`.
    ///
    /// # Errors
    /// As of [`XmlConfiguration::parse`].
    pub fn of_documents(index: &str, error: Option<&str>, old: Option<&Self>) -> Result<Self, S3Error> {
        let rules = match old {
            Some(Self::Pages(pages)) => pages.rules.clone(),
            Some(Self::RedirectAll { .. }) | None => Vec::new(),
        };
        let index_suffix = index.to_owned();
        let error_key = error.map(str::to_owned);
        Self::Pages(WebsitePages { index_suffix, error_key, rules }).checked()
    }

    fn parse_redirect_all(element: Element<'_>) -> Result<Self, S3Error> {
        check_children(element, &["HostName", "Protocol"])?;
        let host = text(element, "HostName")?.ok_or_else(|| missing("HostName"))?;
        if host.is_empty() {
            return Err(invalid(
                "A host name must be provided to redirect all requests (e.g. \"example.com\").",
            ));
        }
        redirect::check_host(&host)?;
        Ok(Self::RedirectAll { host, scheme: UrlScheme::parse(element)? })
    }
}

impl XmlConfiguration for WebsiteConfiguration {
    const ROOT: &'static str = "WebsiteConfiguration";

    /// Reads the root element.
    ///
    /// # Errors
    /// `MalformedXML` for a missing, repeated or unknown element; `InvalidArgument` or
    /// `InvalidRequest` for a value or a combination that S3 refuses.
    fn parse(root: Element<'_>) -> Result<Self, S3Error> {
        check_children(root, &["IndexDocument", "ErrorDocument", "RedirectAllRequestsTo", "RoutingRules"])?;
        match child(root, "RedirectAllRequestsTo")? {
            Some(_) if root.children().count() > 1 => Err(S3Error::invalid_argument(
                "RedirectAllRequestsTo",
                "not null",
                "RedirectAllRequestsTo cannot be provided in conjunction with other Routing Rules.",
            )),
            Some(element) => Self::parse_redirect_all(element),
            None => WebsitePages::parse(root).map(Self::Pages),
        }
    }

    fn render(&self, document: &mut Writer) {
        match self {
            Self::RedirectAll { host, scheme } => document.element("RedirectAllRequestsTo", |to| {
                to.leaf("HostName", host);
                leaf(to, "Protocol", scheme.map(UrlScheme::as_str));
            }),
            Self::Pages(pages) => pages.render(document),
        }
    }
}

impl WebsiteConfiguration {
    /// Checks what is refused of a new configuration alone, since an earlier one may have it.
    ///
    /// # Errors
    /// `InvalidRequest` for a redirect that changes nothing.
    pub fn check_new(&self) -> Result<(), S3Error> {
        let Self::Pages(pages) = self else { return Ok(()) };
        match pages.rules.iter().all(RoutingRule::leads_elsewhere) {
            true => Ok(()),
            false => Err(invalid(
                "The Redirect of a RoutingRule must change the address: a Protocol, a HostName, or another key. Browsers would ask \
                 for the same address again and again.",
            )),
        }
    }
}

impl WebsitePages {
    fn parse(root: Element<'_>) -> Result<Self, S3Error> {
        Ok(Self { index_suffix: index_suffix(root)?, error_key: error_key(root)?, rules: rules(root)? })
    }

    fn render(&self, document: &mut Writer) {
        document.element("IndexDocument", |index| index.leaf("Suffix", &self.index_suffix));
        if let Some(key) = &self.error_key {
            document.element("ErrorDocument", |error| error.leaf("Key", key));
        }
        if !self.rules.is_empty() {
            document.element("RoutingRules", |rules| {
                for rule in &self.rules {
                    rule.render(rules);
                }
            });
        }
    }

    /// The key of the object that is served for a request for `key`: the index document's for
    /// the root and for a folder, whose key ends with a slash.
    pub fn page_key(&self, key: &str) -> String {
        if is_folder(key) { format!("{key}{}", self.index_suffix) } else { key.to_owned() }
    }

    /// The key of the index document of the folder that a key without a slash at its end may mean.
    pub fn index_below(&self, key: &str) -> Option<String> {
        (!is_folder(key)).then(|| format!("{key}/{}", self.index_suffix))
    }

    /// The last part of the keys of index documents.
    pub fn index_suffix(&self) -> &str {
        &self.index_suffix
    }

    /// The key of the error document.
    pub fn error_key(&self) -> Option<&str> {
        self.error_key.as_deref()
    }

    /// The first rule that redirects a request for `key` before its object is looked up.
    pub fn rule_before(&self, key: &str) -> Option<&RoutingRule> {
        self.rules.iter().find(|rule| rule.applies(key, None))
    }

    /// The first rule that redirects a request for `key` which would be answered with the error
    /// `status`.
    pub fn rule_after(&self, key: &str, status: u16) -> Option<&RoutingRule> {
        self.rules.iter().find(|rule| rule.applies(key, Some(status)))
    }
}

fn is_folder(key: &str) -> bool {
    key.is_empty() || key.ends_with('/')
}

fn index_suffix(root: Element<'_>) -> Result<String, S3Error> {
    let element = child(root, "IndexDocument")?.ok_or_else(|| {
        S3Error::invalid_argument(
            "IndexDocument",
            "null",
            "A value for IndexDocument Suffix must be provided if RedirectAllRequestsTo is empty",
        )
    })?;
    check_children(element, &["Suffix"])?;
    match text(element, "Suffix")? {
        Some(suffix) if !suffix.is_empty() && !suffix.contains('/') && suffix.len() <= KEY_LEN_MAX_BYTES => {
            Ok(suffix)
        }
        other => Err(S3Error::invalid_argument(
            "IndexDocument",
            other.as_deref().unwrap_or_default(),
            "The IndexDocument Suffix is not well formed",
        )),
    }
}

fn error_key(root: Element<'_>) -> Result<Option<String>, S3Error> {
    let Some(element) = child(root, "ErrorDocument")? else { return Ok(None) };
    check_children(element, &["Key"])?;
    let key = text(element, "Key")?.ok_or_else(|| missing("Key"))?;
    if key.is_empty() || key.len() > KEY_LEN_MAX_BYTES {
        let message = "The ErrorDocument Key is not well formed";
        return Err(S3Error::invalid_argument("ErrorDocument", &key, message));
    }
    Ok(Some(key))
}

fn rules(root: Element<'_>) -> Result<Vec<RoutingRule>, S3Error> {
    let Some(element) = child(root, "RoutingRules")? else { return Ok(Vec::new()) };
    check_children(element, &["RoutingRule"])?;
    match element.children().count() {
        0 => Err(missing("RoutingRule")),
        1..=ROUTING_RULES_MAX => element.children().map(RoutingRule::parse).collect(),
        count => Err(invalid(format!(
            "{count} routing rules provided, the number of routing rules in a website configuration is limited to \
             {ROUTING_RULES_MAX}."
        ))),
    }
}

/// Writes a leaf for a value that is set.
fn leaf(document: &mut Writer, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        document.leaf(name, value);
    }
}

#[cfg(test)]
mod tests;
