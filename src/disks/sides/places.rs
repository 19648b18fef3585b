//! The two directories of a mirror, as options name them, and what operators do with them while no server
//! runs (data-format.md, section 24).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::keeper::random_id;
use super::mark::{MarkFile, side_mark_path};
use super::verdict::{Accepted, OtherSide, StartPlan, plan_start};
use super::witness::WitnessFile;
use super::{DiskMirror, MirrorOptions, SidesRefusal, is_side};
use crate::base::{Clock, Entropy, Timestamp};
use crate::disks::change::{check_empty, lock};
use crate::disks::{DisksError, UnmarkedFs, check_apart};
use crate::format::{
    FileKind, Generation, GenerationId, KeysState, STANDBY, SideId, SideMark, SideState, StoreId, WitnessMark,
};
use crate::fs::{DiskPlace, File, Fs, Lock, OsFs, ReadOnlyFs, forward_fs, is_read_only, is_there};
use crate::log::holds_store;
use crate::vault::{DirectoryKeys, StoreKey, VaultError, newest_keys};

/// The two directories of a mirror, and what an operator says about them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorPlaces {
    /// The directories, in the order of `--mirror A=B`.
    pub sides: [PathBuf; 2],
    /// The file of the witness.
    pub witness: Option<PathBuf>,
    /// Start with a side that may be stale.
    pub accepts_degraded: bool,
    /// Start with a side that was told that it is.
    pub accepts_outdated: bool,
}

/// The side of a mirror that a start reads, by the marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MirrorHome {
    /// The side, 0 or 1.
    pub source: usize,
    /// The use of the other one.
    pub other: OtherUse,
}

/// What the side that is not read is good for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OtherUse {
    /// It has the same bytes, or a few more or fewer after a crash.
    Equal,
    /// It is filled.
    Filled,
    /// It is missing, or no side yet.
    #[default]
    Missing,
}

/// A side, as its mark describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedSide {
    /// Its directory.
    pub dir: PathBuf,
    /// Its mark; `None` where it has none, or its disk does not answer.
    pub mark: Option<SideMark>,
}

/// The marks of both sides.
type FoundMarks = [Option<SideMark>; 2];

impl MirrorPlaces {
    /// The directories of a text `A=B`.
    ///
    /// # Errors
    /// A sentence: it names no two directories.
    pub fn parse(text: &str) -> Result<[PathBuf; 2], String> {
        let parts: Vec<_> = text.split('=').collect();
        let [one, other] = parts[..] else {
            return Err("name two directories, without `=` in their names, as A=B".to_owned());
        };
        if one.is_empty() || other.is_empty() {
            return Err("name two directories as A=B".to_owned());
        }
        Ok([one.into(), other.into()])
    }

    /// Both directories, as one store that may be written to; encrypted, where there is a key.
    ///
    /// # Errors
    /// As of [`MirrorPlaces::home`], and of [`DiskMirror::open`].
    pub fn open(
        &self,
        key: Option<StoreKey>,
        entropy: Arc<dyn Entropy>,
        clock: Arc<dyn Clock>,
        patience: Duration,
    ) -> Result<DiskMirror, DisksError> {
        if self.find_home()?.is_none() {
            for dir in &self.sides {
                OsFs::new(dir).create_root()?;
            }
        }
        DiskMirror::open(self.options(key, entropy, clock, patience)?)
    }

    /// How the mirror is opened.
    ///
    /// # Errors
    /// The file of the witness has no name.
    pub fn options(
        &self,
        key: Option<StoreKey>,
        entropy: Arc<dyn Entropy>,
        clock: Arc<dyn Clock>,
        patience: Duration,
    ) -> Result<MirrorOptions, DisksError> {
        let mut witness: Option<(Arc<dyn Fs>, String)> = None;
        if let Some((disk, name)) = self.witness_place()? {
            witness = Some((Arc::new(disk), name));
        }
        Ok(MirrorOptions {
            names: self.sides.clone(),
            disks: self.sides.clone().map(|dir| -> Arc<dyn Fs> { Arc::new(OsFs::new(dir)) }),
            witness,
            key,
            accepts_degraded: self.accepts_degraded,
            accepts_outdated: self.accepts_outdated,
            patience,
            entropy,
            clock,
        })
    }

