//! The versions of a key, as the drives of its set agree on them.
//!
//! 1. Each drive's file is read: `xl.meta`, else `xl.json`, and where `xl.meta` is damaged the copy
//!    from before an overwrite. A damaged file is reported, and counts as none.
//! 2. Entries are the same version if type, id, time, code, parts and encodings agree. The data
//!    directory may differ.
//! 3. An object is there if as many shards are as it takes to read it, those beside a lost or
//!    outdated xl.meta included; a delete marker, and an
//!    object without bytes, if half of the drives of the set have it. What fewer have is left from
//!    a time when those drives were away: it is told, and not imported.
//! 4. Of several that are there under one id, the newest counts.
//! 5. The order is that of the times.

use std::collections::{BTreeMap, BTreeSet};

use super::drive::{XL_JSON, XL_META};
use super::format::version::{
    PartChecksum, PartPlace, StoredObject, StoredVersion, VersionBody, uuid_text, version_name,
};
use super::format::xl_json;
use super::format::xl_meta::{XL_META_MAX_BYTES, XlMeta};
use super::layout::{Deployment, DriveSet};
use super::walk::{BACKUP, DriveMask, FoundPath, drives_in};

/// A key with its versions.
pub(crate) struct KeyVersions {
    /// The oldest first.
    pub(crate) versions: Vec<KeptVersion>,
    /// The entries that too few drives have.
    pub(crate) dangling: Vec<Dangling>,
    /// Files that cannot be read, and why.
    pub(crate) damage: Vec<(String, String)>,
    /// Versions that a client deleted, and that replication holds back.
    pub(crate) purged: u64,
    /// Entries without bytes that count since half of several drives have them.
    pub(crate) by_half: u64,
}

/// An entry that too few drives have.
pub(crate) struct Dangling {
    pub(crate) version: KeptVersion,
    /// How many have it, and how many should.
    pub(crate) found: usize,
    pub(crate) needed: usize,
}

/// A version of a key.
pub(crate) struct KeptVersion {
    /// The id, `null` for the version without one.
    pub(crate) id: String,
    /// The modification time in nanoseconds since 1970.
    pub(crate) modified: i64,
    /// The object; `None` for a delete marker.
    pub(crate) object: Option<KeptObject>,
}

/// An object, and where its shards are.
pub(crate) struct KeptObject {
    pub(crate) stored: StoredObject,
    pub(crate) shards: Vec<Shard>,
}

/// A shard of all parts of an object.
pub(crate) struct Shard {
    pub(crate) drive: usize,
    /// The number of the shard, from 0.
    pub(crate) index: usize,
    pub(crate) place: PartPlace,
    /// The bytes, if they are in xl.meta.
    pub(crate) inline: Option<Vec<u8>>,
    /// How each part of this shard is verified, in their order.
    pub(crate) checksums: Vec<PartChecksum>,
}

/// What entries of one version agree on.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    id: [u8; 16],
    modified: i64,
    kind: u8,
    data: usize,
    parity: usize,
    distribution: Vec<u16>,
    parts: Vec<(u32, u64)>,
    encodings: Vec<Vec<u8>>,
}

/// An entry of one drive.
struct DriveEntry {
    drive: usize,
    version: StoredVersion,
    inline: Option<Vec<u8>>,
}

/// The names of the internal metadata that change what the stored bytes mean.
const ENCODINGS: [&str; 3] = [
    "x-minio-internal-compression",
    "x-minio-internal-server-side-encryption-iv",
    "x-minio-internal-server-side-encryption-seal-algorithm",
];

impl Identity {
    fn of(version: &StoredVersion) -> Self {
        let mut identity = Self {
            id: version.id,
            modified: version.modified,
            kind: kind_of(version),
            data: 0,
            parity: 0,
            distribution: Vec::new(),
            parts: Vec::new(),
            encodings: Vec::new(),
        };
        if let VersionBody::Object(object) = &version.body {
            identity.data = object.coding.data;
            identity.parity = object.coding.parity;
            identity.distribution.clone_from(&object.coding.distribution);
            identity.parts = object.parts.iter().map(|part| (part.number, part.stored)).collect();
            identity.encodings = ENCODINGS
                .iter()
                .map(|name| object.internal.get(*name).cloned().unwrap_or_default())
                .collect();
        }
        identity
    }
}

/// The numbers of types on disk: 1 object, 2 delete marker, 3 object of the older form.
fn kind_of(version: &StoredVersion) -> u8 {
    match &version.body {
        VersionBody::Object(object) if object.legacy => 3,
        VersionBody::Object(_) => 1,
        VersionBody::DeleteMarker { .. } => 2,
    }
}

