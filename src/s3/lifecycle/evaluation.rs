//! When a rule takes a version or an upload.

use std::cell::OnceCell;
use std::time::Duration;

use super::actions::{Expiration, NoncurrentAge, Transition};
use super::minimum_size::TransitionMinimumSize;
use super::rule::LifecycleRule;
use crate::base::Timestamp;
use crate::base::limits::KIB;

/// The size below which objects stay in their class, where neither the rule nor the bucket has
/// another one.
const TRANSITION_MIN_BYTES: u64 = 128 * KIB;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The properties of a version that decide about its expiry.
#[derive(Clone, Copy)]
pub struct ExpiryFacts<'f> {
    pub key: &'f [u8],
    /// Bytes; 0 for a delete marker.
    pub size: u64,
    /// The time of creation.
    pub modified: Timestamp,
    /// The place among the versions of the key.
    pub state: ExpiryState,
    /// Loads the tags. Called at most once, and only when a rule for tags takes the version
    /// otherwise.
    pub tags: &'f dyn Fn() -> Vec<(String, String)>,
}

/// The place of a version among its key's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiryState {
    /// The current version, which is not a delete marker. A current delete marker above other
    /// versions never expires, and needs no evaluation.
    Current,
    /// A delete marker that is the only version of its key.
    LoneDeleteMarker,
    /// A version below the current one, or a delete marker there.
    Noncurrent {
        /// The time of creation of the next newer version.
        since: Timestamp,
        /// Noncurrent versions of the key that are newer.
        newer_noncurrent: u32,
    },
}

/// The action that a rule takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiryKind {
    /// The current version expires: it is deleted in a bucket without versions, and gets a delete
    /// marker in one with versions.
    Current,
    /// A noncurrent version is deleted.
    Noncurrent,
    /// A delete marker without other versions is removed.
    DeleteMarker,
    /// An upload is aborted.
    Upload,
    /// A version is moved to the class COLD.
    Transition,
}

/// The earliest action of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiry {
    /// The moment from which on it is due.
    pub at: Timestamp,
    /// The number of the rule, for [`rule_id`](super::LifecycleConfiguration::rule_id).
    pub rule: usize,
    /// The action.
    pub kind: ExpiryKind,
}

/// The first midnight in UTC that is not before `time` (S3 user guide, "Lifecycle rules: Based on
/// an object's age").
pub fn round_up_to_midnight(time: Timestamp) -> Timestamp {
    let day = DAY.as_secs() * 1000;
    Timestamp::from_millis(time.as_millis().div_ceil(day) * day)
}

fn days_after(time: Timestamp, days: u32) -> Timestamp {
    round_up_to_midnight(time.plus(DAY.saturating_mul(days)))
}

/// The earliest expiry of a version by the rules with these numbers; of two at the same moment,
/// the first rule's.
pub(super) fn expiry(
    rules: &[LifecycleRule],
    numbers: impl Iterator<Item = usize>,
    facts: &ExpiryFacts<'_>,
) -> Option<Expiry> {
    earliest_action(rules, numbers, facts, |rule| expiration(rule, facts))
}

/// The earliest transition of a version by the rules with these numbers.
pub(super) fn transition(
    rules: &[LifecycleRule],
    numbers: impl Iterator<Item = usize>,
    minimum: TransitionMinimumSize,
    facts: &ExpiryFacts<'_>,
) -> Option<Expiry> {
    let is_small =
        minimum == TransitionMinimumSize::AllStorageClasses128K && facts.size < TRANSITION_MIN_BYTES;
    earliest_action(rules, numbers, facts, |rule| {
        // A rule with a size of its own is for small objects, too (S3 user guide, "Transitioning
        // objects").
        let at = transition_at(rule, facts).filter(|_| !is_small || rule.filter.has_sizes())?;
        Some((at, ExpiryKind::Transition))
    })
}

fn earliest_action(
    rules: &[LifecycleRule],
    numbers: impl Iterator<Item = usize>,
    facts: &ExpiryFacts<'_>,
    action: impl Fn(&LifecycleRule) -> Option<(Timestamp, ExpiryKind)>,
) -> Option<Expiry> {
    // Read for the first rule that asks for them: most have none.
    let tags = OnceCell::new();
    earliest(numbers.filter_map(|number| {
        let rule = &rules[number];
        let (at, kind) = action(rule)?;
        let filter = &rule.filter;
        let taken = filter.includes_size(facts.size)
            && (!filter.has_tags() || filter.includes_tags(tags.get_or_init(facts.tags)));
        taken.then_some(Expiry { at, rule: number, kind })
    }))
}

/// The earliest abort of an upload by the rules with these numbers.
pub(super) fn abort(
    rules: &[LifecycleRule],
    numbers: impl Iterator<Item = usize>,
    initiated: Timestamp,
) -> Option<Expiry> {
    earliest(numbers.filter_map(|number| {
        let days = rules[number].actions.abort_days?;
        Some(Expiry { at: days_after(initiated, days), rule: number, kind: ExpiryKind::Upload })
    }))
}

fn earliest(found: impl Iterator<Item = Expiry>) -> Option<Expiry> {
    found.min_by_key(|expiry| (expiry.at, expiry.rule))
}

/// The expiration by a rule of a version that its filter includes.
fn expiration(rule: &LifecycleRule, facts: &ExpiryFacts<'_>) -> Option<(Timestamp, ExpiryKind)> {
    let expiration = rule.actions.expiration;
    match facts.state {
        ExpiryState::Current => match expiration? {
            Expiration::Days(days) => Some((days_after(facts.modified, days), ExpiryKind::Current)),
            Expiration::Date(date) => Some((date, ExpiryKind::Current)),
            Expiration::DeleteMarker(_) => None,
        },
        // Rules for days and dates remove it as well, once it is old enough (S3 API reference,
        // LifecycleExpiration; S3 user guide, "Removing expired object delete markers").
        ExpiryState::LoneDeleteMarker => match expiration? {
            Expiration::Days(days) => Some((days_after(facts.modified, days), ExpiryKind::DeleteMarker)),
            Expiration::Date(date) => Some((date, ExpiryKind::DeleteMarker)),
            Expiration::DeleteMarker(true) => Some((facts.modified, ExpiryKind::DeleteMarker)),
            Expiration::DeleteMarker(false) => None,
        },
        ExpiryState::Noncurrent { since, newer_noncurrent } => {
            let at = noncurrent_at(rule.actions.noncurrent?, since, newer_noncurrent)?;
            Some((at, ExpiryKind::Noncurrent))
        }
    }
}

/// The moment at which a rule moves a version that its filter includes.
fn transition_at(rule: &LifecycleRule, facts: &ExpiryFacts<'_>) -> Option<Timestamp> {
    match facts.state {
        ExpiryState::Current => match rule.actions.transition? {
            Transition::Days(days) => Some(days_after(facts.modified, days)),
            Transition::Date(date) => Some(date),
        },
        ExpiryState::LoneDeleteMarker => None,
        ExpiryState::Noncurrent { since, newer_noncurrent } => {
            noncurrent_at(rule.actions.noncurrent_transition?, since, newer_noncurrent)
        }
    }
}

fn noncurrent_at(taken: NoncurrentAge, since: Timestamp, newer_noncurrent: u32) -> Option<Timestamp> {
    let is_beyond_kept = taken.newer.is_none_or(|kept| newer_noncurrent >= kept);
    is_beyond_kept.then(|| days_after(since, taken.days))
}