    /// The side that a start reads. Nothing is written.
    ///
    /// # Errors
    /// [`DisksError::NoStore`] where there is none in either; [`DisksError::Sides`]; the directories
    /// are one, or one is in the other; one of them has another store; a mark or the witness cannot
    /// be read.
    pub fn home(&self) -> Result<MirrorHome, DisksError> {
        self.find_home()?.ok_or(DisksError::NoStore)
    }

    /// The side that a start reads, as the disk of a store. Nothing is written, now or later.
    ///
    /// # Errors
    /// As of [`MirrorPlaces::home`].
    pub(in crate::disks) fn look(&self) -> Result<Arc<dyn Fs>, DisksError> {
        let home = self.home()?;
        let disk: Arc<dyn Fs> = Arc::new(OsFs::new(&self.sides[home.source]));
        let bare: Arc<dyn Fs> = Arc::new(UnmarkedFs { disk, mark: side_mark_path() });
        Ok(Arc::new(LookedAtSides { source: ReadOnlyFs::new(bare), places: self.clone(), home }))
    }

    /// The keys of an encrypted mirror: of the side that a start reads, or of the other one where that is
    /// equal and has newer ones. Nothing is written.
    ///
    /// # Errors
    /// As of [`MirrorPlaces::home`], and of [`newest_keys`].
    pub fn keys(&self) -> Result<Option<DirectoryKeys>, DisksError> {
        let home = self.home()?;
        let own = OsFs::new(&self.sides[home.source]);
        let other = OsFs::new(&self.sides[1 - home.source]);
        Ok(match home.other {
            OtherUse::Equal => newest_keys([&own, &other])?,
            OtherUse::Filled => DirectoryKeys::read(&own)?,
            // It may be there, and not be written to any more.
            OtherUse::Missing => match DirectoryKeys::read(&own)? {
                Some(keys) => newest_keys([&own, &other]).unwrap_or(Some(keys)),
                None => None,
            },
        })
    }

    /// Both sides, as their marks describe them.
    ///
    /// # Errors
    /// A mark cannot be read.
    pub fn described(&self) -> Result<[DescribedSide; 2], DisksError> {
        let [one, other] = self.marks()?;
        let [dir, other_dir] = self.sides.clone();
        Ok([DescribedSide { dir, mark: one }, DescribedSide { dir: other_dir, mark: other }])
    }

    /// As [`MirrorPlaces::home`]; `None` where there is no store in either directory.
    fn find_home(&self) -> Result<Option<MirrorHome>, DisksError> {
        let [one, other] = &self.sides;
        check_apart(one, other).map_err(|error| match error {
            DisksError::Overlap(_) => DisksError::SidesOverlap(self.sides.clone()),
            error => error,
        })?;
        let found = self.marks()?;
        let witness = self.read_witness()?;
        let marks: Vec<_> = found.iter().flatten().collect();
        let was_cut_off = marks.len() == 1 && marks[0].is_first() && !self.holds_store()?;
        if marks.is_empty() || was_cut_off {
            return self.home_without_marks(witness.is_some());
        }
        self.check_unmarked(&found)?;
        let plan = self.plan(&found, witness.as_ref())?;
        let [one, other] = self.sides.each_ref().map(|dir| is_read_only(dir));
        let is_fixed = if plan.source == 0 { one && !other } else { other && !one };
        if is_fixed && plan.other == OtherSide::Level {
            // Either has all that was acknowledged, and this one can be written to.
            return Ok(Some(MirrorHome { source: 1 - plan.source, other: OtherUse::Missing }));
        }
        let other = match plan.other {
            OtherSide::Level => OtherUse::Equal,
            OtherSide::Fill { .. } => OtherUse::Filled,
            OtherSide::Leave => OtherUse::Missing,
        };
        Ok(Some(MirrorHome { source: plan.source, other }))
    }

    /// Whether either directory has a file of a store.
    fn holds_store(&self) -> Result<bool, DisksError> {
        Ok(holds_store(&unmarked(&self.sides[0]))? || holds_store(&unmarked(&self.sides[1]))?)
    }

