//! `KEYS` and its copy: the key of the directory, wrapped for each of its secrets.

use std::fmt;
use std::io;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroizing;

use super::error::VaultError;
use super::file_cipher::{StoreKey, derive};
use super::file_start::{check_files, keys_of_files};
use super::secret::{StoreSecret, stretch};
use crate::base::{Entropy, Timestamp};
use crate::format::{
    FileKind, KEYS, KEYS_COPY, KeySlot, KeySlotKind, KeysPage, KeysState, PassphraseCost, StoreKeyId,
    unfinished,
};
use crate::fs::Fs;

const SLOT_LABEL: &[u8] = b"siltstone store slot 1";

/// What Argon2id is told for a new slot on a host with ample memory, and the least on any.
const MEMORY_KIB: u64 = 64 * 1024;
const MEMORY_MIN_KIB: u64 = 19 * 1024;
const PASSES: u32 = 3;

/// What a new slot, or a new key, needs to be made.
pub struct KeyRequest<'a> {
    /// What is to open it.
    pub secret: &'a StoreSecret,
    /// Where random bytes come from.
    pub entropy: &'a dyn Entropy,
    /// The time.
    pub now: Timestamp,
    /// The memory of this host, in bytes: a passphrase takes a quarter of it at most.
    pub memory_bytes: u64,
}

/// The content of `KEYS`.
#[derive(Debug, Clone)]
pub struct DirectoryKeys {
    page: KeysPage,
    fault: Option<KeysFault>,
}

/// One of the two files is not as it is to be, and the other one counts. A second fault like it,
/// and all is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeysFault {
    /// `KEYS` or `KEYS.copy`.
    pub file: &'static str,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for KeysFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.what)
    }
}

impl DirectoryKeys {
    /// Reads the two files of a directory; `None` where there is neither.
    ///
    /// # Errors
    /// Neither is whole, or a newer siltstone wrote one; they have the keys of two directories, and
    /// no file of this one tells which is its own.
    pub fn read(fs: &dyn Fs) -> Result<Option<Self>, VaultError> {
        let keys = read_page(fs, KEYS);
        let copy = read_page(fs, KEYS_COPY);
        let mut problem: Option<io::Error> = None;
        for (name, read) in [(KEYS, &keys), (KEYS_COPY, &copy)] {
            let Err(error) = read else { continue };
            let named = io::Error::new(error.kind(), format!("{name}: {error}"));
            if error.kind() == io::ErrorKind::Unsupported {
                return Err(named.into());
            }
            problem.get_or_insert(named);
        }
        let page = match (&keys, &copy) {
            (Ok(Some(keys)), Ok(Some(copy))) => Some(one_that_counts(fs, keys, copy)?),
            (Ok(Some(page)), _) | (_, Ok(Some(page))) => Some(page),
            _ => None,
        };
        match (page, problem) {
            (Some(page), _) => {
                let fault = fault_of(KEYS, &keys, page).or_else(|| fault_of(KEYS_COPY, &copy, page));
                Ok(Some(Self { page: page.clone(), fault }))
            }
            (None, Some(error)) if error.kind() == io::ErrorKind::InvalidData => {
                Err(VaultError::KeysDamaged(error.to_string()))
            }
            (None, Some(error)) => Err(error.into()),
            (None, None) => Ok(None),
        }
    }

    /// What is wrong with one of the two files, as it was read.
    pub fn fault(&self) -> Option<&KeysFault> {
        self.fault.as_ref()
    }

    /// The keys of a new directory, with one slot. Nothing is written.
    ///
    /// # Errors
    /// The secret is too weak.
    pub fn generate(request: &KeyRequest<'_>, state: KeysState) -> Result<(Self, StoreKey), VaultError> {
        let key = StoreKey::generate(request.entropy);
        let page = KeysPage { state, generation: 0, key: key.id(), slots: Vec::new() };
        let mut keys = Self { page, fault: None };
        keys.add(&key, request)?;
        Ok((keys, key))
    }

    /// The name of the key of the directory.
    pub fn key_id(&self) -> StoreKeyId {
        self.page.key
    }

    /// Whether every file is encrypted.
    pub fn state(&self) -> KeysState {
        self.page.state
    }

    /// The slots.
    pub fn slots(&self) -> &[KeySlot] {
        &self.page.slots
    }

