//! Random operations do the same on the real and on the simulated file system.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use super::sim::SimFs;
use super::{File, Fs, Lock, OsFs};
use crate::base::entropy::{Entropy, OsEntropy, SeededEntropy};

const ROUNDS: u64 = 20;
const STEPS: u64 = 200;

/// Files and directories never share a name here: the behaviour of a directory in a file's place is
/// not defined.
const DIRS: [&str; 4] = ["", "d", "d/e", "f"];
const NAMES: [&str; 3] = ["a", "b", "c"];

/// One operation. Numbers choose among the open files or locks, modulo their count.
#[derive(Debug)]
enum Action {
    Create(String),
    Open(String),
    OpenRead(String),
    Close(usize),
    Write {
        at: usize,
        offset: u64,
        bytes: Vec<u8>,
    },
    Read {
        at: usize,
        offset: u64,
        len: usize,
    },
    Len(usize),
    Reserve {
        at: usize,
        offset: u64,
        len: u64,
    },
    Truncate {
        at: usize,
        len: u64,
    },
    /// Of whole pages.
    Punch {
        at: usize,
        page: u64,
    },
    SyncData(usize),
    Rename(String, String),
    Link(String, String),
    Remove(String),
    List(String),
    CreateDir(String),
    SyncDir(String),
    Lock(String),
    Unlock(usize),
}

/// Draws the same actions from the same seed.
struct Draw(SeededEntropy);

impl Draw {
    fn at(&self) -> usize {
        self.0.below(1 << 16) as usize
    }

    fn offset(&self) -> u64 {
        self.0.below(3) * 512 + self.0.below(700)
    }

    fn dir(&self) -> String {
        (*self.0.one_of(&DIRS)).to_owned()
    }

    fn in_dir(&self, dir: &str) -> String {
        let name = *self.0.one_of(&NAMES);
        if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
    }

    fn path(&self) -> String {
        self.in_dir(&self.dir())
    }

    /// Often nothing: that is where two implementations part most easily.
    fn len(&self) -> u64 {
        if self.0.one_in(8) { 0 } else { self.0.below(2000) }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len() as usize];
        self.0.fill(&mut bytes);
        bytes
    }

    fn action(&self) -> Action {
        match self.0.below(27) {
            0..3 => Action::Create(self.path()),
            3 => Action::Open(self.path()),
            4 => Action::OpenRead(self.path()),
            5 => Action::Close(self.at()),
            6..10 => Action::Write { at: self.at(), offset: self.offset(), bytes: self.bytes() },
            10..13 => Action::Read { at: self.at(), offset: self.offset(), len: self.len() as usize },
            13 => Action::Len(self.at()),
            14 => Action::Reserve { at: self.at(), offset: self.offset(), len: self.len() },
            15 => Action::SyncData(self.at()),
            16 => {
                let dir = self.dir();
                Action::Rename(self.in_dir(&dir), self.in_dir(&dir))
            }
            17 => Action::Rename(self.path(), self.path()),
            18 => Action::Remove(self.path()),
            19 => Action::List(self.dir()),
            20 => Action::CreateDir(self.dir()),
            21 => Action::SyncDir(self.dir()),
            22 => Action::Lock(self.path()),
            23 => Action::Link(self.path(), self.path()),
            24 => Action::Truncate { at: self.at(), len: self.offset() },
            25 => Action::Punch { at: self.at(), page: self.0.below(3) },
            _ => Action::Unlock(self.at()),
        }
    }
}

/// One of the two file systems, with its open files and locks.
struct ComparedSide<'a> {
    fs: &'a dyn Fs,
    files: Vec<Arc<dyn File>>,
    locks: Vec<Box<dyn Lock>>,
}

impl<'a> ComparedSide<'a> {
    fn new(fs: &'a dyn Fs) -> Self {
        Self { fs, files: Vec::new(), locks: Vec::new() }
    }

    /// What an action gives, in a form that can be compared.
    fn perform(&mut self, action: &Action) -> String {
        let done = match action {
            Action::Create(_) | Action::Open(_) | Action::OpenRead(_) | Action::Lock(_) => {
                self.acquire(action)
            }
            Action::Close(at) => self.close(*at),
            Action::Unlock(at) => self.unlock(*at),
            Action::Rename(from, to) => self.fs.rename(from, to).map(said),
            Action::Link(from, to) => self.fs.link(from, to).map(said),
            Action::Remove(path) => self.fs.remove(path).map(said),
            Action::List(dir) => self.fs.list(dir).map(said),
            Action::CreateDir(dir) => self.fs.create_dir(dir).map(said),
            Action::SyncDir(dir) => self.fs.sync_dir(dir).map(said),
            on_file => self.on_file(on_file),
        };
        done.unwrap_or_else(|e| name_of(e.kind()))
    }

