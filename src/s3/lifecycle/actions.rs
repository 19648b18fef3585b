//! The actions of a rule.

use super::elements::{check_children, child, flag, invalid, midnight, missing, positive};
use crate::base::Timestamp;
use crate::s3::{ErrorCode, S3Error};
use crate::xml::{Element, Writer};

/// The most days of an action: S3 has 32-bit integers.
const DAYS_MAX: u32 = i32::MAX as u32;
/// The most noncurrent versions that may be kept (S3 API reference, NoncurrentVersionExpiration).
const NEWER_VERSIONS_MAX: u32 = 100;

/// The expiration of current versions, or of delete markers without other versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expiration {
    /// Days after the creation.
    Days(u32),
    /// A date, from which on everything expires.
    Date(Timestamp),
    /// Whether delete markers without other versions are removed.
    DeleteMarker(bool),
}

/// The expiration of noncurrent versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoncurrentExpiration {
    /// Days after the version became noncurrent.
    pub(super) days: u32,
    /// Noncurrent versions of a key that are kept, the newest.
    pub(super) newer: Option<u32>,
}

/// The actions of a rule, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LifecycleActions {
    pub(super) expiration: Option<Expiration>,
    pub(super) noncurrent: Option<NoncurrentExpiration>,
    /// Days after the initiation of an upload.
    pub(super) abort_days: Option<u32>,
}

impl LifecycleActions {
    pub(super) const NAMES: [&str; 5] = [
        "Expiration",
        "NoncurrentVersionExpiration",
        "AbortIncompleteMultipartUpload",
        "Transition",
        "NoncurrentVersionTransition",
    ];

    /// Reads the actions of an element `Rule`.
    ///
    /// # Errors
    /// `MalformedXML`; `InvalidArgument` for a number or date that S3 refuses; `InvalidRequest` without an action, and for a
    /// transition, since there are no other storage classes.
    pub(super) fn parse(rule: Element<'_>) -> Result<Self, S3Error> {
        for name in ["Transition", "NoncurrentVersionTransition"] {
            rule.all(name).try_for_each(|transition| refuse_transition(transition, name))?;
        }
        let actions = Self {
            expiration: child(rule, "Expiration")?.map(Expiration::parse).transpose()?,
            noncurrent: child(rule, "NoncurrentVersionExpiration")?
                .map(NoncurrentExpiration::parse)
                .transpose()?,
            abort_days: child(rule, "AbortIncompleteMultipartUpload")?.map(abort_days).transpose()?,
        };
        match actions {
            Self { expiration: None, noncurrent: None, abort_days: None } => {
                Err(invalid("At least one action needs to be specified in a rule."))
            }
            actions => Ok(actions),
        }
    }

    pub(super) fn render(&self, rule: &mut Writer) {
        if let Some(expiration) = self.expiration {
            rule.element("Expiration", |element| match expiration {
                Expiration::Days(days) => element.plain("Days", days),
                Expiration::Date(date) => element.plain("Date", date),
                Expiration::DeleteMarker(removed) => element.plain("ExpiredObjectDeleteMarker", removed),
            });
        }
        if let Some(noncurrent) = self.noncurrent {
            rule.element("NoncurrentVersionExpiration", |element| {
                element.plain("NoncurrentDays", noncurrent.days);
                noncurrent
                    .newer
                    .into_iter()
                    .for_each(|newer| element.plain("NewerNoncurrentVersions", newer));
            });
        }
        if let Some(days) = self.abort_days {
            rule.element("AbortIncompleteMultipartUpload", |element| {
                element.plain("DaysAfterInitiation", days);
            });
        }
    }
}

impl Expiration {
    fn parse(element: Element<'_>) -> Result<Self, S3Error> {
        check_children(element, &["Days", "Date", "ExpiredObjectDeleteMarker"])?;
        let days = positive(element, "Days", "Expiration", DAYS_MAX)?;
        let date = midnight(element, "Date")?;
        match (days, date, flag(element, "ExpiredObjectDeleteMarker")?) {
            (Some(days), None, None) => Ok(Self::Days(days)),
            (None, Some(date), None) => Ok(Self::Date(date)),
            (None, None, Some(removed)) => Ok(Self::DeleteMarker(removed)),
            _ => Err(S3Error::malformed_xml(
                "an <Expiration> has one of <Days>, <Date> and <ExpiredObjectDeleteMarker>",
            )),
        }
    }
}

impl NoncurrentExpiration {
    const NAME: &str = "NoncurrentVersionExpiration";

    fn parse(element: Element<'_>) -> Result<Self, S3Error> {
        check_children(element, &["NoncurrentDays", "NewerNoncurrentVersions"])?;
        let days = positive(element, "NoncurrentDays", Self::NAME, DAYS_MAX)?;
        let newer = positive(element, "NewerNoncurrentVersions", Self::NAME, NEWER_VERSIONS_MAX)?;
        Ok(Self { days: days.ok_or_else(|| missing("NoncurrentDays"))?, newer })
    }
}

fn abort_days(element: Element<'_>) -> Result<u32, S3Error> {
    check_children(element, &["DaysAfterInitiation"])?;
    let days = positive(element, "DaysAfterInitiation", "AbortIncompleteMultipartUpload", DAYS_MAX)?;
    days.ok_or_else(|| missing("DaysAfterInitiation"))
}

/// Refuses a transition, by the name of the storage class.
fn refuse_transition(element: Element<'_>, name: &str) -> Result<(), S3Error> {
    let class = super::elements::text(element, "StorageClass")?.ok_or_else(|| missing("StorageClass"))?;
    Err(S3Error::new(ErrorCode::InvalidStorageClass)
        .message(format!(
            "The storage class '{}' of a {name} does not exist. Objects have the storage class STANDARD only.",
            class.trim()
        ))
        .element("StorageClassRequested", class.trim()))
}
