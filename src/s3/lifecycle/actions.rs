//! The actions of a rule.

use super::elements::{
    check_children, child, flag, invalid, midnight, missing, not_negative, positive, text,
};
use crate::base::{StorageClass, Timestamp};
use crate::s3::{ErrorCode, S3Error};
use crate::xml::{Element, Writer};

/// The most days of an action: S3 has 32-bit integers.
const DAYS_MAX: u32 = i32::MAX as u32;
/// The most noncurrent versions that may be kept (S3 API reference, NoncurrentVersionExpiration).
const NEWER_VERSIONS_MAX: u32 = 100;

/// The element of a transition with its class.
const CLASS: &str = "StorageClass";

/// The expiration of current versions, or of delete markers without other versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiration {
    /// Days after the creation.
    Days(u32),
    /// A date, from which on everything expires.
    Date(Timestamp),
    /// Whether delete markers without other versions are removed.
    DeleteMarker(bool),
}

/// The moment of a transition of current versions to the class COLD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// Days after the creation.
    Days(u32),
    /// A date, from which on everything is moved.
    Date(Timestamp),
}

/// The noncurrent versions that an action takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoncurrentAge {
    /// Days after the version became noncurrent.
    pub days: u32,
    /// Noncurrent versions of a key that are left alone, the newest.
    pub newer: Option<u32>,
}

/// The actions of a rule, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LifecycleActions {
    /// What happens to current versions.
    pub expiration: Option<Expiration>,
    /// The noncurrent versions that are removed.
    pub noncurrent: Option<NoncurrentAge>,
    /// When current versions become COLD.
    pub transition: Option<Transition>,
    /// The noncurrent versions that become COLD.
    pub noncurrent_transition: Option<NoncurrentAge>,
    /// Days after the initiation of an upload.
    pub abort_days: Option<u32>,
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
    /// `MalformedXML`; `InvalidArgument` for a number or date that S3 refuses; `InvalidRequest`
    /// without an action, and for two transitions to one class; `InvalidStorageClass` for a
    /// transition to another class than COLD.
    pub(super) fn parse(rule: Element<'_>) -> Result<Self, S3Error> {
        let actions = Self {
            expiration: child(rule, "Expiration")?.map(Expiration::parse).transpose()?,
            noncurrent: child(rule, "NoncurrentVersionExpiration")?
                .map(NoncurrentAge::parse_expiration)
                .transpose()?,
            transition: transition(rule, "Transition")?.map(Transition::parse).transpose()?,
            noncurrent_transition: transition(rule, NoncurrentAge::TRANSITION)?
                .map(NoncurrentAge::parse_transition)
                .transpose()?,
            abort_days: child(rule, "AbortIncompleteMultipartUpload")?.map(abort_days).transpose()?,
        };
        let takes_versions = actions.expires_versions() || actions.moves_versions();
        if !takes_versions && actions.abort_days.is_none() {
            return Err(invalid("At least one action needs to be specified in a rule."));
        }
        Ok(actions)
    }

    /// Whether an action removes or hides versions.
    pub(super) fn expires_versions(&self) -> bool {
        self.expiration.is_some() || self.noncurrent.is_some()
    }

    /// Whether an action moves versions to another class.
    pub(super) fn moves_versions(&self) -> bool {
        self.transition.is_some() || self.noncurrent_transition.is_some()
    }

    /// Checks that versions are moved before they expire (S3 API reference,
    /// PutBucketLifecycleConfiguration).
    ///
    /// # Errors
    /// `InvalidArgument`; `InvalidRequest` for a date beside days.
    pub(super) fn check_order(&self, prefix: &str) -> Result<(), S3Error> {
        let current = ["Expiration", "Transition"];
        match (self.expiration, self.transition) {
            (Some(Expiration::Days(days)), Some(Transition::Days(moved))) if days <= moved => {
                return Err(wrong_order(prefix, "Days", current));
            }
            (Some(Expiration::Date(date)), Some(Transition::Date(moved))) if date <= moved => {
                return Err(wrong_order(prefix, "Date", current));
            }
            (Some(Expiration::Days(_)), Some(Transition::Date(_)))
            | (Some(Expiration::Date(_)), Some(Transition::Days(_))) => {
                return Err(invalid(format!(
                    "Found mixed 'Date' and 'Days' based Expiration and Transition actions in lifecycle rule for prefix '{prefix}'"
                )));
            }
            _ => {}
        }
        match (self.noncurrent, self.noncurrent_transition) {
            (Some(expiration), Some(moved)) if expiration.days <= moved.days => Err(wrong_order(
                prefix,
                "NoncurrentDays",
                [NoncurrentAge::EXPIRATION, NoncurrentAge::TRANSITION],
            )),
            _ => Ok(()),
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
            rule.element(NoncurrentAge::EXPIRATION, |element| noncurrent.render(element));
        }
        if let Some(transition) = self.transition {
            rule.element("Transition", |element| {
                match transition {
                    Transition::Days(days) => element.plain("Days", days),
                    Transition::Date(date) => element.plain("Date", date),
                }
                element.leaf(CLASS, StorageClass::Cold.as_str());
            });
        }
        if let Some(transition) = self.noncurrent_transition {
            rule.element(NoncurrentAge::TRANSITION, |element| {
                transition.render(element);
                element.leaf(CLASS, StorageClass::Cold.as_str());
            });
        }
        if let Some(days) = self.abort_days {
            rule.element("AbortIncompleteMultipartUpload", |element| {
                element.plain("DaysAfterInitiation", days);
            });
        }
    }
}

