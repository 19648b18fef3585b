//! The places of drives in sets: by format.json where it is there, else by what the drives hold.
//!
//! 1. Drives of one deployment, each once. Drives that disagree on the sets: the majority is right,
//!    unless both lists have drives of their own: those are pools.
//! 2. A drive that names its place has it.
//! 3. A drive that does not joins the set whose drives hold one of its objects. Among drives none of
//!    which names a place, those that hold the same object are a set, whose size that object tells.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::drive::{Drive, XL_META};
use super::format::format_json::DriveMode;
use super::format::version::{Coding, VersionBody};
use super::format::xl_json;
use super::format::xl_meta::{XL_META_MAX_BYTES, XlMeta};

/// The most drives that are read at once: one bit of a mask each.
pub(crate) const DRIVES_MAX: usize = 64;
/// The objects of a drive that are looked at for its place and its code.
const SAMPLES: usize = 20;

/// A set of drives: every object is in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DriveSet {
    /// The pool, in the order of the given drives.
    pub(crate) pool: usize,
    /// The number within its pool, from 1.
    pub(crate) number: usize,
    /// The drives that it had.
    pub(crate) size: usize,
    /// The drives of it that were given.
    pub(crate) given: Vec<usize>,
    /// The data shards of the objects that were looked at.
    pub(crate) needed: usize,
}

/// All drives that were given.
pub(crate) struct Deployment {
    pub(crate) drives: Vec<Drive>,
    pub(crate) sets: Vec<DriveSet>,
    /// The set of each drive.
    pub(crate) set_of: Vec<usize>,
    /// The place in its set, of drives that name it.
    pub(crate) place_of: Vec<Option<usize>>,
    /// The UUID, if a drive has it.
    pub(crate) id: Option<String>,
    /// Oddities that the report names.
    pub(crate) notes: Vec<String>,
}

impl Deployment {
    /// Opens the drives.
    ///
    /// # Errors
    /// A message that names the directory: it is no drive, it was given twice, or it is of another
    /// deployment.
    pub(crate) fn open(paths: &[PathBuf]) -> Result<Self, String> {
        if paths.len() > DRIVES_MAX {
            return Err(format!("{} drives were given, and {DRIVES_MAX} are read at once", paths.len()));
        }
        let mut drives: Vec<Drive> = Vec::new();
        for path in paths {
            let drive = Drive::open(path)?;
            if let Some(former) = drives.iter().find(|former| former.is_same(&drive)) {
                return Err(format!("{} and {} are the same drive", former.name(), drive.name()));
            }
            drives.push(drive);
        }
        let id = one_deployment(&drives)?;
        let mut notes = Vec::new();
        for drive in &drives {
            if let Some(why) = &drive.format_fault {
                notes.push(format!("{}/.minio.sys/format.json: {why}", drive.name()));
            }
        }
        let set_of = vec![0; drives.len()];
        let place_of = vec![None; drives.len()];
        let mut deployment = Self { drives, sets: Vec::new(), set_of, place_of, id, notes };
        deployment.place();
        Ok(deployment)
    }

    /// The buckets that were named, or all.
    ///
    /// # Errors
    /// A message: no drive has one.
    pub(crate) fn chosen_buckets(&self, named: &[String]) -> Result<Vec<String>, String> {
        let mut there: Vec<String> = Vec::new();
        for drive in &self.drives {
            there.extend(drive.buckets().map_err(|error| format!("{}: {error}", drive.name()))?);
        }
        there.sort();
        there.dedup();
        if let Some(absent) = named.iter().find(|name| !there.contains(name)) {
            return Err(format!("no drive has the bucket {absent}; there are: {}", there.join(", ")));
        }
        Ok(if named.is_empty() { there } else { named.to_vec() })
    }

    /// What is missing: a message for each set with too few drives for its objects.
    pub(crate) fn missing(&self) -> Vec<String> {
        let has_pools = self.sets.iter().any(|set| set.pool > 0);
        let mut missing = Vec::new();
        for set in self.sets.iter().filter(|set| set.given.len() < set.needed) {
            let DriveSet { pool, number, size, given, needed } = set;
            let pool = if has_pools { format!(" of pool {}", pool + 1) } else { String::new() };
            let given = given.len();
            missing.push(format!("set {number}{pool} has {given} of {size} drives, {needed} are needed"));
        }
        missing
    }

    fn place(&mut self) {
        // What drives say of themselves comes first: the others are placed beside them.
        let unplaced = self.place_by_format();
        self.place_by_content(&unplaced);
        for set in &mut self.sets {
            set.needed = needed(&self.drives, set);
        }
        // A set without drives is coded as the others of its pool.
        let mut of_pools: BTreeMap<usize, usize> = BTreeMap::new();
        for set in &self.sets {
            let most = of_pools.entry(set.pool).or_default();
            *most = set.needed.max(*most);
        }
        for set in self.sets.iter_mut().filter(|set| set.given.is_empty()) {
            set.needed = of_pools[&set.pool];
        }
    }