    fn home_without_marks(&self, has_witness: bool) -> Result<Option<MirrorHome>, DisksError> {
        for dir in &self.sides {
            if holds_store(&unmarked(dir))? {
                return Err(DisksError::NotMirrored(dir.clone()));
            }
        }
        if has_witness {
            return Err(self.refused(SidesRefusal::BothMissing));
        }
        Ok(None)
    }

    fn plan(&self, found: &FoundMarks, witness: Option<&WitnessMark>) -> Result<StartPlan, DisksError> {
        let accepted = Accepted { degraded: self.accepts_degraded, outdated: self.accepts_outdated };
        let marks = [found[0].as_ref(), found[1].as_ref()];
        let mirror = marks.iter().flatten().next().map(|mark| mark.mirror);
        if witness.is_some_and(|witness| Some(witness.mirror) != mirror) {
            return Err(self.refused(SidesRefusal::OtherWitness));
        }
        plan_start(marks, witness.map(|witness| &witness.generation), accepted)
            .map_err(|refusal| self.refused(refusal))
    }

    /// Refuses a directory beside a side that has another store, or one that was set aside.
    fn check_unmarked(&self, found: &FoundMarks) -> Result<(), DisksError> {
        for (dir, mark) in self.sides.iter().zip(found) {
            if mark.is_none() && holds_store(&OsFs::new(dir)).unwrap_or(false) {
                return Err(DisksError::OtherStore(dir.clone()));
            }
        }
        Ok(())
    }

    /// The marks; none of a disk that does not answer.
    fn marks(&self) -> Result<FoundMarks, DisksError> {
        let mut found = [None, None];
        for (place, dir) in found.iter_mut().zip(&self.sides) {
            *place = match MarkFile::read(&OsFs::new(dir)) {
                // The other one may be all that is needed.
                Err(error @ (DisksError::Io(_) | DisksError::BadMark(..))) => {
                    log::warn!("{}: {error}", dir.display());
                    None
                }
                read => read?,
            };
        }
        Ok(found)
    }

    fn read_witness(&self) -> Result<Option<WitnessMark>, DisksError> {
        match self.witness_place()? {
            None => Ok(None),
            Some((disk, name)) => WitnessFile::read(&disk, &name),
        }
    }

    /// The directory and the name of the file of the witness.
    fn witness_place(&self) -> Result<Option<(OsFs, String)>, DisksError> {
        let Some(path) = &self.witness else { return Ok(None) };
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| DisksError::BadWitness(path.clone()))?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(Some((OsFs::new(dir), name.to_owned())))
    }

    fn refused(&self, refusal: SidesRefusal) -> DisksError {
        DisksError::Sides { sides: self.sides.clone(), refusal }
    }
}

/// What an operator does.
impl MirrorPlaces {
    /// Makes the first directory, which has a store, the only side of a mirror, and names the second one,
    /// which is empty or missing, as the one that the next start fills. Durable on return.
    ///
    /// # Errors
    /// The directories are not fit for it, or in use; of the disks.
    pub fn add(&self, entropy: &dyn Entropy, now: Timestamp) -> Result<(), DisksError> {
        match self.find_home() {
            Err(DisksError::NotMirrored(dir)) if dir == self.sides[0] => {}
            Err(DisksError::NotMirrored(dir)) => return Err(DisksError::OtherStore(dir)),
            Ok(None) => return Err(DisksError::NoStore),
            Ok(Some(_)) => return Err(DisksError::IsMirrored),
            Err(error) => return Err(error),
        }
        let [first, _] = &self.sides;
        let disk = OsFs::new(first);
        if crate::disks::is_paired(&disk)? {
            return Err(DisksError::FastBesideMirror);
        }
        if is_there(&disk, STANDBY)? {
            return Err(DisksError::NotForMirror("that of a standby"));
        }
        if DirectoryKeys::read(&disk)?.is_some_and(|keys| keys.state() == KeysState::Converting) {
            return Err(VaultError::Converting.into());
        }
        let _lock = lock(&disk)?;
        self.check_new(1)?;
        let side = SideId(random_id(entropy));
        let generation = Generation::first(GenerationId(random_id(entropy)), vec![side], now);
        let mirror = StoreId(random_id(entropy));
        let mark = SideMark { mirror, side, number: 1, state: SideState::Whole, generation };
        MarkFile::create(&disk, mark.clone(), now)?;
        self.mark_new(1, &mark, entropy, now)
    }

