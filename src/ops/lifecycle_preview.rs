//! A preview of lifecycle rules: the versions and uploads that they take, and the versions that
//! they move, now and later. Nothing is changed.

use std::collections::BTreeMap;

use super::lifecycle_sweep::{expiry_of, transition_of};
use super::{Context, body, client_error};
use crate::base::Timestamp;
use crate::s3::lifecycle::{Expiry, ExpiryKind, LifecycleConfiguration};
use crate::s3::{RequestId, S3Error, XmlConfiguration as _};
use crate::store::{BucketInfo, PlaceCursor, PlacedVersion, Store, StoreError, UploadPages};

/// Versions that one preview reads at most, and uploads.
const PREVIEWED_MAX: u64 = 500_000;
/// Items that are named.
const NAMED_MAX: usize = 100;
/// Versions that are read in one step.
const STEP_VERSIONS: usize = 4_096;

/// Versions and uploads, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PreviewCount {
    /// Their number.
    pub count: u64,
    pub bytes: u64,
}

/// The effect of one rule: of its expirations, or of its transitions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RulePreview {
    /// Whether versions move to the class COLD. Otherwise they and uploads are taken.
    pub moves: bool,
    /// Those that are due now.
    pub due: PreviewCount,
    /// Those that are due later.
    pub later: PreviewCount,
    /// The earliest moment of both.
    pub next: Option<Timestamp>,
}

/// A version or an upload that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueExpiry {
    pub key: String,
    /// The id of the rule.
    pub rule: String,
    /// The action.
    pub kind: ExpiryKind,
    /// The moment since which it is due.
    pub at: Timestamp,
    pub bytes: u64,
}

/// The effect of rules on the versions and uploads that were added. Locks are not considered:
/// locked versions stay.
pub struct LifecyclePreview<'r> {
    rules: &'r LifecycleConfiguration,
    now: Timestamp,
    items_max: usize,
    /// By rules, and for each by whether versions move.
    totals: BTreeMap<(usize, bool), RulePreview>,
    items: Vec<DueExpiry>,
}

impl<'r> LifecyclePreview<'r> {
    /// A preview at the time `now` that keeps the first `items_max` items that are due.
    pub fn new(rules: &'r LifecycleConfiguration, now: Timestamp, items_max: usize) -> Self {
        Self { rules, now, items_max, totals: BTreeMap::new(), items: Vec::new() }
    }

    /// Adds a version. It moves only if it does not expire before.
    pub fn add_version(&mut self, placed: &PlacedVersion<'_>) {
        let expiry = expiry_of(self.rules, placed, placed.place);
        let moved = transition_of(self.rules, placed, placed.place)
            .filter(|moved| expiry.is_none_or(|end| moved.at < end.at && end.at > self.now));
        for action in moved.into_iter().chain(expiry) {
            self.add(placed.key, action, placed.version.size);
        }
    }

    /// Adds an upload with the bytes of its parts.
    pub fn add_upload(&mut self, key: &[u8], initiated: Timestamp, bytes: impl FnOnce() -> u64) {
        if let Some(abort) = self.rules.abort_at(key, initiated) {
            self.add(key, abort, bytes());
        }
    }

    fn add(&mut self, key: &[u8], expiry: Expiry, bytes: u64) {
        let moves = expiry.kind == ExpiryKind::Transition;
        let total = self.totals.entry((expiry.rule, moves)).or_default();
        total.moves = moves;
        total.next = Some(total.next.map_or(expiry.at, |next| next.min(expiry.at)));
        let is_due = expiry.at <= self.now;
        let sum = if is_due { &mut total.due } else { &mut total.later };
        sum.count += 1;
        sum.bytes += bytes;
        if is_due && self.items.len() < self.items_max {
            let key = String::from_utf8_lossy(key).into_owned();
            let rule = self.rules.rule_id(expiry.rule).to_owned();
            self.items.push(DueExpiry { key, rule, kind: expiry.kind, at: expiry.at, bytes });
        }
    }

