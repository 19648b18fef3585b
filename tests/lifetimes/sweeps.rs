//! A sweep of the model: the commits that it makes, and what it takes by which rule.

use siltstone::store::Versioning;

use super::model::{Model, ModelBucket, ModelVersion, Refusal};
use super::rules::{ModelPlace, aborter, is_ruled, taker};

/// Something that expired: bucket, key, version, rule, whether it was hidden, bytes.
pub(super) type Taken = (String, String, String, String, bool, u64);

/// The expected course of a sweep.
pub(super) struct ModelSweep {
    /// The states after each commit, the last at the end; the first is the state before.
    pub(super) states: Vec<Model>,
    pub(super) taken: Vec<Taken>,
    /// Versions that a lock kept.
    pub(super) locked: u64,
}

/// The time of the clock and the time for locks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) now: u64,
    /// What a delete marker states that is made now.
    pub(super) stamp: u64,
    pub(super) lock_time: u64,
}

/// Names versions as clients see them.
pub(super) type Namer<'n> = &'n dyn Fn(&ModelVersion) -> String;

fn place_of(versions: &[ModelVersion], nth: usize) -> Option<ModelPlace> {
    match nth {
        0 if !versions[0].marker => Some(ModelPlace::Current),
        0 if versions.len() == 1 => Some(ModelPlace::LoneMarker),
        0 => None,
        _ => Some(ModelPlace::Noncurrent { since: versions[nth - 1].modified, newer: nth as u64 - 1 }),
    }
}

impl ModelSweep {
    pub(super) fn of(model: &Model, buckets: &[String], times: Times, name: Namer<'_>) -> Self {
        let mut sweep = Self { states: vec![model.clone()], taken: vec![], locked: 0 };
        for bucket in buckets {
            let mut after = sweep.states.last().expect("the first").clone();
            let before = after.bucket(bucket).clone();
            // What removes comes before what hides.
            for hides in [false, true] {
                sweep.take_versions(bucket, &before, after.bucket(bucket), times, name, hides);
                sweep.states.push(after.clone());
            }
            sweep.abort_uploads(bucket, after.bucket(bucket), times.now);
            sweep.states.push(after);
        }
        sweep
    }

    /// Takes the versions that are due in `before`, the bucket at the beginning, and still are when
    /// their turn comes: those that get a delete marker, or all others. Newer ones of a key come
    /// first.
    fn take_versions(
        &mut self,
        name: &str,
        before: &ModelBucket,
        bucket: &mut ModelBucket,
        times: Times,
        text: Namer<'_>,
        hides: bool,
    ) {
        for (key, versions) in &before.keys {
            for (nth, version) in versions.iter().enumerate() {
                let due = place_of(versions, nth)
                    .and_then(|place| Some((place, taker(&before.rules, key, version, place, times.now)?)));
                let Some((place, rule)) = due else { continue };
                let gets_marker =
                    matches!(place, ModelPlace::Current) && before.versioning != Versioning::Unset;
                if gets_marker != hides {
                    continue;
                }
                match take(bucket, key, version, place, times) {
                    Some(Ok(is_hidden)) => {
                        let bytes = if is_hidden { 0 } else { version.bytes.len() as u64 };
                        let key = key.clone();
                        let rule = rule.id.clone();
                        self.taken.push((name.to_owned(), key, text(version), rule, is_hidden, bytes));
                    }
                    Some(Err(_)) => self.locked += 1,
                    None => {}
                }
            }
        }
    }

    fn abort_uploads(&mut self, name: &str, bucket: &mut ModelBucket, now: u64) {
        let rules = bucket.rules.clone();
        bucket.uploads.retain(|upload| {
            let Some(rule) = aborter(&rules, upload, now) else { return true };
            let name = name.to_owned();
            let key = upload.key.clone();
            let rule = rule.id.clone();
            self.taken.push((name, key, "an upload".to_owned(), rule, false, 0));
            false
        });
    }
}

/// Takes a version, if it is still due. Returns whether it was hidden.
fn take(
    bucket: &mut ModelBucket,
    key: &str,
    version: &ModelVersion,
    place: ModelPlace,
    times: Times,
) -> Option<Result<bool, Refusal>> {
    let versions = bucket.keys.get(key)?;
    let nth = versions.iter().position(|there| there.id == version.id)?;
    let lock_time = times.lock_time;
    match (place, place_of(versions, nth)?) {
        (ModelPlace::Current, ModelPlace::Current) => {
            let is_hidden = bucket.versioning != Versioning::Unset;
            let mut after = bucket.clone();
            let done = after.delete_current(key, times.stamp, lock_time);
            Some(done.map(|()| *bucket = after).map(|()| is_hidden))
        }
        (ModelPlace::LoneMarker, ModelPlace::LoneMarker) => {
            Some(bucket.remove(key, nth, lock_time, false).map(|()| false))
        }
        (ModelPlace::Noncurrent { since, .. }, ModelPlace::Noncurrent { newer, .. }) => {
            let place = ModelPlace::Noncurrent { since, newer };
            taker(&bucket.rules, key, version, place, times.now)?;
            Some(bucket.remove(key, nth, lock_time, false).map(|()| false))
        }
        _ => None,
    }
}

/// Aborts the uploads without activity since a time, unless a rule aborts them at its own. Returns
/// their number, and the states before and after each bucket.
pub(super) fn abort_idle(
    model: &Model,
    buckets: impl Iterator<Item = String>,
    since: u64,
) -> (u64, Vec<Model>) {
    let mut aborted = 0;
    let mut after = model.clone();
    let mut states = vec![model.clone()];
    for name in buckets {
        let bucket = after.bucket(&name);
        let rules = bucket.rules.clone();
        let before = bucket.uploads.len();
        bucket.uploads.retain(|upload| upload.last_activity() >= since || is_ruled(&rules, upload));
        aborted += (before - bucket.uploads.len()) as u64;
        states.push(after.clone());
    }
    (aborted, states)
}
