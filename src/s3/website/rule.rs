//! Routing rules: which requests are redirected, and where to (S3 API reference, RoutingRule,
//! Condition, Redirect).

use std::ops::Range;

use crate::base::limits::KEY_LEN_MAX_BYTES;
use crate::s3::website::redirect::{self, UrlScheme, WebsiteAddress};
use crate::s3::website::{check_children, child, invalid, leaf, missing, text};
use crate::s3::{S3Error, uri};
use crate::xml::{Element, Writer};

/// The statuses of redirects that S3 takes.
const REDIRECT_STATUSES: [u16; 7] = [301, 302, 303, 304, 305, 307, 308];
/// The status of a redirect without one.
const REDIRECT_STATUS_DEFAULT: u16 = 301;
/// The statuses of errors.
const ERROR_STATUSES: Range<u16> = 400..600;

/// A rule that redirects some requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutingRule {
    /// `None` for a rule that redirects every request.
    condition: Option<RuleCondition>,
    scheme: Option<UrlScheme>,
    host: Option<String>,
    key: KeyReplacement,
    status: Option<u16>,
}

/// The requests that a rule redirects: those that meet both conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RuleCondition {
    key_prefix: Option<String>,
    /// The status of the error that the request would be answered with.
    error_status: Option<u16>,
}

/// The key in the location of a redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
enum KeyReplacement {
    /// The key of the request.
    None,
    /// This text.
    Whole(String),
    /// This text in the place of the prefix in the condition.
    Prefix(String),
}

impl RoutingRule {
    pub(super) fn parse(element: Element<'_>) -> Result<Self, S3Error> {
        check_children(element, &["Condition", "Redirect"])?;
        let redirect = child(element, "Redirect")?.ok_or_else(|| missing("Redirect"))?;
        let known = ["HostName", "HttpRedirectCode", "Protocol", "ReplaceKeyPrefixWith", "ReplaceKeyWith"];
        check_children(redirect, &known)?;
        let host = text(redirect, "HostName")?;
        host.as_deref().map(redirect::check_host).transpose()?;
        Ok(Self {
            condition: child(element, "Condition")?.map(RuleCondition::parse).transpose()?,
            scheme: UrlScheme::parse(redirect)?,
            host,
            key: KeyReplacement::parse(redirect)?,
            status: text(redirect, "HttpRedirectCode")?.map(|code| redirect_status(&code)).transpose()?,
        })
    }

    /// Whether it can lead to another address than the one that was asked for.
    pub(super) fn leads_elsewhere(&self) -> bool {
        let replaced = self.condition.as_ref().and_then(|condition| condition.key_prefix.as_deref());
        let changes_key = match &self.key {
            KeyReplacement::None => false,
            KeyReplacement::Whole(_) => true,
            KeyReplacement::Prefix(text) => text != replaced.unwrap_or_default(),
        };
        self.scheme.is_some() || self.host.is_some() || changes_key
    }

    pub(super) fn render(&self, rules: &mut Writer) {
        rules.element("RoutingRule", |rule| {
            if let Some(RuleCondition { key_prefix, error_status }) = &self.condition {
                rule.element("Condition", |condition| {
                    leaf(
                        condition,
                        "HttpErrorCodeReturnedEquals",
                        error_status.map(|status| status.to_string()).as_deref(),
                    );
                    leaf(condition, "KeyPrefixEquals", key_prefix.as_deref());
                });
            }
            rule.element("Redirect", |redirect| {
                leaf(redirect, "Protocol", self.scheme.map(UrlScheme::as_str));
                leaf(redirect, "HostName", self.host.as_deref());
                self.key.render(redirect);
                leaf(redirect, "HttpRedirectCode", self.status.map(|status| status.to_string()).as_deref());
            });
        });
    }