    /// Places the drives that name their place; returns the others.
    fn place_by_format(&mut self) -> Vec<usize> {
        let mut votes: BTreeMap<Vec<Vec<String>>, usize> = BTreeMap::new();
        for drive in &self.drives {
            if let Some((_, sets)) = erasure_of(drive) {
                *votes.entry(sets.clone()).or_default() += 1;
            }
        }
        let mut by_votes: Vec<_> = votes.into_iter().collect();
        by_votes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let mut known = BTreeSet::new();
        let mut places: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        let mut pool = 0;
        for (lists, _) in by_votes {
            let names: Vec<&String> = lists.iter().flatten().collect();
            if names.iter().any(|name| known.contains(*name)) {
                self.notes.push("drives disagree on the sets; the most of them are followed".to_owned());
                continue;
            }
            known.extend(names.into_iter().cloned());
            for (at, list) in lists.iter().enumerate() {
                let in_order = list.iter().enumerate();
                places.extend(in_order.map(|(place, name)| (name.clone(), (self.sets.len(), place))));
                let set = DriveSet { pool, number: at + 1, size: list.len(), given: Vec::new(), needed: 1 };
                self.sets.push(set);
            }
            pool += 1;
        }
        let mut unplaced = Vec::new();
        for at in 0..self.drives.len() {
            match erasure_of(&self.drives[at]).and_then(|(this, _)| places.get(this).copied()) {
                Some((set, place)) => {
                    self.put(at, set);
                    self.place_of[at] = Some(place);
                }
                None => unplaced.push(at),
            }
        }
        unplaced
    }

    fn put(&mut self, drive: usize, set: usize) {
        self.set_of[drive] = set;
        self.sets[set].given.push(drive);
    }

    fn place_by_content(&mut self, unplaced: &[usize]) {
        let mut sampled: Vec<(usize, Vec<String>)> =
            unplaced.iter().map(|at| (*at, self.drives[*at].some_objects(SAMPLES))).collect();
        // Those without metadata of an object join what the others form.
        sampled.sort_by_key(|(_, samples)| samples.is_empty());
        for (at, samples) in sampled {
            self.place_of[at] = samples.iter().find_map(|path| place_in(&self.drives[at], path));
            // Where one set alone has a gap, a drive can be of no other.
            let only_gap = self.sets.iter().filter(|set| set.given.len() < set.size).count() == 1;
            let found = self
                .sets
                .iter()
                .position(|set| set.given.len() < set.size && (only_gap || self.holds_one(set, &samples)));
            if let Some(set) = found {
                self.put(at, set);
                continue;
            }
            let size =
                samples.iter().filter_map(|path| code_of(&self.drives[at], path)).map(|(size, _)| size).max();
            let number = self.sets.len() + 1;
            self.sets.push(DriveSet {
                pool: 0,
                number,
                size: size.unwrap_or(1),
                given: Vec::new(),
                needed: 1,
            });
            self.put(at, number - 1);
        }
    }

    /// Whether a drive of the set has one of the objects.
    fn holds_one(&self, set: &DriveSet, paths: &[String]) -> bool {
        paths.iter().any(|path| {
            let file = format!("{path}/{XL_META}");
            set.given.iter().any(|drive| self.drives[*drive].open_file(&file).is_ok())
        })
    }
}

fn erasure_of(drive: &Drive) -> Option<(&str, &Vec<Vec<String>>)> {
    match &drive.format.as_ref()?.mode {
        DriveMode::Erasure { this, sets } => Some((this, sets)),
        DriveMode::FileSystem => None,
    }
}

/// The deployment of all drives.
fn one_deployment(drives: &[Drive]) -> Result<Option<String>, String> {
    let mut found: Option<(&Drive, &String)> = None;
    for drive in drives {
        let Some(id) = drive.format.as_ref().and_then(|format| format.deployment.as_ref()) else { continue };
        match found {
            Some((other, first)) if first != id => {
                return Err(format!(
                    "{} and {} are of two deployments, {first} and {id}",
                    other.name(),
                    drive.name()
                ));
            }
            Some(_) => {}
            None => found = Some((drive, id)),
        }
    }
    Ok(found.map(|(_, id)| id.clone()))
}

/// The drives of an object and its data shards.
fn code_of(drive: &Drive, path: &str) -> Option<(usize, usize)> {
    let codes = codings(drive, path)?.into_iter().map(|coding| (coding.distribution.len(), coding.data));
    codes.max_by_key(|(_, data)| *data)
}

/// The place of a drive, as an object on it tells: that of its shard in the distribution.
fn place_in(drive: &Drive, path: &str) -> Option<usize> {
    let coding = codings(drive, path)?.into_iter().next()?;
    coding.distribution.iter().position(|shard| usize::from(*shard) == coding.index)
}

/// The codes of the versions at a path.
fn codings(drive: &Drive, path: &str) -> Option<Vec<Coding>> {
    let versions = match drive.read_file(&format!("{path}/{XL_META}"), XL_META_MAX_BYTES) {
        Ok(bytes) => XlMeta::parse(&bytes).ok()?.versions,
        Err(_) => {
            let text =
                drive.read_file(&format!("{path}/{}", super::drive::XL_JSON), XL_META_MAX_BYTES).ok()?;
            vec![xl_json::parse(&text).ok()?]
        }
    };
    let codes = versions.into_iter().filter_map(|version| match version.body {
        VersionBody::Object(object) => Some(object.coding),
        VersionBody::DeleteMarker { .. } => None,
    });
    Some(codes.collect())
}

/// The data shards of the objects of a set, by the first drive that has one.
fn needed(drives: &[Drive], set: &DriveSet) -> usize {
    for at in &set.given {
        let samples = drives[*at].some_objects(SAMPLES);
        let codes = samples.iter().filter_map(|path| code_of(&drives[*at], path));
        if let Some(data) = codes.map(|(_, data)| data).max() {
            return data;
        }
    }
    1
}
