//! Lifecycle rules as the S3 documentation states them, evaluated one by one with nothing prepared.

use siltstone::base::SeededEntropy;

use super::DAY;
use super::model::{ModelUpload, ModelVersion};

/// The expiration of current versions.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ModelExpiration {
    Days(u64),
    Date(u64),
    Marker,
}

/// A rule. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelRule {
    pub(super) id: String,
    enabled: bool,
    prefix: String,
    tagged: bool,
    larger_than: Option<u64>,
    smaller_than: Option<u64>,
    expiration: Option<ModelExpiration>,
    /// Days, and the number of newer noncurrent versions that are kept.
    noncurrent: Option<(u64, u64)>,
    abort_days: Option<u64>,
}

/// The place of a version among those of its key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ModelPlace {
    Current,
    LoneMarker,
    Noncurrent { since: u64, newer: u64 },
}

/// The next midnight after some days; the same moment, if it is one.
fn midnight(from: u64, days: u64) -> u64 {
    (from + days * DAY).div_ceil(DAY) * DAY
}

impl ModelRule {
    /// A rule that S3 accepts.
    pub(super) fn drawn(draw: &SeededEntropy, nth: u64, now: u64) -> Self {
        let mut rule = Self {
            id: format!("rule {nth}"),
            enabled: !draw.one_in(8),
            prefix: draw.one_of(&["", "", "a/", "b", "a/1"]).to_string(),
            tagged: draw.one_in(4),
            larger_than: draw.one_in(4).then(|| draw.below(500)),
            smaller_than: draw.one_in(4).then(|| 500 + draw.below(500)),
            expiration: match draw.below(5) {
                0 | 1 => Some(ModelExpiration::Days(1 + draw.below(4))),
                2 => Some(ModelExpiration::Date(midnight(now, draw.below(6)) - 3 * DAY)),
                3 => Some(ModelExpiration::Marker),
                _ => None,
            },
            noncurrent: draw.one_in(2).then(|| (1 + draw.below(3), draw.below(3))),
            abort_days: draw.one_in(2).then(|| 1 + draw.below(3)),
        };
        if rule.expiration == Some(ModelExpiration::Marker) || rule.abort_days.is_some() {
            rule.tagged = false;
        }
        if rule.abort_days.is_some() {
            (rule.larger_than, rule.smaller_than) = (None, None);
        }
        if (rule.expiration, rule.noncurrent, rule.abort_days) == (None, None, None) {
            rule.noncurrent = Some((1, 1));
        }
        rule
    }

    /// A rule that takes everything after a day.
    pub(super) fn of_everything() -> Self {
        Self {
            id: "everything".to_owned(),
            enabled: true,
            prefix: String::new(),
            tagged: false,
            larger_than: None,
            smaller_than: None,
            expiration: Some(ModelExpiration::Days(1)),
            noncurrent: Some((1, 0)),
            abort_days: Some(1),
        }
    }

    pub(super) fn xml(&self) -> String {
        let mut conditions = vec![format!("<Prefix>{}</Prefix>", self.prefix)];
        conditions.extend(self.tagged.then(|| "<Tag><Key>kind</Key><Value>log</Value></Tag>".to_owned()));
        let bounds = [("ObjectSizeGreaterThan", self.larger_than), ("ObjectSizeLessThan", self.smaller_than)];
        conditions
            .extend(bounds.iter().filter_map(|(name, size)| Some(format!("<{name}>{}</{name}>", (*size)?))));
        let filter = match &conditions[..] {
            [only] => only.clone(),
            all => format!("<And>{}</And>", all.concat()),
        };
        let status = if self.enabled { "Enabled" } else { "Disabled" };
        let id = &self.id;
        format!(
            "<Rule><ID>{id}</ID><Filter>{filter}</Filter><Status>{status}</Status>{}</Rule>",
            self.actions()
        )
    }

    fn actions(&self) -> String {
        let expiration = self.expiration.map(|expiration| match expiration {
            ModelExpiration::Days(days) => format!("<Days>{days}</Days>"),
            ModelExpiration::Date(date) => {
                format!("<Date>{}</Date>", siltstone::base::Timestamp::from_millis(date))
            }
            ModelExpiration::Marker => {
                "<ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker>".to_owned()
            }
        });
        let noncurrent = self.noncurrent.map(|(days, newer)| {
            let kept = format!("<NewerNoncurrentVersions>{newer}</NewerNoncurrentVersions>");
            format!("<NoncurrentDays>{days}</NoncurrentDays>{}", if newer > 0 { &kept } else { "" })
        });
        let abort = self.abort_days.map(|days| format!("<DaysAfterInitiation>{days}</DaysAfterInitiation>"));
        let actions = [
            ("Expiration", expiration),
            ("NoncurrentVersionExpiration", noncurrent),
            ("AbortIncompleteMultipartUpload", abort),
        ];
        actions
            .into_iter()
            .filter_map(|(name, content)| Some(format!("<{name}>{}</{name}>", content?)))
            .collect()
    }

    /// The moment from which on the rule takes a version, if it ever does.
    fn takes_version_at(&self, key: &str, version: &ModelVersion, place: ModelPlace) -> Option<u64> {
        let size = version.bytes.len() as u64;
        let is_meant = self.enabled
            && key.starts_with(&self.prefix)
            && (!self.tagged || version.tagged)
            && self.larger_than.is_none_or(|bound| size > bound)
            && self.smaller_than.is_none_or(|bound| size < bound);
        match place {
            _ if !is_meant => None,
            ModelPlace::Current => match self.expiration? {
                ModelExpiration::Days(days) => Some(midnight(version.modified, days)),
                ModelExpiration::Date(date) => Some(date),
                ModelExpiration::Marker => None,
            },
            ModelPlace::LoneMarker => match self.expiration? {
                ModelExpiration::Days(days) => Some(midnight(version.modified, days)),
                ModelExpiration::Date(date) => Some(date),
                ModelExpiration::Marker => Some(version.modified),
            },
            ModelPlace::Noncurrent { since, newer } => {
                let (days, kept) = self.noncurrent?;
                (newer >= kept).then(|| midnight(since, days))
            }
        }
    }

    /// The moment from which on the rule aborts an upload, if it ever does.
    fn aborts_at(&self, upload: &ModelUpload) -> Option<u64> {
        let days = self.abort_days.filter(|_| self.enabled && upload.key.starts_with(&self.prefix))?;
        Some(midnight(upload.initiated, days))
    }
}

/// The rule that takes a version by now: the earliest, of two the first.
pub(super) fn taker<'r>(
    rules: &'r [ModelRule],
    key: &str,
    version: &ModelVersion,
    place: ModelPlace,
    now: u64,
) -> Option<&'r ModelRule> {
    let takers = rules.iter().filter_map(|rule| Some((rule.takes_version_at(key, version, place)?, rule)));
    takers.min_by_key(|(at, _)| *at).filter(|(at, _)| *at <= now).map(|(_, rule)| rule)
}

/// The rule that aborts an upload by now.
pub(super) fn aborter<'r>(rules: &'r [ModelRule], upload: &ModelUpload, now: u64) -> Option<&'r ModelRule> {
    let aborters = rules.iter().filter_map(|rule| Some((rule.aborts_at(upload)?, rule)));
    aborters.min_by_key(|(at, _)| *at).filter(|(at, _)| *at <= now).map(|(_, rule)| rule)
}

/// Whether a rule aborts an upload, now or later.
pub(super) fn is_ruled(rules: &[ModelRule], upload: &ModelUpload) -> bool {
    rules.iter().any(|rule| rule.aborts_at(upload).is_some())
}
