//! Buttons for what the user may not do: greyed, with the permission that is missing.

use askama::Template;
use askama::filters::HtmlSafe;

use super::super::text::visible;
use super::View;
use crate::s3::Operation;

/// The reason why a button is greyed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lack(String);

impl Lack {
    /// `needs DeleteObject on photos/*`.
    pub(super) fn of(action: &str, resource: &str) -> Self {
        Self(format!("needs {action} on {}", visible(resource)))
    }

    /// The button that the user cannot use, with the name of its icon.
    pub(super) fn button(&self, icon: &'static str, label: &'static str) -> GreyedButton<'_> {
        GreyedButton { icon, label, reason: &self.0 }
    }
}

/// A button without an effect. It takes the focus, so that its reason is read by everybody.
#[derive(Template)]
#[template(path = "greyed.html", config = "src/console/askama.toml")]
pub(super) struct GreyedButton<'a> {
    icon: &'static str,
    label: &'static str,
    reason: &'a str,
}

// The template escapes its parts.
impl HtmlSafe for GreyedButton<'_> {}

impl View<'_> {
    /// What the user lacks to do this to a bucket or, with a key, to an object; `None` for nothing.
    pub(super) fn lack(&self, operation: Operation, bucket: &str, key: Option<&str>) -> Option<Lack> {
        let resource = key.map_or_else(|| bucket.to_owned(), |key| format!("{bucket}/{key}"));
        (!self.may(operation, bucket, key)).then(|| Lack::of(operation.as_str(), &resource))
    }

    /// As [`View::lack`], of versions of an object that are named.
    pub(super) fn lack_to_versions(&self, operation: Operation, bucket: &str, key: &str) -> Option<Lack> {
        let action = format!("{}Version", operation.as_str());
        let may = self.may_to_versions(operation, bucket, key);
        (!may).then(|| Lack::of(&action, &format!("{bucket}/{key}")))
    }

    /// What the user lacks to do this to the objects of a folder. Permissions go by prefixes, so
    /// that any name stands for the folder's.
    pub(super) fn lack_in_folder(&self, operation: Operation, bucket: &str, prefix: &str) -> Option<Lack> {
        let may = self.may(operation, bucket, Some(&format!("{prefix}name")));
        (!may).then(|| Lack::of(operation.as_str(), &format!("{bucket}/{prefix}*")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greyed_button_has_its_reason_in_its_name() {
        let lack = Lack::of("DeleteObject", "b/<i>\u{202e}/*");
        let button = lack.button("trash", "Delete").to_string();
        assert!(button.contains("aria-disabled=\"true\"") && button.contains(">Delete</span>"), "{button}");
        assert!(button.contains("needs DeleteObject on b/&#60;i&#62;⟨U+202E⟩/*</span></button>"), "{button}");
    }
}