impl KeyVersions {
    /// Reads the files of a key on all drives that have one.
    pub(crate) fn read(deployment: &Deployment, bucket: &str, found: &FoundPath) -> Self {
        let mut key =
            Self { versions: Vec::new(), dangling: Vec::new(), damage: Vec::new(), purged: 0, by_half: 0 };
        // A key may be in several pools, while one is emptied.
        let mut by_set: BTreeMap<usize, DriveMask> = BTreeMap::new();
        for drive in drives_in(found.drives) {
            *by_set.entry(deployment.set_of[drive]).or_default() |= 1 << drive;
        }
        let mut kept = Vec::new();
        for (set, drives) in by_set {
            let entries = key.entries(deployment, &format!("{bucket}/{}", found.path), drives);
            let set = &deployment.sets[set];
            key.agree(
                entries,
                set,
                &|object| object.add_orphans(deployment, &set.given, &format!("{bucket}/{}", found.path)),
                &mut kept,
            );
        }
        key.choose(kept);
        key
    }

    /// Whether the newest version hides the key.
    pub(crate) fn is_hidden(&self) -> bool {
        self.versions.last().is_none_or(|version| version.object.is_none())
    }

    fn entries(&mut self, deployment: &Deployment, path: &str, drives: DriveMask) -> Vec<DriveEntry> {
        let mut entries = Vec::new();
        for at in drives_in(drives) {
            let drive = &deployment.drives[at];
            let file = format!("{path}/{XL_META}");
            let bytes = match drive.read_file(&file, XL_META_MAX_BYTES) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    let file = format!("{path}/{XL_JSON}");
                    let read = drive.read_file(&file, XL_META_MAX_BYTES).map_err(|error| error.to_string());
                    match read.and_then(|text| xl_json::parse(&text)) {
                        Ok(version) => entries.push(DriveEntry { drive: at, version, inline: None }),
                        Err(why) => self.damage.push((format!("{}/{file}", drive.name()), why)),
                    }
                    continue;
                }
                Err(error) => {
                    self.damage.push((format!("{}/{file}", drive.name()), error.to_string()));
                    continue;
                }
            };
            // A drive with a damaged file counts for the version before the overwrite at least.
            if let Err(why) = read_entries(at, &bytes, &mut entries) {
                self.damage.push((format!("{}/{file}", drive.name()), why));
                self.read_backup(deployment, path, at, &mut entries);
            }
        }
        entries
    }

    /// Reads the copy from before an overwrite that was cut off.
    fn read_backup(&mut self, deployment: &Deployment, path: &str, at: usize, entries: &mut Vec<DriveEntry>) {
        let drive = &deployment.drives[at];
        for entry in drive.entries(path).unwrap_or_default() {
            let Ok(name) = entry.name.into_string() else { continue };
            let Ok(bytes) = drive.read_file(&format!("{path}/{name}/{BACKUP}"), XL_META_MAX_BYTES) else {
                continue;
            };
            if read_entries(at, &bytes, entries).is_ok() {
                return;
            }
        }
    }

    /// Puts the entries of the drives of a set together.
    fn agree(
        &mut self,
        entries: Vec<DriveEntry>,
        set: &DriveSet,
        add_orphans: &dyn Fn(&mut KeptObject),
        kept: &mut Vec<(StoredVersion, KeptVersion)>,
    ) {
        let mut groups: BTreeMap<Identity, Vec<DriveEntry>> = BTreeMap::new();
        for entry in entries {
            groups.entry(Identity::of(&entry.version)).or_default().push(entry);
        }
        for group in groups.into_values() {
            let drives: BTreeSet<usize> = group.iter().map(|entry| entry.drive).collect();
            let first = group[0].version.clone();
            let half = set.size.div_ceil(2).min(set.given.len()).max(1);
            match &first.body {
                VersionBody::DeleteMarker { free: true, .. } => continue,
                VersionBody::DeleteMarker { purged: true, .. } => {
                    self.purged += 1;
                    continue;
                }
                VersionBody::Object(object) if is_purged(object) => {
                    self.purged += 1;
                    continue;
                }
                _ => {}
            }
            let mut version = kept_version(&first, group);
            let (found, needed) = match &mut version.object {
                Some(object) if object.stored.size > 0 => {
                    // Before they are counted: a lost xl.meta takes no bytes away.
                    add_orphans(object);
                    let shards: BTreeSet<_> = object.shards.iter().map(|shard| shard.index).collect();
                    (shards.len(), object.stored.coding.data)
                }
                _ => (drives.len(), half),
            };
            match found >= needed {
                true => {
                    let has_bytes = version.object.as_ref().is_some_and(|object| object.stored.size > 0);
                    self.by_half += u64::from(set.size > 1 && !has_bytes);
                    kept.push((first, version));
                }
                false => self.dangling.push(Dangling { version, found, needed }),
            }
        }
    }

    /// Keeps the newest of each id, in the order of their times.
    fn choose(&mut self, mut kept: Vec<(StoredVersion, KeptVersion)>) {
        // The newest first: of equal times the lower type, the greater signature, the greater id.
        kept.sort_by(|(a, _), (b, _)| {
            b.modified
                .cmp(&a.modified)
                .then(kind_of(a).cmp(&kind_of(b)))
                .then(b.signature.cmp(&a.signature))
                .then(b.id.cmp(&a.id))
        });
        let mut ids = BTreeSet::new();
        kept.retain(|(version, _)| ids.insert(version.id));
        self.versions = kept.into_iter().rev().map(|(_, version)| version).collect();
    }
}