    /// Whether it redirects a request for `key` that would be answered with the error `status`, or,
    /// for `None`, one whose object has not been looked up.
    pub(super) fn applies(&self, key: &str, status: Option<u16>) -> bool {
        let Some(condition) = &self.condition else { return true };
        let starts = condition.key_prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix));
        starts && condition.error_status.is_none_or(|expected| status == Some(expected))
    }

    /// The status of the redirect.
    pub fn status(&self) -> u16 {
        self.status.unwrap_or(REDIRECT_STATUS_DEFAULT)
    }

    /// The location that it redirects a request for `key` to.
    pub fn location(&self, asked: WebsiteAddress<'_>, key: &str) -> String {
        let prefix = self.condition.as_ref().and_then(|condition| condition.key_prefix.as_deref());
        let rest = prefix.and_then(|prefix| key.strip_prefix(prefix)).unwrap_or(key);
        let path = match &self.key {
            KeyReplacement::None => uri::encode_path(key),
            KeyReplacement::Whole(text) => uri::encode_location(text),
            KeyReplacement::Prefix(text) => uri::encode_location(text) + &uri::encode_path(rest),
        };
        asked.location(self.scheme, self.host.as_deref(), &path)
    }
}

impl RuleCondition {
    fn parse(element: Element<'_>) -> Result<Self, S3Error> {
        check_children(element, &["HttpErrorCodeReturnedEquals", "KeyPrefixEquals"])?;
        let status = text(element, "HttpErrorCodeReturnedEquals")?;
        let condition = Self {
            key_prefix: short(text(element, "KeyPrefixEquals")?)?,
            error_status: status.map(|code| error_status(&code)).transpose()?,
        };
        if condition.key_prefix.is_none() && condition.error_status.is_none() {
            return Err(invalid(
                "Condition cannot be empty. To redirect all requests without a condition, the condition element \
                 shouldn't be present.",
            ));
        }
        Ok(condition)
    }
}

impl KeyReplacement {
    fn parse(redirect: Element<'_>) -> Result<Self, S3Error> {
        let whole = short(text(redirect, "ReplaceKeyWith")?)?;
        let prefix = short(text(redirect, "ReplaceKeyPrefixWith")?)?;
        match (whole, prefix) {
            (None, None) => Ok(Self::None),
            (Some(text), None) => Ok(Self::Whole(text)),
            (None, Some(text)) => Ok(Self::Prefix(text)),
            (Some(_), Some(_)) => {
                Err(invalid("You can only define ReplaceKeyPrefix or ReplaceKey but not both."))
            }
        }
    }

    fn render(&self, redirect: &mut Writer) {
        match self {
            Self::None => {}
            Self::Whole(text) => redirect.leaf("ReplaceKeyWith", text),
            Self::Prefix(text) => redirect.leaf("ReplaceKeyPrefixWith", text),
        }
    }
}

/// Refuses text that is longer than a key, since the head of a response must have room for it.
fn short(text: Option<String>) -> Result<Option<String>, S3Error> {
    match text {
        Some(text) if text.len() > KEY_LEN_MAX_BYTES => {
            Err(invalid(format!("A key in a routing rule is longer than {KEY_LEN_MAX_BYTES} bytes.")))
        }
        text => Ok(text),
    }
}

fn error_status(text: &str) -> Result<u16, S3Error> {
    let status = number(text)?;
    if ERROR_STATUSES.contains(&status) {
        return Ok(status);
    }
    Err(invalid(format!("The provided HTTP error code ({text}) is not valid. Valid codes are 4XX or 5XX.")))
}

fn redirect_status(text: &str) -> Result<u16, S3Error> {
    let status = number(text)?;
    if REDIRECT_STATUSES.contains(&status) {
        return Ok(status);
    }
    Err(invalid(format!(
        "The provided HTTP redirect code ({text}) is not valid. Valid codes are 3XX except 300."
    )))
}

fn number(text: &str) -> Result<u16, S3Error> {
    let is_number = text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number.ok_or_else(|| S3Error::malformed_xml("a status is a number"))
}