    /// The first items that are due, in the order in which they were added.
    pub fn due(&self) -> &[DueExpiry] {
        &self.items
    }

    /// The rules that take or move something, by their ids, in their order. One that does both
    /// comes twice.
    pub fn rules(&self) -> impl Iterator<Item = (&str, &RulePreview)> {
        self.totals.iter().map(|((rule, _), total)| (self.rules.rule_id(*rule), total))
    }

    /// All that is to be taken now.
    pub fn total_due(&self) -> PreviewCount {
        self.total(false)
    }

    /// All that is to be moved now.
    pub fn total_moves(&self) -> PreviewCount {
        self.total(true)
    }

    fn total(&self, moves: bool) -> PreviewCount {
        let sums = self.totals.values().filter(|total| total.moves == moves).map(|total| total.due);
        sums.fold(PreviewCount::default(), |sum, due| PreviewCount {
            count: sum.count + due.count,
            bytes: sum.bytes + due.bytes,
        })
    }
}

/// The effect of rules on a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LifecycleEffect {
    /// The rules that take or move something, by their ids.
    pub rules: Vec<(String, RulePreview)>,
    /// The first items that are due.
    pub due: Vec<DueExpiry>,
    /// All that is to be taken now.
    pub total: PreviewCount,
    /// All that is to be moved now.
    pub moves: PreviewCount,
    /// Whether the bucket has more versions or uploads than were read.
    pub is_cut: bool,
}

impl Context {
    /// The effect that the rules of `document` would have on a bucket at the time `now`. Reads up
    /// to 500,000 versions and as many uploads.
    ///
    /// # Errors
    /// `MalformedXML` and the errors of rules that cannot be stored; `NoSuchBucket`.
    pub fn lifecycle_effect(
        &self,
        bucket: &str,
        document: &[u8],
        now: Timestamp,
        id: &RequestId,
    ) -> Result<LifecycleEffect, S3Error> {
        let document = body::parse(document, LifecycleConfiguration::ROOT)?;
        let rules = LifecycleConfiguration::parse(document.root())?;
        let info = self.store.bucket(bucket).map_err(|error| client_error::to_client_error(&error, id))?;
        let mut preview = LifecyclePreview::new(&rules, now, NAMED_MAX);
        let versions_are_cut = add_versions(&self.store, &info, &mut preview);
        let uploads_are_cut = add_uploads(&self.store, &info, &mut preview)
            .map_err(|error| client_error::to_client_error(&error, id))?;
        let is_cut = versions_are_cut || uploads_are_cut;
        let shown = preview.rules().map(|(rule, total)| (rule.to_owned(), *total)).collect();
        let total = preview.total_due();
        let moves = preview.total_moves();
        Ok(LifecycleEffect { rules: shown, due: preview.due().to_vec(), total, moves, is_cut })
    }
}

/// Adds the versions of a bucket; `true` if there are more than a preview reads.
fn add_versions(store: &Store, bucket: &BucketInfo, preview: &mut LifecyclePreview<'_>) -> bool {
    let mut cursor = PlaceCursor::default();
    let mut read = 0;
    while store.visit_places(bucket, &mut cursor, STEP_VERSIONS, &mut |placed| {
        read += 1;
        preview.add_version(placed);
    }) {
        if read >= PREVIEWED_MAX {
            return true;
        }
    }
    false
}

/// Adds the uploads of a bucket; `true` if there are more than a preview reads.
fn add_uploads(
    store: &Store,
    bucket: &BucketInfo,
    preview: &mut LifecyclePreview<'_>,
) -> Result<bool, StoreError> {
    let mut pages = UploadPages::default();
    let mut read = 0;
    while let Some(page) = pages.next(|query, after| store.list_uploads(&bucket.name, query, after))? {
        for (key, upload) in page.keys() {
            read += 1;
            preview.add_upload(key.as_bytes(), upload.initiated, || {
                store.upload_bytes(bucket, key.as_bytes(), upload.id)
            });
        }
        if read >= PREVIEWED_MAX {
            return Ok(true);
        }
    }
    Ok(false)
}
