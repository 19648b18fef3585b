//! The directories of a store: the data directory, and a fast one where it has one (data-format.md,
//! section 23).
//!
//! Every command opens them here, so that none takes one of two for the whole. Each has a mark that
//! names the pair. `change` makes a pair of one directory, and one directory of a pair.

mod change;
mod error;
mod mark;
mod sides;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use change::ChangeProgress;
pub use error::DisksError;
pub use sides::{
    DescribedSide, DiskMirror, FillStep, MirrorHome, MirrorOptions, MirrorPlaces, OtherUse, RepairReport,
    SideChange, SideStatus, SidesRefusal,
};

use crate::base::{Entropy, Timestamp};
use crate::format::StoreId;
use crate::fs::{DiskPlace, File, Fs, Lock, OsFs, SplitFs, absolute, forward_fs};
use crate::log;

/// The directories that the options name.
#[derive(Debug, Clone)]
pub struct StoreDirectories {
    data: PathBuf,
    fast: Option<PathBuf>,
    mirror: Option<MirrorPlaces>,
}

/// What the directories are to each other.
#[derive(Debug, PartialEq, Eq)]
enum Pairing {
    /// There is one.
    One,
    /// Both belong together.
    Both(PathBuf),
    /// There are two, and no store in either.
    New(PathBuf),
}

impl StoreDirectories {
    /// The data directory, and the fast one where one is named.
    pub fn new(data: &Path, fast: Option<&Path>) -> Self {
        Self { data: data.to_owned(), fast: fast.map(Path::to_owned), mirror: None }
    }

    /// The two sides of a mirror.
    pub fn mirrored(places: MirrorPlaces) -> Self {
        let [first, _] = &places.sides;
        Self { data: first.clone(), fast: None, mirror: Some(places) }
    }

    /// Opens the directories of a store. Nothing is written.
    ///
    /// # Errors
    /// They do not belong together, or one of two is missing.
    pub fn open(&self) -> Result<Arc<dyn Fs>, DisksError> {
        if let Some(places) = &self.mirror {
            return places.look();
        }
        match self.pairing()? {
            Pairing::One => Ok(Arc::new(OsFs::new(&self.data))),
            Pairing::Both(fast) => Ok(self.split(&fast)),
            Pairing::New(_) => Err(DisksError::NoStore),
        }
    }

    /// As [`StoreDirectories::open`], to write there: where there are two without a store, they are
    /// marked as a pair, durably, and what a crash has left of segments that were moved is removed.
    ///
    /// # Errors
    /// As of [`StoreDirectories::open`], and of the disks.
    pub fn open_to_fill(&self, entropy: &dyn Entropy, now: Timestamp) -> Result<Arc<dyn Fs>, DisksError> {
        if self.mirror.is_some() {
            return Err(DisksError::OnlyLooks);
        }
        let fast = match self.pairing()? {
            Pairing::New(fast) => fast,
            Pairing::Both(fast) => {
                change::remove_moved(&OsFs::new(&self.data), &OsFs::new(&fast))?;
                return Ok(self.split(&fast));
            }
            Pairing::One => return Ok(Arc::new(OsFs::new(&self.data))),
        };
        let data_disk = OsFs::new(&self.data);
        let fast_disk = OsFs::new(&fast);
        data_disk.create_root()?;
        fast_disk.create_root()?;
        // First that which counts for nothing alone.
        let pair = new_pair(entropy);
        mark::mark_fast(&fast_disk, pair, now)?;
        mark::mark_data(&data_disk, pair, now)?;
        Ok(self.split(&fast))
    }

    /// Gives a store a fast directory, which is made if it is missing, and moves its log there. Durable
    /// on return. The segments stay where they are. `shown` gets the progress after each file.
    ///
    /// # Errors
    /// The directories are not fit for it, or in use, and errors of the disks: the store is as it
    /// was then.
    pub fn add(
        &self,
        entropy: &dyn Entropy,
        now: Timestamp,
        shown: &mut dyn FnMut(ChangeProgress),
    ) -> Result<(), DisksError> {
        let fast = match self.pairing() {
            Err(DisksError::NotAdded(fast)) => fast,
            Ok(Pairing::Both(_)) | Err(DisksError::FastMissing(_) | DisksError::OtherPair(_)) => {
                return Err(DisksError::IsPair);
            }
            Ok(Pairing::One | Pairing::New(_)) => return Err(DisksError::NoStore),
            Err(error) => return Err(error),
        };
        let fast_disk = OsFs::new(&fast);
        fast_disk.create_root()?;
        change::add(&OsFs::new(&self.data), &fast_disk, new_pair(entropy), now, shown)
    }

