//! The comparison of the listings of a server and of the target of a mirror.

use std::cmp::Ordering;
use std::fmt::Display;
use std::sync::Arc;
use std::thread;

use crossbeam_channel::bounded;
use siltstone::base::{Clock, SystemClock};
use siltstone::mirror::{Mirror, MirrorSettings};
use siltstone::transfer::{
    PeerError, PeerKey, PeerLink, PeerVersion, PeerVersioning, StoredAttributes, StoredChecksums,
    bucket_names, checked_attributes_of, takes_client_key, versions_state, visit_keys,
};

use super::api_client::{self, ServerAddress};
use crate::cli::announce;
use crate::cli::config::environment::Environment;
use crate::cli::config::options::ServerOptions;
use crate::cli::error::CliError;

/// Keys that the listing of the target may be ahead.
const KEYS_AHEAD: usize = 4_096;
/// The most keys that are named for one reason.
const NAMED_MAX: u64 = 100;

/// The mirror whose target is compared.
#[derive(Clone, Copy)]
pub(crate) struct VerifiedMirror<'m> {
    pub(crate) settings: &'m MirrorSettings,
    /// Whether the current objects alone are compared.
    pub(crate) current: bool,
}

/// Compares the listings of the server and of the target, and shows the differences.
///
/// # Errors
/// A message for the operator: one of the two does not answer, or the target differs.
pub(crate) fn verify(
    mirror: VerifiedMirror<'_>,
    server: &ServerAddress,
    options: &ServerOptions,
    environment: &Environment,
) -> Result<(), CliError> {
    let here = api_client::peer(server, options, environment)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let there = Mirror::new(mirror.settings.clone(), clock).map_err(CliError::refused)?;
    let mut links = BothLinks { source: PeerLink::new(&here), target: PeerLink::new(there.peer()) };
    // Beside the listings, which go on meanwhile.
    let mut probe = BothLinks { source: PeerLink::new(&here), target: PeerLink::new(there.peer()) };
    let mut found = MirrorDifferences::default();
    for bucket in bucket_names(&mut links.source).map_err(unfinished)? {
        for prefix in mirror.settings.prefixes_of(&bucket) {
            for both in [&mut links, &mut probe] {
                both.source.enter(&bucket);
                both.target.enter(&mirror.settings.bucket_for(&bucket));
            }
            compare_prefix(&mut links, &mut probe, mirror, &bucket, &prefix, &mut found)?;
        }
    }
    found.outcome()
}

fn unfinished(why: impl Display) -> CliError {
    CliError::refused(format!("the comparison was not finished: {why}"))
}

/// The links to this server and to the target of a mirror.
struct BothLinks<'p> {
    source: PeerLink<'p>,
    target: PeerLink<'p>,
}

/// Compares the keys below a prefix of `bucket`, which all links have entered.
fn compare_prefix(
    links: &mut BothLinks<'_>,
    probe: &mut BothLinks<'_>,
    mirror: VerifiedMirror<'_>,
    bucket: &str,
    prefix: &str,
    found: &mut MirrorDifferences,
) -> Result<(), CliError> {
    let here = versions_state(&mut links.source).map_err(|error| unfinished(error.text()))?;
    let there = versions_state(&mut links.target).map_err(|error| unfinished(error.text()))?;
    let mut versions = false;
    if !mirror.current {
        found.compare_versioning(bucket, here, there);
        versions = here.may_have_versions() && there.may_have_versions();
    }
    compare(links, &mirror.settings.target_prefix, prefix, versions, &mut |key| {
        let key = match key {
            ComparedKey::OtherTags(here, there) => probe.compared(&here, &there)?,
            key => key,
        };
        let key = match key {
            ComparedKey::Missing(here) => probe.without_client_keys(here, None)?,
            ComparedKey::Different(here, there) => probe.without_client_keys(here, Some(there))?,
            key => key,
        };
        found.add(bucket, key);
        Ok(())
    })
    .map_err(unfinished)
}

/// The differences that a comparison found.
#[derive(Default)]
struct MirrorDifferences {
    compared: u64,
    missing: u64,
    different: u64,
    extra: u64,
    /// Keys that only differ in how many delete markers are in a row.
    marker_runs: u64,
    /// Keys with encrypted versions whose bytes could not be compared.
    unproven: u64,
    /// Keys with versions under the key of a client, and alike but for those.
    of_clients: u64,
    /// Buckets that keep versions here, and not at the target.
    unversioned: u64,
    lines: Vec<String>,
}

