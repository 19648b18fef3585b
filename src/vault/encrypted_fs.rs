//! A disk whose files are encrypted.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, Weak};

use super::encrypted_file::{EncryptedFile, FileState};
use super::file_cipher::{DiskKey, StoreKey};
use crate::base::{Entropy, NOT_POISONED};
use crate::format::{KEYS, KEYS_COPY, unfinished};
use crate::fs::{DiskPlace, File, Fs, forward_fs};

/// Files that people and other programs read, and those that open the others.
const IN_THE_CLEAR: [&str; 4] = [KEYS, KEYS_COPY, "users.toml", "keys.toml"];

/// The state of open files beyond which those that nobody has open are forgotten.
const PRUNED_FROM: usize = 64;

/// Another disk whose files are encrypted. What stands above it sees their plain bytes and lengths.
///
/// The key of a file comes from the key of the directory and from random bytes in the first page of
/// the file, so that files may be renamed, linked and copied. All handles of a file share its
/// state.
pub struct EncryptedFs {
    fs: Arc<dyn Fs>,
    shared: Arc<DiskKey>,
    /// By the disk and the identity of the file.
    open: Mutex<OpenStates>,
}

struct OpenStates {
    states: HashMap<(DiskPlace, u64), Weak<FileState>>,
    pruned_from: usize,
}

impl EncryptedFs {
    /// The files of `fs` under that key; `entropy` is for the random bytes of new files.
    pub fn new(fs: Arc<dyn Fs>, key: StoreKey, entropy: Arc<dyn Entropy>) -> Self {
        let open = OpenStates { states: HashMap::new(), pruned_from: PRUNED_FROM };
        Self { fs, shared: Arc::new(DiskKey { key, entropy }), open: Mutex::new(open) }
    }

    /// The disk as it is, and as an attacker reads it.
    pub fn raw(&self) -> &Arc<dyn Fs> {
        &self.fs
    }

    /// Opens a file, on a disk that is known: it may move to another one meanwhile, where another
    /// file has its identity.
    fn open_in_place(
        &self,
        path: &str,
        open: impl Fn(&dyn Fs) -> io::Result<Arc<dyn File>>,
    ) -> io::Result<Arc<dyn File>> {
        loop {
            let place = self.fs.place_of(path)?;
            let file = open(self.fs.as_ref())?;
            if self.fs.place_of(path)? == place {
                return self.over(path, place, file);
            }
        }
    }

    /// Forgets the state of a file that had the identity of a new one.
    fn forget(&self, place: DiskPlace, id: u64) {
        self.open.lock().expect(NOT_POISONED).states.remove(&(place, id));
    }

    /// A handle over one of the disk itself.
    fn over(&self, path: &str, place: DiskPlace, file: Arc<dyn File>) -> io::Result<Arc<dyn File>> {
        if is_in_the_clear(path) {
            return Ok(file);
        }
        let id = file.usage()?.id;
        let state = self.state_of(place, id);
        let file = EncryptedFile::new(path.to_owned(), file, Arc::clone(&self.shared), state)?;
        Ok(Arc::new(file))
    }

    /// The state that the handles of a file share.
    fn state_of(&self, place: DiskPlace, id: u64) -> Arc<FileState> {
        let mut open = self.open.lock().expect(NOT_POISONED);
        if let Some(state) = open.states.get(&(place, id)).and_then(Weak::upgrade) {
            return state;
        }
        if open.states.len() >= open.pruned_from {
            // At each doubling, so that the cost of the look at all of them stays small for each
            // file that is opened.
            open.states.retain(|_, state| state.strong_count() > 0);
            open.pruned_from = PRUNED_FROM.max(2 * open.states.len());
        }
        let state = Arc::new(FileState::default());
        open.states.insert((place, id), Arc::downgrade(&state));
        state
    }
}

impl Fs for EncryptedFs {
    fn create_on(&self, place: DiskPlace, path: &str) -> io::Result<Arc<dyn File>> {
        let file = self.fs.create_on(place, path)?;
        let place = self.fs.place_of(path)?;
        self.forget(place, file.usage()?.id);
        self.over(path, place, file)
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.open_in_place(path, |fs| fs.open(path))
    }

    fn open_read(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.open_in_place(path, |fs| fs.open_read(path))
    }

    fn open_uncached(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.open_in_place(path, |fs| fs.open_uncached(path))
    }

    /// The keys of the directory are of no concern to those who list it.
    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let mut names = self.fs.list(dir)?;
        names.retain(|name| !is_key(name));
        Ok(names)
    }

    forward_fs!(fs: create_dir, rename, link, remove, sync_dir, lock, space);
}

/// Whether a file is beside the encryption.
fn is_in_the_clear(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    IN_THE_CLEAR.iter().any(|clear| *clear == name || unfinished(clear) == name)
}

fn is_key(name: &str) -> bool {
    [KEYS, KEYS_COPY].iter().any(|key| *key == name || unfinished(key) == name)
}