    /// Opens the key of the directory.
    ///
    /// # Errors
    /// The secret opens no slot.
    pub fn open(&self, secret: &StoreSecret) -> Result<StoreKey, VaultError> {
        for slot in &self.page.slots {
            let Some(wrapping) = wrapping_key(secret, slot)? else { continue };
            if let Some(key) = self.unwrap_slot(slot, &wrapping) {
                return Ok(key);
            }
        }
        Err(match secret {
            StoreSecret::Passphrase(_) => VaultError::WrongPassphrase,
            StoreSecret::KeyFile { id, .. } => match self.slot_of(*id) {
                Some(_) => VaultError::WrongKey(*id),
                None => VaultError::NoSlot(*id),
            },
        })
    }

    /// Opens the key of the directory `fs`, to which these belong.
    ///
    /// # Errors
    /// There is no secret, or it opens no slot; not every file is encrypted, or not with this key; of the
    /// disk.
    pub fn open_for(&self, fs: &dyn Fs, secret: Option<&StoreSecret>) -> Result<StoreKey, VaultError> {
        self.check_finished()?;
        self.check_belongs(fs)?;
        let key = self.open(secret.ok_or(VaultError::NoSecret)?)?;
        // The log is read at the start anyhow. A segment is looked at when it is opened: there may be
        // thousands, on a disk that seeks for each.
        check_files(fs, &[FileKind::Log.dir()])?;
        Ok(key)
    }

    /// These, or `other` where that was written later.
    ///
    /// # Errors
    /// They have two keys.
    pub(super) fn newer_of(self, other: Self) -> Result<Self, VaultError> {
        if self.page.key != other.page.key {
            return Err(VaultError::Slots(format!(
                "one side is encrypted with the key {}, and the other one with {}: they belong to two stores",
                self.page.key, other.page.key
            )));
        }
        Ok(if other.page.generation > self.page.generation { other } else { self })
    }

    /// Whether both files are whole, and those of `other` or later ones.
    pub(super) fn is_no_older_than(&self, other: &Self) -> bool {
        let is_later = self.page.generation > other.page.generation;
        self.fault.is_none() && (is_later || self.page == other.page)
    }

    /// Adds a slot for a further secret. Nothing is written.
    ///
    /// # Errors
    /// There is no slot left, the key file has one, or a passphrase is too weak.
    pub fn add(&mut self, key: &StoreKey, request: &KeyRequest<'_>) -> Result<(), VaultError> {
        request.secret.check_strength()?;
        if self.page.slots.len() >= KeysPage::SLOTS_MAX {
            return Err(VaultError::Slots(format!(
                "all {} slots are taken: remove one",
                KeysPage::SLOTS_MAX
            )));
        }
        let kind = match request.secret {
            StoreSecret::KeyFile { id, .. } if self.slot_of(*id).is_some() => {
                return Err(VaultError::Slots(format!("the key file {id} has a slot already")));
            }
            StoreSecret::KeyFile { id, .. } => KeySlotKind::KeyFile(*id),
            StoreSecret::Passphrase(_) => KeySlotKind::Passphrase(cost_for(request.memory_bytes)),
        };
        let mut salt = [0; 32];
        request.entropy.fill(&mut salt);
        let mut slot = KeySlot { kind, created: request.now, salt, wrapped: [0; 48] };
        let wrapping = wrapping_key(request.secret, &slot)?;
        let wrapping = wrapping.expect("the slot was made for the secret");
        let bound = slot.bound_bytes(key.id());
        let mut bytes = Zeroizing::new(*key.bytes());
        let tag = wrapping.seal_in_place_separate_tag(no_nonce(), Aad::from(bound), bytes.as_mut());
        let tag = tag.expect("a key is shorter than the most that one key encrypts");
        slot.wrapped[..32].copy_from_slice(bytes.as_ref());
        slot.wrapped[32..].copy_from_slice(tag.as_ref());
        self.page.slots.push(slot);
        Ok(())
    }

    /// Removes a slot, counted from 1. Nothing is written.
    ///
    /// # Errors
    /// There is no such slot, or it is the last one.
    pub fn remove(&mut self, number: usize) -> Result<(), VaultError> {
        if self.page.slots.len() == 1 {
            let why = "the only slot stays: without it all is lost";
            return Err(VaultError::Slots(why.to_owned()));
        }
        match number.checked_sub(1).filter(|at| *at < self.page.slots.len()) {
            Some(at) => {
                self.page.slots.remove(at);
                Ok(())
            }
            None => Err(VaultError::Slots(format!("there is no slot {number}"))),
        }
    }