    /// Names the directory without a mark, which is empty or missing, as the side that the next start fills
    /// in the place of one that is lost. Durable on return. Returns that directory.
    ///
    /// # Errors
    /// There is no such directory, or no side that is whole; it is in use, or has files; of the disks.
    pub fn replace(&self, entropy: &dyn Entropy, now: Timestamp) -> Result<&Path, DisksError> {
        let found = self.marks()?;
        let (at, mark) = match &found {
            [Some(mark), None] => (1, mark),
            [None, Some(mark)] => (0, mark),
            [Some(_), Some(_)] => return Err(DisksError::BothMarked),
            [None, None] => return Err(self.refused(SidesRefusal::NoMark)),
        };
        if mark.state == SideState::Filling {
            return Err(self.refused(SidesRefusal::Filling(1 - at)));
        }
        let _lock = lock(&OsFs::new(&self.sides[1 - at]))?;
        self.check_new(at)?;
        self.mark_new(at, mark, entropy, now)?;
        Ok(&self.sides[at])
    }

    /// Keeps one of two sides that are apart, and sets the mark of the other one aside: that is no side any
    /// more, and its files stay. Durable on return. Returns the directory that was set aside.
    ///
    /// # Errors
    /// They are not apart, or in use; of the disks.
    pub fn resolve(&self, keep: usize, now: Timestamp) -> Result<&Path, DisksError> {
        match self.find_home() {
            Err(DisksError::Sides { refusal: SidesRefusal::Apart, .. }) => {}
            Ok(_) => return Err(DisksError::NotApart),
            Err(error) => return Err(error),
        }
        let aside = 1 - keep;
        let _locks = self.lock_both()?;
        set_aside(&OsFs::new(&self.sides[aside]), now)?;
        Ok(&self.sides[aside])
    }

    fn lock_both(&self) -> Result<[Box<dyn Lock>; 2], DisksError> {
        let [one, other] = &self.sides;
        Ok([lock(&OsFs::new(one))?, lock(&OsFs::new(other))?])
    }

    /// Refuses a directory that has files.
    fn check_new(&self, at: usize) -> Result<(), DisksError> {
        check_empty(&OsFs::new(&self.sides[at])).map_err(|error| match error {
            DisksError::NotEmpty(file) => DisksError::SideNotEmpty { dir: self.sides[at].clone(), file },
            error => error,
        })
    }

    /// Marks an empty directory as one that is filled beside the side with `mark`.
    fn mark_new(
        &self,
        at: usize,
        mark: &SideMark,
        entropy: &dyn Entropy,
        now: Timestamp,
    ) -> Result<(), DisksError> {
        let disk = OsFs::new(&self.sides[at]);
        disk.create_root()?;
        let _lock = lock(&disk)?;
        for kind in FileKind::ALL {
            disk.create_dir(kind.dir())?;
        }
        let side = SideId(random_id(entropy));
        let new = SideMark { side, number: 1, state: SideState::Filling, ..mark.clone() };
        MarkFile::create(&disk, new, now)?;
        Ok(())
    }
}

/// One side, which is read, and the locks of both: none of them is written to meanwhile.
struct LookedAtSides {
    source: ReadOnlyFs<Arc<dyn Fs>>,
    places: MirrorPlaces,
    /// The side that is read, by the marks before they were locked.
    home: MirrorHome,
}

impl Fs for LookedAtSides {
    forward_fs!(source: open_read, open_uncached, list, create_dir, rename, link, remove, sync_dir, space);

    fn create_on(&self, place: DiskPlace, path: &str) -> io::Result<Arc<dyn File>> {
        self.source.create_on(place, path)
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.source.open(path)
    }

