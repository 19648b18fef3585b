//! The way back of a prefix to a time: the changes that it takes, key by key, and each change by a
//! request of S3.

use super::copy::{ObjectCopy, ObjectPlace};
use super::objects::{Folder, ObjectLine};
use super::s3_client::{Refusal, S3Client, S3Request, target};
use crate::base::Timestamp;
use crate::s3::Method;

/// Changes of one step.
const CHANGES_MAX: usize = 200;
/// Versions that one step reads, and then versions of its last key that are newer than the time.
const VERSIONS_MAX: usize = 10_000;

/// The content of a key at the time, which differs from its current one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RewindTarget {
    /// An older version.
    Version { version: String, size: u64 },
    /// No object.
    Absence,
}

/// A change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RewindChange {
    pub(super) key: String,
    pub(super) target: RewindTarget,
    /// The entity tag of the current version; `None` for a delete marker.
    current: Option<String>,
    /// The time of the current version.
    pub(super) modified: Timestamp,
}

/// The changes of some keys.
#[derive(Default)]
pub(super) struct RewindStep {
    pub(super) changes: Vec<RewindChange>,
    /// The last key of the step, if there are further ones.
    pub(super) next: Option<String>,
}

/// A prefix of a bucket and the time to return to.
#[derive(Clone, Copy)]
pub(super) struct Rewind<'a> {
    pub(super) bucket: &'a str,
    pub(super) prefix: &'a str,
    pub(super) time: Timestamp,
}

/// The key whose versions are read.
struct KeyInProgress {
    key: String,
    /// Its newest version.
    current: ObjectLine,
    /// Whether its version at the time has been met.
    is_decided: bool,
}

impl RewindStep {
    /// Reads the changes of the keys after `after`: some hundreds at most.
    ///
    /// # Errors
    /// Errors of ListObjectVersions.
    pub(super) fn read(s3: &S3Client<'_>, rewind: Rewind<'_>, after: Option<&str>) -> Result<Self, Refusal> {
        let folder = Folder { bucket: rewind.bucket, prefix: rewind.prefix, is_grouped: false };
        let mut step = Self::default();
        let mut versions = 0;
        let mut open = None::<KeyInProgress>;
        let mut cursor = after.map(|key| (key.to_owned(), None));
        loop {
            let page = s3.versions(folder, cursor.as_ref().map(|(key, id)| (&**key, id.as_deref())))?;
            for line in page.objects {
                if open.as_ref().is_none_or(|open| open.key != line.key) {
                    // A step ends between two keys: the next one begins after a key, with all of
                    // its versions.
                    let ended = step.close(open.take())?;
                    if step.changes.len() >= CHANGES_MAX || versions >= VERSIONS_MAX {
                        step.next = ended;
                        return Ok(step);
                    }
                }
                versions += 1;
                step.add(line, &mut open, rewind.time)?;
            }
            let Some(next) = page.next else { break };
            // The rest of a decided key is skipped.
            let decided = open.as_ref().filter(|open| open.is_decided);
            cursor = Some(decided.map_or(next, |open| (open.key.clone(), None)));
        }
        step.close(open)?;
        Ok(step)
    }

    /// Adds the next version of the key `open`, the newest one first.
    fn add(
        &mut self,
        line: ObjectLine,
        open: &mut Option<KeyInProgress>,
        time: Timestamp,
    ) -> Result<(), Refusal> {
        let open = open.get_or_insert_with(|| KeyInProgress {
            key: line.key.clone(),
            current: line.clone(),
            is_decided: false,
        });
        if open.is_decided || modified(&line)? > time {
            return Ok(());
        }
        // The newest version comes first, so this one was the current one at the time.
        open.is_decided = true;
        let is_same = line.version == open.current.version;
        match (is_same, line.is_marker) {
            (true, _) => {}
            (false, true) => self.remove(&open.current)?,
            (false, false) => {
                let version = line.version.unwrap_or_default();
                self.change(&open.current, RewindTarget::Version { version, size: line.size })?;
            }
        }
        Ok(())
    }

    /// Ends a key and returns it. Without a version of the time it did not exist.
    fn close(&mut self, open: Option<KeyInProgress>) -> Result<Option<String>, Refusal> {
        let Some(open) = open else { return Ok(None) };
        if !open.is_decided {
            self.remove(&open.current)?;
        }
        Ok(Some(open.key))
    }

    fn remove(&mut self, current: &ObjectLine) -> Result<(), Refusal> {
        match current.is_marker {
            true => Ok(()),
            false => self.change(current, RewindTarget::Absence),
        }
    }

    fn change(&mut self, current: &ObjectLine, target: RewindTarget) -> Result<(), Refusal> {
        let tag = (!current.is_marker).then(|| current.etag.clone());
        let modified = modified(current)?;
        self.changes.push(RewindChange { key: current.key.clone(), target, current: tag, modified });
        Ok(())
    }
}