    /// Says that every file is encrypted. Nothing is written.
    pub(super) fn finish(&mut self) {
        self.page.state = KeysState::Done;
    }

    /// Writes both files, one after the other: one of them is whole at any time. Durable on return.
    ///
    /// # Errors
    /// Of the disk.
    pub fn write(&mut self, fs: &dyn Fs) -> io::Result<()> {
        // The file may come from anywhere, with the highest number that there is.
        self.page.generation = self.page.generation.saturating_add(1);
        let bytes = self.page.encode();
        for name in [KEYS, KEYS_COPY] {
            replace(fs, name, &bytes)?;
        }
        Ok(())
    }

    /// Writes both files anew, where one of them has a fault. Durable on return.
    ///
    /// # Errors
    /// A file of the directory has another key, or `secret` does not open this one, so that what
    /// was read may be of another directory; a conversion is not finished, which writes them
    /// itself; of the disk.
    pub fn mend(&mut self, fs: &dyn Fs, secret: &StoreSecret) -> Result<(), VaultError> {
        self.check_all_belong(fs)?;
        if self.fault.is_none() {
            return Ok(());
        }
        self.check_finished()?;
        self.open(secret)?;
        self.write(fs)?;
        self.fault = None;
        Ok(())
    }

    /// Fails where the slots are not to be changed.
    ///
    /// # Errors
    /// A conversion is not finished, which would write the slots that it began with; a file of the
    /// directory has another key; or one of the two files has a fault, which the change would hide.
    pub fn check_changeable(&self, fs: &dyn Fs) -> Result<(), VaultError> {
        self.check_finished()?;
        self.check_all_belong(fs)?;
        match &self.fault {
            Some(fault) => Err(VaultError::Slots(format!(
                "{fault}; before slots are changed, run siltstone-tools store-key mend"
            ))),
            None => Ok(()),
        }
    }

    /// The command of siltstone-tools that writes both files again, where one of them has a fault.
    pub fn mending_command(&self) -> &'static str {
        match self.page.state {
            KeysState::Converting => "encrypt",
            KeysState::Done => "store-key mend",
        }
    }

    /// Fails where the directory has files with keys, and none has this one.
    pub(super) fn check_belongs(&self, fs: &dyn Fs) -> Result<(), VaultError> {
        let files = keys_of_files(fs)?;
        if files.iter().any(|file| file.key == self.page.key) {
            return Ok(());
        }
        files.into_iter().next().map_or(Ok(()), |file| Err(self.foreign_to(file.path, file.key)))
    }

    /// Fails where a file of the directory has another key. What is written over may be the last
    /// page that opens it.
    fn check_all_belong(&self, fs: &dyn Fs) -> Result<(), VaultError> {
        let other = keys_of_files(fs)?.into_iter().find(|file| file.key != self.page.key);
        other.map_or(Ok(()), |file| Err(self.foreign_to(file.path, file.key)))
    }

    pub(super) fn foreign_to(&self, path: String, file_key: StoreKeyId) -> VaultError {
        VaultError::ForeignKeys { key: self.page.key, path, file_key }
    }

    fn check_finished(&self) -> Result<(), VaultError> {
        if self.page.state == KeysState::Converting { Err(VaultError::Converting) } else { Ok(()) }
    }

    /// Writes both files as they are in another directory.
    ///
    /// # Errors
    /// Of the disk.
    pub(super) fn write_copy(&self, fs: &dyn Fs) -> io::Result<()> {
        let bytes = self.page.encode();
        replace(fs, KEYS, &bytes)?;
        replace(fs, KEYS_COPY, &bytes)
    }

    fn slot_of(&self, id: StoreKeyId) -> Option<&KeySlot> {
        self.page.slots.iter().find(|slot| slot.kind == KeySlotKind::KeyFile(id))
    }

    fn unwrap_slot(&self, slot: &KeySlot, wrapping: &LessSafeKey) -> Option<StoreKey> {
        let mut bytes = Zeroizing::new(slot.wrapped);
        let bound = Aad::from(slot.bound_bytes(self.page.key));
        let opened = wrapping.open_in_place(no_nonce(), bound, bytes.as_mut()).ok()?;
        let mut key = Zeroizing::new([0; 32]);
        key.copy_from_slice(opened);
        Some(StoreKey::new(key)).filter(|key| key.id() == self.page.key)
    }
}

