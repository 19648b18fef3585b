//! A rule: a filter, actions, and whether it is in force.

use super::actions::{Expiration, LifecycleActions};
use super::elements::{check_children, invalid, missing, text};
use crate::s3::S3Error;
use crate::s3::rule_filter::RuleFilter;
use crate::xml::{Document, Element, Writer};

/// The longest id of a rule, in characters.
const ID_LEN_MAX_CHARS: usize = 255;

/// A rule of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifecycleRule {
    /// Unique in the bucket; empty until it is made, where the client gave none.
    pub id: String,
    /// Whether it is in force.
    pub enabled: bool,
    pub(super) filter: RuleFilter,
    /// What it does.
    pub actions: LifecycleActions,
}

impl LifecycleRule {
    const ELEMENT: &'static str = "Rule";

    /// A rule for the keys that begin with `prefix`. It is checked with its configuration.
    pub fn new(id: &str, prefix: &str, enabled: bool, actions: LifecycleActions) -> Self {
        Self { id: id.to_owned(), enabled, filter: RuleFilter::of_prefix(prefix), actions }
    }

    /// Reads a rule that stands alone.
    ///
    /// # Errors
    /// As of a rule in a configuration.
    pub fn from_text(text: &str) -> Result<Self, S3Error> {
        let document =
            Document::parse(text.as_bytes()).map_err(|error| S3Error::malformed_xml(&error.to_string()))?;
        match document.root().name() {
            Self::ELEMENT => Self::parse(document.root()),
            other => Err(S3Error::malformed_xml(&format!("the root is {other}, not {}", Self::ELEMENT))),
        }
    }

    /// Writes the rule below the element of its configuration.
    pub fn render_element(&self, document: &mut Writer) {
        document.element(Self::ELEMENT, |rule| self.render(rule));
    }

    /// The prefix of the keys that it is about; empty for all keys.
    pub fn prefix(&self) -> &str {
        self.filter.prefix()
    }

    /// Whether it is about some of these keys only, by tags or sizes.
    pub fn has_conditions(&self) -> bool {
        self.filter.has_tags() || self.filter.has_sizes()
    }

    /// Whether it has the old form without `Filter`.
    pub fn is_of_old_form(&self) -> bool {
        self.filter.is_plain_prefix()
    }

    /// Reads an element `Rule`.
    ///
    /// # Errors
    /// `MalformedXML`; `InvalidArgument` for a long id; `InvalidRequest` for actions that the
    /// filter does not allow; the errors of [`RuleFilter::parse`] and
    /// [`LifecycleActions::parse`].
    pub(super) fn parse(element: Element<'_>) -> Result<Self, S3Error> {
        let known: Vec<_> =
            ["ID", "Status", "Filter", "Prefix"].into_iter().chain(LifecycleActions::NAMES).collect();
        check_children(element, &known)?;
        let rule = Self {
            id: id(element)?,
            enabled: is_enabled(element)?,
            filter: RuleFilter::parse(element, RuleFilter::OF_SIZED_OBJECTS)?,
            actions: LifecycleActions::parse(element)?,
        };
        rule.check()?;
        Ok(rule)
    }

    /// Checks that the actions go together with the filter (S3 API reference, LifecycleRule,
    /// LifecycleExpiration, NoncurrentVersionExpiration).
    fn check(&self) -> Result<(), S3Error> {
        let filter = &self.filter;
        let actions = &self.actions;
        let marker = matches!(actions.expiration, Some(Expiration::DeleteMarker(_)));
        if marker && filter.has_tags() {
            return Err(invalid("ExpiredObjectDeleteMarker cannot be specified with Tags"));
        }
        if actions.abort_days.is_some() && filter.has_tags() {
            return Err(invalid("AbortIncompleteMultipartUpload cannot be specified with Tags"));
        }
        if actions.abort_days.is_some() && filter.has_sizes() {
            return Err(invalid("AbortIncompleteMultipartUpload cannot be specified with Object Size"));
        }
        let mut of_noncurrent = [actions.noncurrent, actions.noncurrent_transition].into_iter().flatten();
        let keeps_some = of_noncurrent.any(|noncurrent| noncurrent.newer.is_some());
        if keeps_some && filter.is_plain_prefix() {
            return Err(invalid("NewerNoncurrentVersions can only be specified in a rule with a Filter"));
        }
        actions.check_order(filter.prefix())
    }

    /// Writes the content of an element `Rule`.
    pub(super) fn render(&self, rule: &mut Writer) {
        rule.leaf("ID", &self.id);
        self.filter.render(rule);
        rule.leaf("Status", if self.enabled { "Enabled" } else { "Disabled" });
        self.actions.render(rule);
    }
}

fn id(rule: Element<'_>) -> Result<String, S3Error> {
    let id = text(rule, "ID")?.unwrap_or_default();
    if id.chars().count() > ID_LEN_MAX_CHARS {
        let message = format!("ID length should not exceed allowed limit of {ID_LEN_MAX_CHARS}");
        return Err(S3Error::invalid_argument("ID", &id, message));
    }
    Ok(id)
}

fn is_enabled(rule: Element<'_>) -> Result<bool, S3Error> {
    match text(rule, "Status")?.ok_or_else(|| missing("Status"))?.trim() {
        "Enabled" => Ok(true),
        "Disabled" => Ok(false),
        _ => Err(S3Error::malformed_xml("<Status> is Enabled or Disabled")),
    }
}