impl MirrorDifferences {
    fn note(&mut self, count: fn(&mut Self) -> &mut u64, what: &str, bucket: &str, key: &str) {
        *count(self) += 1;
        if *count(self) <= NAMED_MAX {
            self.lines.push(format!("{what}\t{bucket}/{key}"));
        }
    }

    fn outcome(mut self) -> Result<(), CliError> {
        let Self { compared, missing, different, extra, marker_runs, unproven, of_clients, .. } = self;
        let unversioned = self.unversioned;
        if marker_runs > 0 {
            self.lines.push(format!(
                "{marker_runs} keys are the same but for the number of delete markers in a row, of which some servers keep one"
            ));
        }
        if unproven > 0 {
            self.lines.push(format!(
                "{unproven} keys are encrypted under keys (SSE-KMS), so that their entity tags say nothing of their bytes: lengths and \
                 metadata are the same, and there are no checksums of both sides to compare"
            ));
        }
        if of_clients > 0 {
            self.lines.push(format!(
                "{of_clients} keys are encrypted under keys of their clients (SSE-C): not comparable without those, and not sent by the mirror"
            ));
        }
        self.lines.push(format!(
            "{compared} keys compared: {missing} missing, {different} different, {extra} only at the target"
        ));
        announce::lines(self.lines)
            .map_err(|e| CliError::refused(format!("cannot show the differences: {e}")))?;
        match missing + different + extra + unversioned {
            0 => Ok(()),
            _ => Err(CliError::refused(
                "the target differs: if the mirror is current, `siltstone mirror resync` mends it",
            )),
        }
    }
}

/// A key of one or both sides, and whether both are alike.
enum ComparedKey {
    Alike,
    /// Alike but for entity tags, here and there, which may be no digests.
    OtherTags(PeerKey, PeerKey),
    /// Alike as far as it can be told: an encrypted version has no digest of its bytes.
    Unproven,
    /// Alike but for the number of delete markers in a row.
    MarkerRuns,
    /// Alike but for versions under the key of a client, which no mirror sends.
    OfClient,
    Missing(PeerKey),
    /// Here and there.
    Different(PeerKey, PeerKey),
    Extra(String),
}

impl MirrorDifferences {
    /// Names a bucket of which the target cannot have every version.
    fn compare_versioning(&mut self, bucket: &str, here: PeerVersioning, there: PeerVersioning) {
        let there = match there {
            PeerVersioning::Enabled => return,
            PeerVersioning::Suspended => "suspended",
            PeerVersioning::Unset => "not enabled",
            PeerVersioning::Unsupported => "not known",
        };
        if here.may_have_versions() {
            self.unversioned += 1;
            self.lines.push(format!("versions\t{bucket}: kept here, and {there} at the target"));
        }
    }

    fn add(&mut self, bucket: &str, compared: ComparedKey) {
        self.compared += 1;
        match compared {
            // They are looked at before.
            ComparedKey::Alike | ComparedKey::OtherTags(..) => {}
            ComparedKey::Unproven => self.unproven += 1,
            ComparedKey::MarkerRuns => self.marker_runs += 1,
            ComparedKey::OfClient => self.of_clients += 1,
            ComparedKey::Missing(here) => self.note(|it| &mut it.missing, "missing", bucket, &here.key),
            ComparedKey::Different(here, _) => {
                self.note(|it| &mut it.different, "different", bucket, &here.key);
            }
            ComparedKey::Extra(key) => self.note(|it| &mut it.extra, "extra", bucket, &key),
        }
    }
}

