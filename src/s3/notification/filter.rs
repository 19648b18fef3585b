//! Filters of keys (S3 user guide, "Configuring event notifications using object key name
//! filtering").

use super::invalid;
use crate::base::limits::KEY_LEN_MAX_BYTES;
use crate::s3::elements::{check_children, child, missing, text};
use crate::s3::{S3Error, uri};
use crate::xml::{Element, Writer};

/// The beginning and the end of keys; `None` for any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyFilter {
    /// The beginning.
    pub prefix: Option<String>,
    /// The end.
    pub suffix: Option<String>,
}

impl KeyFilter {
    /// Reads the child `Filter` of a notification, if there is one.
    pub(super) fn parse(notification: Element<'_>) -> Result<Self, S3Error> {
        let Some(filter) = child(notification, "Filter")? else { return Ok(Self::default()) };
        check_children(filter, &["S3Key"])?;
        let Some(key) = child(filter, "S3Key")? else { return Ok(Self::default()) };
        check_children(key, &["FilterRule"])?;
        let mut parsed = Self::default();
        key.children().try_for_each(|rule| parsed.add_rule(rule))?;
        Ok(parsed)
    }

    fn add_rule(&mut self, rule: Element<'_>) -> Result<(), S3Error> {
        check_children(rule, &["Name", "Value"])?;
        let name = text(rule, "Name")?.ok_or_else(|| missing("Name"))?;
        let value = text(rule, "Value")?.ok_or_else(|| missing("Value"))?;
        let (place, repeated) = match name.trim().to_ascii_lowercase().as_str() {
            "prefix" => (&mut self.prefix, "Cannot specify more than one prefix rule in a filter."),
            "suffix" => (&mut self.suffix, "Cannot specify more than one suffix rule in a filter."),
            _ => {
                let message = "filter rule name must be either prefix or suffix";
                return Err(invalid("FilterRule.Name", &name, message));
            }
        };
        if place.is_some() {
            return Err(invalid("FilterRule.Name", &name, repeated));
        }
        if value.len() > KEY_LEN_MAX_BYTES {
            let message = format!(
                "Size of filter rule value cannot exceed {KEY_LEN_MAX_BYTES} bytes in UTF-8 representation"
            );
            return Err(invalid("FilterRule.Value", &value, message));
        }
        *place = Some(value);
        Ok(())
    }

    /// Whether every key passes.
    pub(super) fn is_empty(&self) -> bool {
        self.prefix().is_empty() && self.suffix().is_empty()
    }

    /// Whether `key` passes, as it is or in the encoded form of records, in which S3 wants special
    /// characters of filters.
    pub fn includes(&self, key: &str) -> bool {
        self.is_empty() || self.passes(key) || self.passes(&uri::encode_event_key(key))
    }

    fn passes(&self, key: &str) -> bool {
        key.starts_with(self.prefix()) && key.ends_with(self.suffix())
    }

    /// Whether a key may pass both filters: one prefix begins with the other, and one suffix ends
    /// with the other.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let a = self;
        let b = other;
        (a.prefix().starts_with(b.prefix()) || b.prefix().starts_with(a.prefix()))
            && (a.suffix().ends_with(b.suffix()) || b.suffix().ends_with(a.suffix()))
    }

    pub(super) fn render(&self, notification: &mut Writer) {
        let rules: Vec<_> = [("prefix", &self.prefix), ("suffix", &self.suffix)]
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_deref()?)))
            .collect();
        if rules.is_empty() {
            return;
        }
        notification.element("Filter", |filter| {
            filter.element("S3Key", |key| {
                for (name, value) in rules {
                    key.element("FilterRule", |rule| {
                        rule.leaf("Name", name);
                        rule.leaf("Value", value);
                    });
                }
            });
        });
    }

    fn prefix(&self) -> &str {
        self.prefix.as_deref().unwrap_or_default()
    }

    fn suffix(&self) -> &str {
        self.suffix.as_deref().unwrap_or_default()
    }
}