fn wrong_order(prefix: &str, name: &str, [later, earlier]: [&str; 2]) -> S3Error {
    let message = format!(
        "'{name}' in the {later} action for prefix '{prefix}' must be greater than '{name}' in the {earlier} action"
    );
    S3Error::invalid_argument(name, "", message)
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

impl Transition {
    fn parse(element: Element<'_>) -> Result<Self, S3Error> {
        check_children(element, &["Days", "Date", CLASS])?;
        let days = not_negative(element, "Days", "Transition", DAYS_MAX)?;
        match (days, midnight(element, "Date")?) {
            (Some(days), None) => Ok(Self::Days(days)),
            (None, Some(date)) => Ok(Self::Date(date)),
            _ => Err(S3Error::malformed_xml("a <Transition> has one of <Days> and <Date>")),
        }
    }
}

impl NoncurrentAge {
    const EXPIRATION: &str = "NoncurrentVersionExpiration";
    const TRANSITION: &str = "NoncurrentVersionTransition";
    const DAYS: &str = "NoncurrentDays";
    const NEWER: &str = "NewerNoncurrentVersions";

    fn parse_expiration(element: Element<'_>) -> Result<Self, S3Error> {
        check_children(element, &[Self::DAYS, Self::NEWER])?;
        Self::of(element, Self::EXPIRATION, positive(element, Self::DAYS, Self::EXPIRATION, DAYS_MAX)?)
    }

    fn parse_transition(element: Element<'_>) -> Result<Self, S3Error> {
        check_children(element, &[Self::DAYS, Self::NEWER, CLASS])?;
        Self::of(element, Self::TRANSITION, not_negative(element, Self::DAYS, Self::TRANSITION, DAYS_MAX)?)
    }

    fn of(element: Element<'_>, action: &str, days: Option<u32>) -> Result<Self, S3Error> {
        let newer = positive(element, Self::NEWER, action, NEWER_VERSIONS_MAX)?;
        Ok(Self { days: days.ok_or_else(|| missing(Self::DAYS))?, newer })
    }

    fn render(&self, element: &mut Writer) {
        element.plain(Self::DAYS, self.days);
        if let Some(newer) = self.newer {
            element.plain(Self::NEWER, newer);
        }
    }
}

fn abort_days(element: Element<'_>) -> Result<u32, S3Error> {
    check_children(element, &["DaysAfterInitiation"])?;
    let days = positive(element, "DaysAfterInitiation", "AbortIncompleteMultipartUpload", DAYS_MAX)?;
    days.ok_or_else(|| missing("DaysAfterInitiation"))
}

/// The transition of a rule to the class COLD, which is the only one besides the usual class.
///
/// # Errors
/// `MalformedXML` without a class; `InvalidStorageClass` for another one; `InvalidRequest` for two
/// transitions.
fn transition<'d>(rule: Element<'d>, name: &str) -> Result<Option<Element<'d>>, S3Error> {
    let mut found = None;
    for element in rule.all(name) {
        let class = text(element, CLASS)?.ok_or_else(|| missing(CLASS))?;
        if StorageClass::named(class.trim()) != Some(StorageClass::Cold) {
            return Err(unknown_class(class.trim(), name));
        }
        if found.replace(element).is_some() {
            return Err(invalid(format!("'{CLASS}' must be different for '{name}' actions in same 'Rule'")));
        }
    }
    Ok(found)
}

fn unknown_class(class: &str, action: &str) -> S3Error {
    S3Error::new(ErrorCode::InvalidStorageClass)
        .message(format!(
            "The storage class '{class}' of a {action} does not exist. Objects are moved to the storage class COLD only."
        ))
        .element("StorageClassRequested", class)
}