/// Compares two listings, both of which are sorted by key, and that of the target below
/// `target_prefix`. A second thread lists the target.
fn compare(
    links: &mut BothLinks<'_>,
    target_prefix: &str,
    prefix: &str,
    versions: bool,
    found: &mut dyn FnMut(ComparedKey) -> Result<(), String>,
) -> Result<(), String> {
    let BothLinks { source, target } = links;
    let (sender, there) = bounded::<PeerKey>(KEYS_AHEAD);
    let below = format!("{target_prefix}{prefix}");
    thread::scope(|scope| {
        let listing =
            scope.spawn(move || visit_keys(target, &below, versions, &mut |key| sender.send(key).is_ok()));
        let name = |key: &PeerKey| key.key.strip_prefix(target_prefix).unwrap_or(&key.key).to_owned();
        let mut next = there.recv().ok();
        let mut told = Ok(());
        let listed = visit_keys(source, prefix, versions, &mut |here| {
            while let Some(extra) = next.take_if(|key| name(key).cmp(&here.key) == Ordering::Less) {
                told = told.clone().and_then(|()| found(ComparedKey::Extra(name(&extra))));
                next = there.recv().ok();
            }
            let same = next.take_if(|key| name(key) == here.key);
            let key = match same {
                Some(same) => {
                    next = there.recv().ok();
                    compared(here, same)
                }
                None => ComparedKey::Missing(here),
            };
            told = told.clone().and_then(|()| found(key));
            told.is_ok()
        });
        let listed = listed.and(told);
        // What a broken listing of the source does not name may be there.
        if listed.is_ok() {
            for extra in next.into_iter().chain(there.iter()) {
                found(ComparedKey::Extra(name(&extra)))?;
            }
        }
        // Where the source failed, the other thread may wait for room: this ends it.
        drop(there);
        listed.and(listing.join().unwrap_or_else(|_| Err("a panic".to_owned())))
    })
}

impl BothLinks<'_> {
    /// The comparison of two keys that are alike but for entity tags.
    fn compared(&mut self, here: &PeerKey, there: &PeerKey) -> Result<ComparedKey, String> {
        let mut is_proven = true;
        let pairs = without_repeated_markers(here).zip(without_repeated_markers(there));
        for (one, other) in pairs.filter(|(one, other)| likeness(one, other) == Likeness::OtherTags) {
            let looked = looked_at(&mut self.source, &here.key, one)?;
            let Some((one, checksums)) = looked else {
                return Ok(ComparedKey::Different(here.clone(), there.clone()));
            };
            let looked = looked_at(&mut self.target, &there.key, other)?;
            let Some((other, checksums_there)) = looked else {
                return Ok(ComparedKey::Different(here.clone(), there.clone()));
            };
            let are_digests = one.has_digest() && other.has_digest();
            let agreed = checksums.agree(&checksums_there);
            if are_digests || one.kept != other.kept || agreed == Some(false) {
                return Ok(ComparedKey::Different(here.clone(), there.clone()));
            }
            is_proven &= agreed == Some(true);
        }
        Ok(if is_proven { ComparedKey::Alike } else { ComparedKey::Unproven })
    }

    /// The comparison of two keys that are not alike, without the versions that the key of a client
    /// encrypts.
    fn without_client_keys(&mut self, here: PeerKey, there: Option<PeerKey>) -> Result<ComparedKey, String> {
        let mut kept = PeerKey { versions: Vec::new(), ..here.clone() };
        for version in &here.versions {
            let is_of_client = !version.delete_marker
                && takes_client_key(&mut self.source, &here.key, version.id.as_deref())
                    .map_err(|error| format!("{}: {}", here.key, error.text()))?;
            if !is_of_client {
                kept.versions.push(version.clone());
            }
        }
        let is_all = kept.versions.len() == here.versions.len();
        // What stands at the target in place of such a version was sent before.
        let has_none = kept.versions.iter().all(|version| version.delete_marker);
        match there {
            None if is_all => Ok(ComparedKey::Missing(here)),
            Some(there) if is_all => Ok(ComparedKey::Different(here, there)),
            _ if has_none => Ok(ComparedKey::OfClient),
            None => Ok(ComparedKey::Missing(here)),
            Some(there) => match compared(kept, there) {
                ComparedKey::OtherTags(kept, there) => match self.compared(&kept, &there)? {
                    different @ ComparedKey::Different(..) => Ok(different),
                    _ => Ok(ComparedKey::OfClient),
                },
                different @ ComparedKey::Different(..) => Ok(different),
                _ => Ok(ComparedKey::OfClient),
            },
        }
    }
}

/// What a server tells of a version; `None` where it went meanwhile, or takes the key of a client,
/// so that no mirror has sent it.
fn looked_at(
    link: &mut PeerLink<'_>,
    key: &str,
    version: &PeerVersion,
) -> Result<Option<(StoredAttributes, StoredChecksums)>, String> {
    match checked_attributes_of(link, key, version.id.as_deref()) {
        Err(PeerError::Absent | PeerError::Lasting(_)) => Ok(None),
        found => found.map(Some).map_err(|error| format!("{key}: {}", error.text())),
    }
}