impl RewindChange {
    /// Makes the change, if the current version is still the one that was listed. Durable on
    /// return.
    ///
    /// # Errors
    /// Errors of CopyObject and DeleteObject.
    pub(super) fn make(&self, s3: &S3Client<'_>, bucket: &str) -> Result<(), Refusal> {
        let condition = match &self.current {
            Some(tag) => ("if-match", &**tag),
            // A delete marker has no entity tag: the change is made if there still is no object.
            None => ("if-none-match", "*"),
        };
        match &self.target {
            RewindTarget::Absence => {
                let object = target(Some(bucket), Some(&self.key))?;
                let request = S3Request { headers: &[condition], ..S3Request::default() };
                s3.send(Method::Delete, object, request).map(drop)
            }
            RewindTarget::Version { version, .. } => {
                let head = s3.head(bucket, &self.key, Some(version))?;
                let place = ObjectPlace { bucket, key: &self.key };
                let copy = ObjectCopy {
                    source: place,
                    version: Some(version),
                    head: &head,
                    target: place,
                    metadata: None,
                    condition: Some(condition),
                };
                copy.make(s3)
            }
        }
    }
}

/// The time at which a version was stored.
///
/// # Errors
/// It cannot be read.
pub(super) fn modified(line: &ObjectLine) -> Result<Timestamp, Refusal> {
    let time = Timestamp::parse_iso8601(line.stored.as_ref().unwrap_or(&line.modified));
    time.ok_or_else(|| Refusal::new(500, "The time of a version cannot be read."))
}

/// A time that a person wrote, in UTC: `2026-01-31 12:00`, with or without seconds, or as in
/// ISO 8601.
///
/// # Errors
/// It is none.
pub(super) fn time(text: &str) -> Result<Timestamp, Refusal> {
    let text = text.trim().replacen(' ', "T", 1);
    let whole = match text.len() {
        10 => format!("{text}T00:00:00Z"),
        16 => format!("{text}:00Z"),
        19 => format!("{text}Z"),
        _ => text,
    };
    let time = Timestamp::parse_iso8601(&whole);
    time.ok_or_else(|| Refusal::new(400, "A time is written as 2026-01-31 12:00, in UTC."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(key: &str, version: &str, second: u32, is_marker: bool) -> ObjectLine {
        ObjectLine {
            key: key.to_owned(),
            size: 1,
            modified: format!("2026-01-31T12:00:{second:02}.000Z"),
            stored: None,
            etag: format!("\"{version}\""),
            version: Some(version.to_owned()),
            is_current: false,
            is_marker,
        }
    }

    /// The changes back to second 10, of versions as a listing has them.
    fn changes(lines: Vec<ObjectLine>) -> Vec<(String, RewindTarget)> {
        let mut step = RewindStep::default();
        let mut open = None;
        for line in lines {
            if open.as_ref().is_some_and(|open: &KeyInProgress| open.key != line.key) {
                step.close(open.take()).unwrap();
            }
            step.add(line, &mut open, time("2026-01-31 12:00:10").unwrap()).unwrap();
        }
        step.close(open).unwrap();
        step.changes.into_iter().map(|change| (change.key, change.target)).collect()
    }

    #[test]
    fn each_key_gets_the_content_of_the_time() {
        let found = changes(vec![
            line("changed", "c3", 12, false),
            line("changed", "c2", 10, false),
            line("changed", "c1", 1, false),
            line("deleted", "d2", 11, true),
            line("deleted", "d1", 9, false),
            line("deleted twice", "t4", 12, true),
            line("deleted twice", "t3", 11, false),
            line("deleted twice", "t2", 10, true),
            line("deleted twice", "t1", 1, false),
            line("new", "n1", 11, false),
            line("new and gone", "g2", 12, true),
            line("new and gone", "g1", 11, false),
            line("returned", "r3", 11, false),
            line("returned", "r2", 10, true),
            line("returned", "r1", 9, false),
            line("same", "s1", 10, false),
        ]);
        let version = |version: &str| RewindTarget::Version { version: version.to_owned(), size: 1 };
        assert_eq!(
            found,
            [
                ("changed".to_owned(), version("c2")),
                ("deleted".to_owned(), version("d1")),
                ("new".to_owned(), RewindTarget::Absence),
                ("returned".to_owned(), RewindTarget::Absence),
            ]
        );
    }

    #[test]
    fn times_are_written_in_several_ways() {
        let moment = Timestamp::parse_iso8601("2026-01-31T12:00:00Z").unwrap();
        for text in
            ["2026-01-31 12:00", "2026-01-31T12:00", " 2026-01-31 12:00:00 ", "2026-01-31T12:00:00.000Z"]
        {
            assert_eq!(time(text).unwrap(), moment, "{text}");
        }
        assert_eq!(time("2026-01-31").unwrap().to_iso8601(), "2026-01-31T00:00:00.000Z");
        for text in ["", "yesterday", "2026-13-01 12:00", "2026-01-31 25:00", "éééééééé", "ééééééééé1"]
        {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