    /// Locks the sides that are there. A file system that cannot be written to needs no lock.
    fn lock(&self, path: &str) -> io::Result<Box<dyn Lock>> {
        let mut held = Vec::new();
        for dir in &self.places.sides {
            let disk = OsFs::new(dir);
            if !matches!(is_side(&disk), Ok(true)) {
                continue;
            }
            match disk.lock(path) {
                Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {}
                locked => held.push(locked?),
            }
        }
        if self.places.home().ok() != Some(self.home) {
            return Err(io::Error::other("the sides of the mirror have changed meanwhile: start again"));
        }
        match held.is_empty() {
            true => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
            false => Ok(Box::new(LookLocks { _held: held })),
        }
    }
}

/// The locks of the sides of a mirror that is looked at.
struct LookLocks {
    _held: Vec<Box<dyn Lock>>,
}

impl Lock for LookLocks {}

/// Gives the mark of a side a name by which nobody looks for it.
fn set_aside(disk: &dyn Fs, now: Timestamp) -> io::Result<()> {
    let mark = side_mark_path();
    disk.rename(&mark, &format!("{mark}.replaced-{}", now.as_millis()))?;
    disk.sync_dir(FileKind::Log.dir())
}

/// A directory without the mark of a side.
fn unmarked(dir: &Path) -> UnmarkedFs {
    UnmarkedFs { disk: Arc::new(OsFs::new(dir)), mark: side_mark_path() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeededEntropy;
    use crate::disks::tests::put_log;

    struct Two {
        dir: tempfile::TempDir,
        entropy: SeededEntropy,
    }

    impl Two {
        fn new() -> Self {
            Self { dir: tempfile::tempdir().unwrap(), entropy: SeededEntropy::new(1) }
        }

        fn of(&self, one: &str, other: &str) -> MirrorPlaces {
            let sides = [self.dir.path().join(one), self.dir.path().join(other)];
            MirrorPlaces { sides, witness: None, accepts_degraded: false, accepts_outdated: false }
        }

        /// A store that got a second side.
        fn added() -> Self {
            let two = Self::new();
            put_log(&two.dir.path().join("a"));
            two.of("a", "b").add(&two.entropy, now()).unwrap();
            two
        }

        fn mark(&self, dir: &str) -> SideMark {
            MarkFile::read(&OsFs::new(self.dir.path().join(dir))).unwrap().unwrap()
        }

        fn go_on_alone(&self, dir: &str, id: u8) {
            let disk = OsFs::new(self.dir.path().join(dir));
            let mut file = MarkFile::open(&disk).unwrap().unwrap();
            let mark = file.mark().clone();
            let next = mark.generation.next(GenerationId([id; 16]), vec![mark.side], 1, now());
            file.write(SideState::Whole, next).unwrap();
        }
    }

    fn now() -> Timestamp {
        Timestamp::from_millis(7)
    }

    fn refusal<T>(result: Result<T, DisksError>) -> String {
        match result {
            Ok(_) => panic!("it was done"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_store_gets_a_second_side_that_is_filled() {
        let two = Two::added();
        let home = two.of("a", "b").home().unwrap();
        assert_eq!(home, MirrorHome { source: 0, other: OtherUse::Filled });
        assert_eq!(two.of("b", "a").home().unwrap().source, 1);
        let states = two.of("a", "b").described().unwrap().map(|side| side.mark.unwrap().state);
        assert_eq!(states, [SideState::Whole, SideState::Filling]);
        assert_ne!(two.mark("a").side, two.mark("b").side);
        assert!(refusal(two.of("a", "b").add(&two.entropy, now())).contains("mirrored already"));
    }

    #[test]
    fn directories_that_are_not_fit_for_a_mirror_are_left_alone() {
        let two = Two::new();
        let add = |one: &str, other: &str| refusal(two.of(one, other).add(&two.entropy, now()));
        assert!(add("a", "b").contains("no store"));
        put_log(&two.dir.path().join("a"));
        put_log(&two.dir.path().join("full"));
        assert!(add("a", "full").contains("not empty"));
        assert!(add("b", "a").contains("has a store"));
        for (one, other) in [("a", "a"), ("a", "a/b"), ("a/b", "a")] {
            assert!(add(one, other).contains("one is in the other"), "{one} {other}");
        }
        let _lock = OsFs::new(two.dir.path().join("a")).lock(crate::format::LOCK).unwrap();
        assert!(add("a", "b").contains("another process"));
        assert!(!two.dir.path().join("b").exists());
        assert!(matches!(MarkFile::read(&OsFs::new(two.dir.path().join("a"))), Ok(None)));
    }

    #[test]
    fn a_side_that_is_lost_is_replaced_by_an_empty_directory() {
        let two = Two::added();
        std::fs::remove_dir_all(two.dir.path().join("b")).unwrap();
        assert_eq!(two.of("a", "b").home().unwrap().other, OtherUse::Missing);
        assert!(!two.dir.path().join("b").exists());
        put_log(&two.dir.path().join("full"));
        let refused = refusal(two.of("a", "full").replace(&two.entropy, now()).map(drop));
        assert!(refused.contains("not empty"), "{refused}");
        assert!(refusal(two.of("a", "full").home()).contains("another store"));
        let places = two.of("c", "a");
        assert_eq!(places.replace(&two.entropy, now()).unwrap(), two.dir.path().join("c"));
        assert_eq!(places.home().unwrap(), MirrorHome { source: 1, other: OtherUse::Filled });
        assert!(refusal(places.replace(&two.entropy, now()).map(drop)).contains("both directories"));
    }

    #[test]
    fn of_two_sides_that_are_apart_the_one_that_is_named_stays() {
        let two = Two::added();
        let places = two.of("a", "b");
        assert!(refusal(places.resolve(0, now()).map(drop)).contains("not apart"));
        let disk = OsFs::new(two.dir.path().join("b"));
        let side = two.mark("b").side;
        let both = vec![two.mark("a").side, side];
        let level = two.mark("a").generation.next(GenerationId([1; 16]), both, 1, now());
        for dir in ["a", "b"] {
            let disk = OsFs::new(two.dir.path().join(dir));
            MarkFile::open(&disk).unwrap().unwrap().write(SideState::Whole, level.clone()).unwrap();
        }
        assert_eq!(places.home().unwrap().other, OtherUse::Equal);
        two.go_on_alone("a", 2);
        two.go_on_alone("b", 3);
        put_log(&two.dir.path().join("b"));
        assert!(refusal(places.home()).contains("--keep"));
        assert_eq!(places.resolve(0, now()).unwrap(), two.dir.path().join("b"));
        let names = disk.list("meta").unwrap();
        assert!(names.contains(&"7ffffffffffffffe.log.replaced-7".to_owned()), "{names:?}");
        assert!(refusal(places.home()).contains("another store"), "its files are not written over");
        std::fs::remove_dir_all(two.dir.path().join("b")).unwrap();
        assert_eq!(places.home().unwrap(), MirrorHome { source: 0, other: OtherUse::Missing });
    }

    #[test]
    fn a_side_of_another_mirror_and_a_witness_of_one_are_refused() {
        let two = Two::added();
        put_log(&two.dir.path().join("c"));
        two.of("c", "d").add(&two.entropy, now()).unwrap();
        assert!(refusal(two.of("a", "c").home()).contains("different mirrors"));
        let mut places = two.of("a", "b");
        places.witness = Some(two.dir.path().join("witness"));
        assert!(places.home().is_ok(), "it is not there yet");
        let disk: Arc<dyn Fs> = Arc::new(OsFs::new(two.dir.path()));
        let mut witness = WitnessFile::open(disk, "witness").unwrap();
        witness.write(two.mark("c").mirror, &two.mark("c").generation, now()).unwrap();
        assert!(refusal(places.home()).contains("another mirror"));
        places.sides = two.of("x", "y").sides;
        assert!(refusal(places.home()).contains("not be mounted"), "a mirror was here");
    }

    #[test]
    fn two_directories_are_named_as_one_word() {
        assert_eq!(MirrorPlaces::parse("/a=b/c"), Ok(["/a".into(), "b/c".into()]));
        for wrong in ["", "a", "=b", "a=", "a=b=c"] {
            assert!(MirrorPlaces::parse(wrong).is_err(), "{wrong}");
        }
    }
}