    fn acquire(&mut self, action: &Action) -> io::Result<String> {
        match action {
            Action::Create(path) => self.files.push(self.fs.create(path)?),
            Action::Open(path) => self.files.push(self.fs.open(path)?),
            Action::OpenRead(path) => self.files.push(self.fs.open_read(path)?),
            Action::Lock(path) => self.locks.push(self.fs.lock(path)?),
            other => unreachable!("{other:?} acquires nothing"),
        }
        Ok("acquired".to_owned())
    }

    fn close(&mut self, at: usize) -> io::Result<String> {
        if !self.files.is_empty() {
            self.files.swap_remove(at % self.files.len());
        }
        Ok(said(self.files.len()))
    }

    fn unlock(&mut self, at: usize) -> io::Result<String> {
        if !self.locks.is_empty() {
            drop(self.locks.swap_remove(at % self.locks.len()));
        }
        Ok(said(self.locks.len()))
    }

    fn on_file(&self, action: &Action) -> io::Result<String> {
        let file = |at: &usize| self.files.get(at % self.files.len().max(1)).ok_or(ErrorKind::NotFound);
        match action {
            Action::Write { at, offset, bytes } => file(at)?.write_all_at(bytes, *offset).map(said),
            Action::Reserve { at, offset, len } => file(at)?.reserve(*offset, *len).map(said),
            Action::Truncate { at, len } => file(at)?.truncate(*len).map(said),
            Action::Punch { at, page } => file(at)?.punch(page * 4096, 4096).map(said),
            Action::Len(at) => file(at)?.len().map(said),
            Action::SyncData(at) => file(at)?.sync_data().map(said),
            Action::Read { at, offset, len } => {
                let mut bytes = vec![0; *len];
                file(at)?.read_exact_at(&mut bytes, *offset).map(|()| said(bytes))
            }
            other => unreachable!("{other:?} is about no open file"),
        }
    }

    /// Every file that has a name, with its bytes.
    fn everything(&self) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        for dir in DIRS {
            for name in self.fs.list(dir).unwrap() {
                let path = if dir.is_empty() { name } else { format!("{dir}/{name}") };
                let bytes = super::conformance::read(&*self.fs.open_read(&path).unwrap());
                files.push((path, bytes));
            }
        }
        files
    }
}

fn said(value: impl std::fmt::Debug) -> String {
    format!("{value:?}")
}

/// The kinds that the trait promises; of others only that it failed.
fn name_of(kind: ErrorKind) -> String {
    match kind {
        ErrorKind::NotFound
        | ErrorKind::AlreadyExists
        | ErrorKind::UnexpectedEof
        | ErrorKind::InvalidInput
        | ErrorKind::WouldBlock => said(kind),
        _ => "failed".to_owned(),
    }
}

/// `SILTSTONE_TEST_SEED`, or a new one.
fn seed() -> u64 {
    let told = std::env::var("SILTSTONE_TEST_SEED").ok();
    told.map_or_else(|| OsEntropy.next_u64(), |seed| seed.parse().expect("the seed is a number"))
}

/// Does the same random operations on a real file system and on the one that `other` is given; both
/// have to say the same.
pub(crate) fn compare_with_os(other: impl Fn() -> Arc<dyn Fs>) {
    let first = seed();
    for seed in (0..ROUNDS).map(|round| first.wrapping_add(round)) {
        let draw = Draw(SeededEntropy::new(seed));
        let dir = tempfile::tempdir().unwrap();
        let os = OsFs::new(dir.path());
        let other = other();
        let mut os = ComparedSide::new(&os);
        let mut other = ComparedSide::new(other.as_ref());
        for step in 0..STEPS {
            let action = draw.action();
            let expected = os.perform(&action);
            assert_eq!(
                other.perform(&action),
                expected,
                "SILTSTONE_TEST_SEED={seed}, step {step}: {action:?}"
            );
        }
        assert_eq!(other.everything(), os.everything(), "SILTSTONE_TEST_SEED={seed}");
    }
}

#[test]
fn random_operations_do_the_same_on_both() {
    compare_with_os(|| Arc::new(SimFs::new()));
}
