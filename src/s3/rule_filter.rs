//! The filter of a rule of the lifecycle or of replication, which is read back in the form in which
//! it was written.

use super::S3Error;
use super::elements::{check_children, child, invalid, missing, number, text};
use super::tags::{self, TagHolder};
use crate::base::limits::KEY_LEN_MAX_BYTES;
use crate::xml::{Element, Writer};

/// The conditions that an object meets, all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RuleFilter {
    form: FilterForm,
    prefix: Option<String>,
    tags: Vec<(String, String)>,
    larger_than: Option<u64>,
    smaller_than: Option<u64>,
}

/// The place of the conditions in a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilterForm {
    /// A `Prefix` of the rule itself: the first version of rules.
    Plain,
    /// At most one condition in `Filter`.
    Single,
    /// Any number in `Filter`, below `And`.
    And,
}

impl RuleFilter {
    /// The conditions of rules that are about objects.
    pub(super) const OF_OBJECTS: &[&str] = &["Prefix", "Tag"];
    /// Those, and the conditions about sizes.
    pub(super) const OF_SIZED_OBJECTS: &[&str] =
        &["Prefix", "Tag", "ObjectSizeGreaterThan", "ObjectSizeLessThan"];

    /// Reads the filter of an element `Rule`, which may have `conditions` of those names.
    ///
    /// # Errors
    /// `MalformedXML` unless there is either a `Filter` or a `Prefix`; `InvalidRequest` for
    /// conditions that cannot hold together; `InvalidTag`.
    pub(super) fn parse(rule: Element<'_>, conditions: &[&str]) -> Result<Self, S3Error> {
        match (child(rule, "Filter")?, child(rule, "Prefix")?) {
            (Some(_), Some(_)) => Err(S3Error::malformed_xml("a rule has either <Filter> or <Prefix>")),
            (None, None) => Err(missing("Filter")),
            (None, Some(_)) => {
                let prefix = text(rule, "Prefix")?;
                Self { prefix, ..Self::of_form(FilterForm::Plain) }.checked()
            }
            (Some(filter), None) => Self::parse_filter(filter, conditions),
        }
    }

    /// The keys that begin with `prefix`.
    pub(super) fn of_prefix(prefix: &str) -> Self {
        Self { prefix: Some(prefix.to_owned()), ..Self::of_form(FilterForm::Single) }
    }

    fn parse_filter(filter: Element<'_>, conditions: &[&str]) -> Result<Self, S3Error> {
        let Some(and) = child(filter, "And")? else {
            if filter.children().count() > 1 {
                return Err(S3Error::malformed_xml("more than one condition in <Filter> takes <And>"));
            }
            return Self::parse_conditions(filter, FilterForm::Single, conditions);
        };
        match (filter.children().count(), and.children().count()) {
            (1, 1..) => Self::parse_conditions(and, FilterForm::And, conditions),
            (1, 0) => Err(S3Error::malformed_xml("<And> has no condition")),
            _ => Err(S3Error::malformed_xml("<And> stands alone in <Filter>")),
        }
    }

    fn parse_conditions(
        element: Element<'_>,
        form: FilterForm,
        conditions: &[&str],
    ) -> Result<Self, S3Error> {
        check_children(element, conditions)?;
        let filter = Self {
            form,
            prefix: text(element, "Prefix")?,
            tags: element.all("Tag").map(parse_tag).collect::<Result<_, _>>()?,
            larger_than: size(element, "ObjectSizeGreaterThan")?,
            smaller_than: size(element, "ObjectSizeLessThan")?,
        };
        filter.checked()
    }

    fn of_form(form: FilterForm) -> Self {
        Self { form, prefix: None, tags: Vec::new(), larger_than: None, smaller_than: None }
    }

    fn checked(self) -> Result<Self, S3Error> {
        if self.prefix().len() > KEY_LEN_MAX_BYTES {
            return Err(invalid(format!("The maximum size of a prefix is {KEY_LEN_MAX_BYTES}.")));
        }
        let names: Vec<_> = self.tags.iter().map(|(name, _)| name).collect();
        if names.iter().enumerate().any(|(at, name)| names[..at].contains(name)) {
            return Err(invalid("Duplicate Tag Keys are not allowed."));
        }
        tags::check(&self.tags, TagHolder::Object)?;
        match (self.larger_than, self.smaller_than) {
            (_, Some(0)) => Err(invalid("'ObjectSizeLessThan' must be a positive number of bytes")),
            (Some(more), Some(less)) if less <= more => {
                Err(invalid("'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'"))
            }
            _ => Ok(self),
        }
    }

    pub(super) fn render(&self, rule: &mut Writer) {
        match self.form {
            FilterForm::Plain => self.render_conditions(rule),
            FilterForm::Single => rule.element("Filter", |filter| self.render_conditions(filter)),
            FilterForm::And => rule.element("Filter", |filter| {
                filter.element("And", |and| self.render_conditions(and));
            }),
        }
    }

    fn render_conditions(&self, element: &mut Writer) {
        if let Some(prefix) = &self.prefix {
            element.leaf("Prefix", prefix);
        }
        for (name, value) in &self.tags {
            element.element("Tag", |tag| {
                tag.leaf("Key", name);
                tag.leaf("Value", value);
            });
        }
        for (name, size) in
            [("ObjectSizeGreaterThan", self.larger_than), ("ObjectSizeLessThan", self.smaller_than)]
        {
            if let Some(size) = size {
                element.plain(name, size);
            }
        }
    }

    /// The prefix; empty for every key.
    pub(super) fn prefix(&self) -> &str {
        self.prefix.as_deref().unwrap_or_default()
    }

    /// Whether the rule has the first form, without `Filter`.
    pub(super) fn is_plain_prefix(&self) -> bool {
        self.form == FilterForm::Plain
    }

    pub(super) fn has_tags(&self) -> bool {
        !self.tags.is_empty()
    }

    pub(super) fn has_sizes(&self) -> bool {
        self.larger_than.is_some() || self.smaller_than.is_some()
    }

    pub(super) fn includes_size(&self, size: u64) -> bool {
        self.larger_than.is_none_or(|bound| size > bound)
            && self.smaller_than.is_none_or(|bound| size < bound)
    }

    /// Whether an object of that key and those tags, of any size, meets the conditions.
    pub(super) fn includes(&self, key: &str, tags: &[(String, String)]) -> bool {
        key.starts_with(self.prefix()) && self.includes_tags(tags)
    }

    pub(super) fn includes_tags(&self, tags: &[(String, String)]) -> bool {
        self.tags.iter().all(|tag| tags.contains(tag))
    }
}

fn parse_tag(tag: Element<'_>) -> Result<(String, String), S3Error> {
    check_children(tag, &["Key", "Value"])?;
    let name = text(tag, "Key")?.ok_or_else(|| missing("Key"))?;
    let value = text(tag, "Value")?.ok_or_else(|| missing("Value"))?;
    Ok((name, value))
}

fn size(element: Element<'_>, name: &str) -> Result<Option<u64>, S3Error> {
    let size = number(element, name)?;
    size.map(|size| u64::try_from(size).map_err(|_| invalid(format!("'{name}' must not be negative"))))
        .transpose()
}