    /// Moves the log and the segments of the fast directory into the data directory, which is a store
    /// of its own then. Durable on return. `shown` gets the progress after each file.
    ///
    /// # Errors
    /// The directories are no pair, or in use; too little space in the data directory, before
    /// anything is written; errors of the disks: the pair is as it was then, with fewer segments in
    /// the fast directory.
    pub fn drain(&self, shown: &mut dyn FnMut(ChangeProgress)) -> Result<(), DisksError> {
        let Pairing::Both(fast) = self.pairing()? else { return Err(DisksError::NotAPair) };
        change::drain(&OsFs::new(&self.data), &OsFs::new(fast), shown)
    }

    /// Begins to give up a fast directory whose disk is dead. The data directory is locked until the
    /// end.
    ///
    /// # Errors
    /// The data directory has no fast one, or is in use; the fast one is there, or is not named; other
    /// files are in its place.
    pub fn begin_loss(&self) -> Result<LostPair, DisksError> {
        match self.pairing() {
            Err(DisksError::FastMissing(fast)) => {
                change::check_empty(&OsFs::new(fast))?;
                let data = Arc::new(OsFs::new(&self.data));
                let lock = change::begin_loss(data.as_ref())?;
                Ok(LostPair { data, _lock: lock })
            }
            Ok(Pairing::Both(fast)) => Err(DisksError::NotLost(fast)),
            Ok(_) | Err(DisksError::NotAdded(_)) => Err(DisksError::NotAPair),
            Err(error) => Err(error),
        }
    }

    /// Checks what an operator can have named wrongly. Nothing is written.
    fn pairing(&self) -> Result<Pairing, DisksError> {
        let data_disk = OsFs::new(&self.data);
        if mark::of_fast(&data_disk)?.is_some() {
            return Err(DisksError::IsFast);
        }
        if sides::is_side(&data_disk)? {
            return Err(DisksError::MirrorNotNamed);
        }
        let pair = mark::of_data(&data_disk)?;
        let Some(fast) = &self.fast else {
            return match pair {
                None => Ok(Pairing::One),
                Some(_) => Err(DisksError::FastNotNamed),
            };
        };
        check_apart(&self.data, fast)?;
        let fast_disk = OsFs::new(fast);
        match (pair, mark::of_fast(&fast_disk)?) {
            (Some(pair), Some(of_fast)) if pair == of_fast => Ok(Pairing::Both(fast.clone())),
            (Some(_), Some(_)) => Err(DisksError::OtherPair(fast.clone())),
            (Some(_), None) => Err(DisksError::FastMissing(fast.clone())),
            (None, _) if log::holds_store(&data_disk)? => Err(DisksError::NotAdded(fast.clone())),
            (None, _) if log::holds_store(&fast_disk)? => Err(DisksError::DataMissing(fast.clone())),
            (None, _) => Ok(Pairing::New(fast.clone())),
        }
    }

    fn split(&self, fast: &Path) -> Arc<dyn Fs> {
        Arc::new(SplitFs::new(Arc::new(OsFs::new(fast)), Arc::new(OsFs::new(&self.data))))
    }
}

/// A pair whose fast directory is being given up.
pub struct LostPair {
    data: Arc<OsFs>,
    _lock: Box<dyn Lock>,
}

impl LostPair {
    /// The data directory alone, without a log: one that is made there counts from the end on.
    pub fn data(&self) -> Arc<dyn Fs> {
        let disk: Arc<dyn Fs> = self.data.clone();
        Arc::new(UnmarkedFs { disk, mark: mark::data_path() })
    }

    /// Gives the fast directory up: the data directory is a store of its own from then on, with the log
    /// that was made there. Without one, a rebuild makes it from the segments. Durable on return.
    ///
    /// # Errors
    /// Of the disk: it is still a pair then.
    pub fn end(self) -> Result<(), DisksError> {
        change::end_loss(self.data.as_ref())
    }
}

/// A directory without its mark, which is no file of its store.
struct UnmarkedFs {
    disk: Arc<dyn Fs>,
    mark: String,
}

impl Fs for UnmarkedFs {
    forward_fs!(disk: open_read, open_uncached, create_dir, rename, link, remove, sync_dir, lock, space);

    fn create_on(&self, place: DiskPlace, path: &str) -> io::Result<Arc<dyn File>> {
        self.disk.create_on(place, path)
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.disk.open(path)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let mut names = self.disk.list(dir)?;
        names.retain(|name| format!("{dir}/{name}") != self.mark);
        Ok(names)
    }
}

/// Whether a directory is one of a pair with a fast one.
fn is_paired(disk: &dyn Fs) -> Result<bool, DisksError> {
    Ok(mark::of_data(disk)?.is_some() || mark::of_fast(disk)?.is_some())
}

fn new_pair(entropy: &dyn Entropy) -> StoreId {
    let mut id = [0; 16];
    entropy.fill(&mut id);
    StoreId(id)
}