/// Replaces a file in one step. Durable on return.
fn replace(fs: &dyn Fs, name: &str, bytes: &[u8]) -> io::Result<()> {
    let aside = unfinished(name);
    match fs.remove(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = fs.create(&aside)?;
    file.write_all_at(bytes, 0)?;
    file.sync_data()?;
    fs.rename(&aside, name)?;
    fs.sync_dir("")
}

fn read_page(fs: &dyn Fs, name: &str) -> io::Result<Option<KeysPage>> {
    let file = match fs.open_read(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut page = vec![0; file.len()?.min(KeysPage::BYTES as u64) as usize];
    file.read_exact_at(&mut page, 0)?;
    let page = KeysPage::decode(&page).map_err(|error| {
        let kind = if error.is_newer() { io::ErrorKind::Unsupported } else { io::ErrorKind::InvalidData };
        io::Error::new(kind, error.to_string())
    })?;
    Ok(Some(page))
}

/// The one of two whole pages that counts.
///
/// # Errors
/// They have two keys, and the files of the directory do not say which one is its own.
fn one_that_counts<'p>(
    fs: &dyn Fs,
    keys: &'p KeysPage,
    copy: &'p KeysPage,
) -> Result<&'p KeysPage, VaultError> {
    if keys.key == copy.key {
        // The two are written one after the other: after a crash in between the newer one counts.
        return Ok(if keys.generation < copy.generation { copy } else { keys });
    }
    // One of them was copied from another directory, whose generations have nothing to do with
    // those of this one.
    let files = keys_of_files(fs)?;
    let names_keys = files.iter().any(|file| file.key == keys.key);
    let names_copy = files.iter().any(|file| file.key == copy.key);
    let why = match (names_keys, names_copy) {
        (true, false) => return Ok(keys),
        (false, true) => return Ok(copy),
        (true, true) => "there are files with either",
        (false, false) if files.is_empty() => "no file says which one is that of this directory",
        (false, false) => "every file has a third one",
    };
    Err(VaultError::TwoKeys { keys: keys.key, copy: copy.key, why })
}

/// What is wrong with a file, where `page` is what counts.
fn fault_of(file: &'static str, read: &io::Result<Option<KeysPage>>, page: &KeysPage) -> Option<KeysFault> {
    let what = match read {
        Ok(Some(there)) if there == page => return None,
        Ok(Some(there)) if there.key != page.key => format!(
            "it has the key {} of another directory, and the files of this one have the key {}",
            there.key, page.key
        ),
        Ok(Some(there)) if there.generation < page.generation => "it is older than the other one".to_owned(),
        Ok(Some(_)) => "it differs from the other one".to_owned(),
        Ok(None) => "it is missing".to_owned(),
        Err(error) => error.to_string(),
    };
    Some(KeysFault { file, what })
}

/// The key that wraps in a slot; `None` where the slot is for another secret.
fn wrapping_key(secret: &StoreSecret, slot: &KeySlot) -> Result<Option<LessSafeKey>, VaultError> {
    let root = match (secret, slot.kind) {
        (StoreSecret::KeyFile { id, secret }, KeySlotKind::KeyFile(of)) if *id == of => secret.clone(),
        (StoreSecret::Passphrase(phrase), KeySlotKind::Passphrase(cost)) => {
            stretch(phrase, &slot.salt, cost)?
        }
        _ => return Ok(None),
    };
    let mut key = Zeroizing::new([0; 32]);
    derive(root.as_ref(), &slot.salt, SLOT_LABEL, key.as_mut());
    let key = UnboundKey::new(&AES_256_GCM, key.as_ref()).expect("the key has 32 bytes");
    Ok(Some(LessSafeKey::new(key)))
}

