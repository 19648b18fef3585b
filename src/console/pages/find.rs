//! The objects for which a person looks: by a part of their names, by kind, size and time.

use std::time::Duration;

use super::View;
use crate::base::Timestamp;
use crate::console::text;
use crate::s3::uri;
use crate::service::WalkedKey;

/// A choice of the form: its value and its words.
pub(super) struct Choice {
    pub(super) value: &'static str,
    pub(super) label: &'static str,
}

const fn choice(value: &'static str, label: &'static str) -> Choice {
    Choice { value, label }
}

/// The kinds, as [`text::icon_of`] names them.
pub(super) const KINDS: [Choice; 6] = [
    choice("image", "Images"),
    choice("video", "Videos"),
    choice("audio", "Sound"),
    choice("text", "Documents and texts"),
    choice("archive", "Archives"),
    choice("file", "Others"),
];
/// Sizes in bytes.
pub(super) const SIZES: [Choice; 4] = [
    choice("1048576", "Over 1 MiB"),
    choice("104857600", "Over 100 MiB"),
    choice("1073741824", "Over 1 GiB"),
    choice("10737418240", "Over 10 GiB"),
];
/// Ages in days.
pub(super) const AGES: [Choice; 4] = [
    choice("1", "In the last day"),
    choice("7", "In the last 7 days"),
    choice("30", "In the last 30 days"),
    choice("365", "In the last year"),
];

const SECS_OF_DAY: u64 = 24 * 60 * 60;

/// What the form asks for; empty texts ask for nothing.
#[derive(Clone, Copy, Default)]
pub(super) struct Wanted<'a> {
    /// The text that names below the folder contain, in upper or lower case.
    pub(super) name: &'a str,
    pub(super) kind: &'a str,
    pub(super) larger: &'a str,
    pub(super) newer: &'a str,
}

impl<'a> Wanted<'a> {
    pub(super) fn read(view: &'a View<'_>) -> Self {
        let given = |name| view.given(name).unwrap_or_default();
        Self { name: given("find"), kind: given("kind"), larger: given("larger"), newer: given("newer") }
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.name.is_empty() && !self.has_filter()
    }

    /// Whether more than the name counts.
    pub(super) fn has_filter(&self) -> bool {
        [self.kind, self.larger, self.newer].iter().any(|text| !text.is_empty())
    }

    /// The parameters that ask for the same again, with `&` before each.
    pub(super) fn params(&self) -> String {
        let params =
            [("find", self.name), ("kind", self.kind), ("larger", self.larger), ("newer", self.newer)];
        let given = params.iter().filter(|(_, value)| !value.is_empty());
        given.map(|(name, value)| format!("&{name}={}", uri::encode_query(value))).collect()
    }

    /// Whether an object is of the kind, the size and the time that are asked for.
    pub(super) fn admits(&self, object: &WalkedKey, now: Timestamp) -> bool {
        let larger_than: Option<u64> = self.larger.parse().ok();
        let days: Option<u32> = self.newer.parse().ok();
        let age_max = days.map(|days| Duration::from_secs(u64::from(days) * SECS_OF_DAY));
        (self.kind.is_empty() || text::icon_of(&object.key) == self.kind)
            && larger_than.is_none_or(|bytes| object.size > bytes)
            && age_max.is_none_or(|max| now.since(object.modified) <= max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_must_admit_an_object() {
        let now = Timestamp::from_millis(1_790_000_000_000);
        let day = Duration::from_secs(SECS_OF_DAY);
        let object = WalkedKey {
            key: "a/photo.PNG".to_owned(),
            size: 2 << 20,
            modified: Timestamp::from_millis(now.as_millis() - 3 * day.as_millis() as u64),
            etag: String::new(),
        };
        let admits = |kind, larger, newer| Wanted { kind, larger, newer, name: "" }.admits(&object, now);
        assert!(admits("", "", "") && admits("image", "1048576", "7"));
        assert!(!admits("video", "", "") && !admits("", "104857600", "") && !admits("", "", "1"));
        assert!(
            Wanted::default().is_nothing() && !Wanted { kind: "image", ..Wanted::default() }.is_nothing()
        );
        let wanted = Wanted { name: "a b&", kind: "", larger: "1", newer: "" };
        assert_eq!(wanted.params(), "&find=a%20b%26&larger=1");
    }

    #[test]
    fn the_offered_kinds_are_those_of_the_icons() {
        for name in ["a.png", "a.mp4", "a.mp3", "a.txt", "a.zip", "a"] {
            assert!(KINDS.iter().any(|kind| kind.value == text::icon_of(name)), "{name}");
        }
    }
}