/// Refuses directories of which one is in the other, or that are one.
fn check_apart(data: &Path, fast: &Path) -> Result<(), DisksError> {
    let data = absolute(data)?;
    let fast = absolute(fast)?;
    if data.starts_with(&fast) || fast.starts_with(&data) {
        return Err(DisksError::Overlap(fast));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeededEntropy;
    use crate::format::{Features, FileHeader, FileKind};

    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            Self { dir: tempfile::tempdir().unwrap() }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn of(&self, data: &str, fast: Option<&str>) -> StoreDirectories {
            StoreDirectories::new(&self.path(data), fast.map(|name| self.path(name)).as_deref())
        }

        fn make(&self, data: &str, fast: &str) {
            let entropy = SeededEntropy::new(data.len() as u64);
            self.of(data, Some(fast)).open_to_fill(&entropy, Timestamp::from_millis(1)).unwrap();
        }

        fn refusal(&self, data: &str, fast: Option<&str>) -> String {
            let Err(refusal) = self.of(data, fast).open() else { panic!("it was opened") };
            refusal.to_string()
        }
    }

    /// A file of the log, as a store has one.
    pub(super) fn put_log(dir: &Path) {
        let disk = OsFs::new(dir);
        disk.create_root().unwrap();
        disk.create_dir("meta").unwrap();
        let header = FileHeader {
            kind: FileKind::Log,
            store: StoreId([7; 16]),
            number: 1,
            features: Features::NONE,
            created: Timestamp::from_millis(1),
            previous_crc: 0,
        };
        disk.create("meta/0000000000000001.log").unwrap().write_all_at(&header.encode(), 0).unwrap();
    }

    #[test]
    fn a_pair_is_opened_as_one_and_neither_of_it_alone() {
        let place = Place::new();
        place.make("data", "fast");
        assert!(place.of("data", Some("fast")).open().unwrap().has_two_disks());
        assert!(place.refusal("data", None).contains("--fast-dir"));
        assert!(place.refusal("fast", None).contains("--data-dir"));
        assert!(place.refusal("fast", Some("data")).contains("--data-dir"));
        assert!(place.refusal("data", Some("missing")).contains("disk may not be mounted"));
        assert!(!place.path("missing").exists(), "nothing was made");
    }

    #[test]
    fn directories_that_do_not_belong_together_are_refused() {
        let place = Place::new();
        place.make("data", "fast");
        place.make("data2", "fast2");
        assert!(place.refusal("data", Some("fast2")).contains("another data directory"));
        put_log(&place.path("plain"));
        assert!(place.refusal("plain", Some("new")).contains("disk add"));
        assert!(place.refusal("plain", Some("fast2")).contains("disk add"));
        put_log(&place.path("fast"));
        assert!(place.refusal("empty", Some("fast")).contains("not mounted"));
        for (data, fast) in [("a", "a"), ("a", "a/b"), ("a/b", "a")] {
            assert!(place.refusal(data, Some(fast)).contains("one is in the other"), "{data} {fast}");
        }
    }

    #[test]
    fn a_pair_without_its_fast_directory_is_given_up_once_a_log_was_made() {
        let place = Place::new();
        place.make("data", "fast");
        assert!(place.of("data", Some("fast")).begin_loss().is_err(), "it is there");
        std::fs::remove_dir_all(place.path("fast")).unwrap();
        let pair = place.of("data", Some("fast")).begin_loss().unwrap();
        let refused = place.of("data", Some("fast")).begin_loss().err().map(|error| error.to_string());
        assert!(refused.unwrap().contains("another process"));
        assert_eq!(pair.data().list("meta").unwrap(), [""; 0]);
        put_log(&place.path("data"));
        assert!(place.refusal("data", None).contains("--fast-dir"), "it is a pair until the end");
        pair.end().unwrap();
        assert!(place.of("data", None).open().unwrap().open("meta/0000000000000001.log").is_ok());
    }

    #[test]
    fn a_pair_that_was_not_marked_whole_is_marked_again() {
        let place = Place::new();
        let fast = OsFs::new(place.path("fast"));
        fast.create_root().unwrap();
        mark::mark_fast(&fast, StoreId([1; 16]), Timestamp::from_millis(1)).unwrap();
        place.make("data", "fast");
        assert!(place.of("data", Some("fast")).open().is_ok());
    }

    #[test]
    fn a_mark_that_cannot_be_read_is_no_reason_to_take_one_directory_for_the_whole() {
        let place = Place::new();
        place.make("data", "fast");
        let mark = OsFs::new(place.path("data")).open(&mark::data_path()).unwrap();
        mark.write_all_at(b"x", 20).unwrap();
        assert!(place.refusal("data", None).contains("cannot be read"));
        assert!(place.refusal("data", Some("fast")).contains("cannot be read"));
    }
}