impl KeptObject {
    /// Adds the shards of drives whose xl.meta is gone. Which shard a drive has follows from its place
    /// in the set, or where that is not known from what is left.
    fn add_orphans(&mut self, deployment: &Deployment, given: &[usize], path: &str) {
        let coding = &self.stored.coding;
        let PartPlace::DataDirectory(directory) = &self.stored.place else { return };
        if self.stored.size == 0 || self.shards.len() >= given.len().min(coding.distribution.len()) {
            return;
        }
        let directory = format!("{path}/{}", uuid_text(directory));
        let claimed: BTreeSet<usize> = self.shards.iter().map(|shard| shard.index).collect();
        let mut free: Vec<usize> =
            (0..coding.distribution.len()).filter(|at| !claimed.contains(at)).collect();
        let mut orphans = Vec::new();
        for drive in given {
            if self.shards.iter().any(|shard| shard.drive == *drive) {
                continue;
            }
            let entries = deployment.drives[*drive].entries(&directory);
            if entries.is_ok_and(|entries| !entries.is_empty()) {
                orphans.push(*drive);
            }
        }
        let mut placed = Vec::new();
        let mut unplaced = Vec::new();
        for drive in given {
            let by_place = deployment.place_of[*drive].and_then(|place| coding.distribution.get(place));
            let index = by_place.map(|shard| usize::from(*shard) - 1).filter(|index| free.contains(index));
            // What belongs to a drive is no other's, whether it has it or not.
            free.retain(|other| Some(*other) != index);
            match index {
                Some(index) if orphans.contains(drive) => placed.push((*drive, index)),
                None if orphans.contains(drive) => unplaced.push(*drive),
                _ => {}
            }
        }
        // Of two drives, either could have either shard.
        if let ([drive], [index]) = (&*unplaced, &*free) {
            placed.push((*drive, *index));
        }
        for (drive, index) in placed {
            let checksums = self.stored.parts.iter().map(|part| part.checksum.clone()).collect();
            let place = self.stored.place.clone();
            self.shards.push(Shard { drive, index, place, inline: None, checksums });
        }
    }
}

fn is_purged(object: &StoredObject) -> bool {
    object.internal.get("x-minio-internal-purgestatus").is_some_and(|state| !state.is_empty())
}

fn kept_version(first: &StoredVersion, group: Vec<DriveEntry>) -> KeptVersion {
    let object = match &first.body {
        VersionBody::DeleteMarker { .. } => None,
        VersionBody::Object(stored) => {
            let mut shards = Vec::with_capacity(group.len());
            for entry in group {
                let VersionBody::Object(object) = entry.version.body else { continue };
                shards.push(Shard {
                    drive: entry.drive,
                    index: object.coding.index - 1,
                    checksums: object.parts.into_iter().map(|part| part.checksum).collect(),
                    place: object.place,
                    inline: entry.inline,
                });
            }
            Some(KeptObject { stored: (**stored).clone(), shards })
        }
    };
    KeptVersion { id: version_name(&first.id), modified: first.modified, object }
}

/// Reads the versions of one file. Bytes of shards stand under the name of the version, of the data
/// directory, or in files of RustFS under the UUID of zeros.
fn read_entries(drive: usize, bytes: &[u8], entries: &mut Vec<DriveEntry>) -> Result<(), String> {
    // Before 2020-06 the file of this name had the older content.
    if bytes.first() == Some(&b'{') {
        let version = xl_json::parse(bytes)?;
        entries.push(DriveEntry { drive, version, inline: None });
        return Ok(());
    }
    let meta = XlMeta::parse(bytes).map_err(|fault| fault.to_string())?;
    for version in meta.versions {
        let mut names = vec![version_name(&version.id)];
        if let VersionBody::Object(object) = &version.body
            && let PartPlace::DataDirectory(directory) = &object.place
        {
            names.push(uuid_text(directory));
        }
        names.push(uuid_text(&version.id));
        let inline = names.iter().find_map(|name| meta.inline.get(&**name)).map(|bytes| bytes.to_vec());
        entries.push(DriveEntry { drive, version, inline });
    }
    Ok(())
}