/// Each slot has a salt of its own, and its key wraps once.
fn no_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// What a passphrase costs on a host with so much memory.
fn cost_for(memory_bytes: u64) -> PassphraseCost {
    let quarter_kib = memory_bytes / 4 / 1024;
    let memory_kib = quarter_kib.clamp(MEMORY_MIN_KIB, MEMORY_KIB) as u32;
    PassphraseCost { memory_kib, passes: PASSES, lanes: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeededEntropy;
    use crate::fs::sim::SimFs;

    fn key_file(seed: u64) -> StoreSecret {
        let (line, _) = StoreSecret::new_key_file(&SeededEntropy::new(seed));
        StoreSecret::parse(&Zeroizing::new(line.as_bytes().to_vec())).unwrap()
    }

    fn passphrase(text: &str) -> StoreSecret {
        StoreSecret::Passphrase(Zeroizing::new(text.as_bytes().to_vec()))
    }

    fn request(secret: &StoreSecret) -> KeyRequest<'_> {
        static ENTROPY: std::sync::LazyLock<SeededEntropy> =
            std::sync::LazyLock::new(|| SeededEntropy::new(9));
        KeyRequest { secret, entropy: &*ENTROPY, now: Timestamp::from_millis(5), memory_bytes: 0 }
    }

    fn made(secret: &StoreSecret) -> (SimFs, DirectoryKeys, StoreKey) {
        let fs = SimFs::new();
        let (mut keys, key) = DirectoryKeys::generate(&request(secret), KeysState::Done).unwrap();
        keys.write(&fs).unwrap();
        (fs, keys, key)
    }

    #[test]
    fn each_secret_opens_the_key_and_no_other_does() {
        let file = key_file(1);
        let phrase = passphrase("correct horse battery staple");
        let (fs, mut keys, key) = made(&file);
        keys.add(&key, &request(&phrase)).unwrap();
        keys.write(&fs).unwrap();
        let keys = DirectoryKeys::read(&fs).unwrap().unwrap();
        for secret in [&file, &phrase] {
            assert_eq!(keys.open(secret).unwrap().bytes(), key.bytes());
        }
        assert!(matches!(keys.open(&key_file(2)), Err(VaultError::NoSlot(_))));
        let wrong = keys.open(&passphrase("correct horse battery stapler"));
        assert!(matches!(wrong, Err(VaultError::WrongPassphrase)));
        for name in [KEYS, KEYS_COPY] {
            let bytes = fs.contents(name).unwrap();
            assert!(!bytes.windows(32).any(|window| window == key.bytes()));
        }
    }

    #[test]
    fn a_changed_slot_opens_nothing() {
        let file = key_file(1);
        let (_, keys, _) = made(&file);
        let change: [&dyn Fn(&mut KeysPage); 4] = [
            &|page| page.slots[0].wrapped[0] ^= 1,
            &|page| page.slots[0].wrapped[47] ^= 1,
            &|page| page.slots[0].salt[0] ^= 1,
            &|page| page.key.0[0] ^= 1,
        ];
        for change in change {
            let mut keys = keys.clone();
            change(&mut keys.page);
            assert!(matches!(keys.open(&file), Err(VaultError::WrongKey(_))));
        }
    }

    #[test]
    fn one_file_is_enough_and_a_newer_generation_counts() {
        let file = key_file(1);
        let (fs, mut keys, key) = made(&file);
        let old = fs.contents(KEYS_COPY).unwrap();
        keys.add(&key, &request(&key_file(2))).unwrap();
        keys.write(&fs).unwrap();
        fs.overwrite(KEYS_COPY, 0, &old).unwrap();
        assert_eq!(DirectoryKeys::read(&fs).unwrap().unwrap().slots().len(), 2);
        fs.damage(KEYS, 70, 1).unwrap();
        assert_eq!(DirectoryKeys::read(&fs).unwrap().unwrap().slots().len(), 1);
        fs.remove(KEYS).unwrap();
        assert_eq!(DirectoryKeys::read(&fs).unwrap().unwrap().slots().len(), 1);
        fs.damage(KEYS_COPY, 70, 1).unwrap();
        assert!(matches!(DirectoryKeys::read(&fs), Err(VaultError::KeysDamaged(_))));
        fs.remove(KEYS_COPY).unwrap();
        assert!(DirectoryKeys::read(&fs).unwrap().is_none());
    }

    /// What happens to a file.
    type Change<'c> = &'c dyn Fn(&SimFs, &str);

    #[test]
    fn a_fault_of_one_file_is_told_until_it_is_mended() {
        let file = key_file(1);
        let (whole, mut keys, key) = made(&file);
        assert_eq!(DirectoryKeys::read(&whole).unwrap().unwrap().fault(), None);
        let old = whole.contents(KEYS_COPY).unwrap();
        keys.add(&key, &request(&key_file(2))).unwrap();
        keys.write(&whole).unwrap();
        let faults: [(&str, &str, Change<'_>); 4] = [
            (KEYS, "missing", &|fs, name| fs.remove(name).unwrap()),
            (KEYS_COPY, "CRC", &|fs, name| fs.damage(name, 70, 1).unwrap()),
            (KEYS_COPY, "older", &|fs, name| fs.overwrite(name, 0, &old).unwrap()),
            (KEYS, "older", &|fs, name| fs.overwrite(name, 0, &old).unwrap()),
        ];
        for (name, told, fault) in faults {
            let fs = whole.copy();
            fault(&fs, name);
            let before = fs.contents(KEYS).ok().zip(fs.contents(KEYS_COPY).ok());
            let mut keys = DirectoryKeys::read(&fs).unwrap().unwrap();
            let found = keys.fault().unwrap().clone();
            assert!(found.file == name && found.what.contains(told), "{found}");
            let refused = keys.check_changeable(&fs).unwrap_err().to_string();
            assert!(refused.contains(name) && refused.contains("store-key mend"), "{refused}");
            assert!(keys.mend(&fs, &key_file(3)).is_err(), "only who opens it says that it is right");
            assert_eq!(fs.contents(KEYS).ok().zip(fs.contents(KEYS_COPY).ok()), before);
            keys.mend(&fs, &file).unwrap();
            let mended = DirectoryKeys::read(&fs).unwrap().unwrap();
            assert!(mended.fault().is_none() && mended.check_changeable(&fs).is_ok());
            assert!(mended.open(&file).is_ok() && mended.open(&key_file(2)).is_ok());
        }
    }

    #[test]
    fn slots_stay_as_they_are_while_a_conversion_goes_on() {
        let file = key_file(1);
        let (mut keys, _) = DirectoryKeys::generate(&request(&file), KeysState::Converting).unwrap();
        let fs = SimFs::new();
        keys.write(&fs).unwrap();
        let keys = DirectoryKeys::read(&fs).unwrap().unwrap();
        assert!(matches!(keys.check_changeable(&fs), Err(VaultError::Converting)));
        fs.remove(KEYS_COPY).unwrap();
        let mut keys = DirectoryKeys::read(&fs).unwrap().unwrap();
        assert!(keys.mending_command() == "encrypt");
        assert!(matches!(keys.mend(&fs, &file), Err(VaultError::Converting)));
    }

    #[test]
    fn a_power_cut_while_keys_are_replaced_leaves_the_old_or_the_new_ones() {
        use crate::fs::sim::CrashPolicy;
        let file = key_file(1);
        let (before, keys, key) = made(&file);
        for stop in 1.. {
            let fs = before.copy();
            fs.stop_at(stop);
            let mut keys = keys.clone();
            keys.add(&key, &request(&key_file(2))).unwrap();
            let written = keys.write(&fs);
            for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(stop)] {
                let found = DirectoryKeys::read(&fs.crash(policy)).unwrap().unwrap();
                assert!(found.open(&file).is_ok(), "{stop} {policy:?}");
                assert!(written.is_err() || found.slots().len() == 2);
            }
            if written.is_ok() {
                return;
            }
        }
    }

    #[test]
    fn slots_are_counted_and_the_last_one_stays() {
        let file = key_file(1);
        let (_, mut keys, key) = made(&file);
        assert!(keys.remove(1).is_err());
        assert!(keys.add(&key, &request(&file)).is_err(), "the key file has one");
        assert!(keys.add(&key, &request(&passphrase("short"))).is_err());
        for seed in 2..=KeysPage::SLOTS_MAX as u64 {
            keys.add(&key, &request(&key_file(seed))).unwrap();
        }
        assert!(keys.add(&key, &request(&key_file(99))).unwrap_err().to_string().contains("all 8 slots"));
        assert!(keys.remove(0).is_err() && keys.remove(9).is_err());
        keys.remove(1).unwrap();
        assert!(keys.open(&file).is_err() && keys.open(&key_file(2)).is_ok());
    }

    #[test]
    fn a_passphrase_costs_less_on_a_small_host() {
        let memory = |bytes| cost_for(bytes).memory_kib;
        assert_eq!((memory(0), memory(u64::MAX), memory(128 << 20)), (19 * 1024, 64 * 1024, 32 * 1024));
    }
}