/// The comparison of two keys. Delete markers in a row carry no data, and some servers keep one of
/// them.
fn compared(here: PeerKey, there: PeerKey) -> ComparedKey {
    if here.fault.is_some() || there.fault.is_some() {
        return ComparedKey::Different(here, there);
    }
    if all_alike(&here.versions, &there.versions) == Likeness::Alike {
        return ComparedKey::Alike;
    }
    match all_alike(without_repeated_markers(&here), without_repeated_markers(&there)) {
        Likeness::Alike => ComparedKey::MarkerRuns,
        Likeness::OtherTags => ComparedKey::OtherTags(here, there),
        Likeness::Different => ComparedKey::Different(here, there),
    }
}

/// The versions without delete markers after another one.
fn without_repeated_markers(key: &PeerKey) -> impl Iterator<Item = &PeerVersion> {
    let mut follows_marker = false;
    key.versions.iter().filter(move |version| {
        !(std::mem::replace(&mut follows_marker, version.delete_marker) && version.delete_marker)
    })
}

/// How far listings show that two versions are the same. The last is the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    Alike,
    /// Both state entity tags of one form, and others.
    OtherTags,
    Different,
}

/// Whether both have the same versions.
fn all_alike<'v>(
    here: impl IntoIterator<Item = &'v PeerVersion>,
    there: impl IntoIterator<Item = &'v PeerVersion>,
) -> Likeness {
    let mut here = here.into_iter();
    let mut there = there.into_iter();
    let mut least = Likeness::Alike;
    loop {
        match (here.next(), there.next()) {
            (Some(one), Some(other)) => least = least.max(likeness(one, other)),
            (None, None) => return least,
            _ => return Likeness::Different,
        }
    }
}

/// Whether two versions may be the same. Entity tags of different forms, as of an upload in parts
/// and of a put, say nothing about each other.
fn likeness(one: &PeerVersion, other: &PeerVersion) -> Likeness {
    if one.delete_marker != other.delete_marker || one.length != other.length {
        return Likeness::Different;
    }
    match one.etag == other.etag || tag_form(&one.etag) != tag_form(&other.etag) {
        true => Likeness::Alike,
        false => Likeness::OtherTags,
    }
}

/// The length and the count of parts: tags of one form differ by their digest alone.
fn tag_form(etag: &str) -> (usize, Option<&str>) {
    (etag.len(), etag.rsplit_once('-').map(|(_, parts)| parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key with versions of these bytes, where `-` is a delete marker.
    fn key(versions: &str) -> PeerKey {
        let version = |byte: char| PeerVersion {
            id: None,
            delete_marker: byte == '-',
            length: 1,
            etag: byte.to_string(),
            modified: None,
        };
        PeerKey { key: "k".to_owned(), versions: versions.chars().map(version).collect(), fault: None }
    }

    /// The name of what was found, and its key.
    fn told(here: &str, there: &str) -> &'static str {
        match compared(key(here), key(there)) {
            ComparedKey::Alike => "alike",
            ComparedKey::MarkerRuns => "runs",
            ComparedKey::OtherTags(..) => "tags",
            ComparedKey::Different(..) => "different",
            ComparedKey::Unproven
            | ComparedKey::OfClient
            | ComparedKey::Missing(_)
            | ComparedKey::Extra(_) => "other",
        }
    }

    #[test]
    fn delete_markers_in_a_row_count_once() {
        assert_eq!(told("a--b", "a--b"), "alike");
        for (here, there) in [("a--b", "a-b"), ("---", "-"), ("a-b", "a---b"), ("--a-", "-a--")] {
            assert_eq!(told(here, there), "runs", "{here} {there}");
        }
        for (here, there) in [("a-b", "ab"), ("aa", "a"), ("a--", "a"), ("a", "ab"), ("", "-")] {
            assert_eq!(told(here, there), "different", "{here} {there}");
        }
        for (here, there) in [("a-b", "a-c"), ("a", "b"), ("a--b", "c-b"), ("a-b", "b-a")] {
            assert_eq!(told(here, there), "tags", "{here} {there}");
        }
    }
}
