//! The file of the key ring: made at the first start that lacks it, read at the start and on
//! SIGHUP.

use std::path::{self, Path, PathBuf};
use std::sync::Arc;

use log::{error, info, warn};
use siltstone::base::{Clock as _, Entropy, OsEntropy, SystemClock, Timestamp};
use siltstone::fs::{SecretFile, share_disk};
use siltstone::keys::{self, KeyRing, RingKey, SharedKeyRing};
use siltstone::service::{AuditLog as _, AuditRecord, AuditTrail};

use crate::cli::config::environment::Environment;
use crate::cli::config::options::ServerOptions;
use crate::cli::error::CliError;
use crate::cli::users::users_file::warn_of_readers;

/// The name of the file, also among the credentials that systemd hands over.
const NAME: &str = "keys.toml";
/// The variable with the directory of those credentials.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// The file of the ring.
#[derive(Debug, Clone)]
pub(crate) struct KeysFile(SecretFile);

impl KeysFile {
    /// The file that `--keys-file` names; else the credential `keys.toml` of systemd; else the file
    /// beside the users file.
    pub(crate) fn of(options: &ServerOptions, environment: &Environment) -> Self {
        let credential = environment.get(CREDENTIALS).map(|dir| Path::new(dir).join(NAME));
        let credential = credential.filter(|file| file.exists());
        let named = options.start.keys_file.clone().map(|file| options.start.in_data_dir(file));
        let named = named.or(credential);
        let path = named.unwrap_or_else(|| options.start.users_path().with_file_name(NAME));
        let copy = options.start.copy_of(&path);
        let refusal = options.start.refusal_for(&path);
        Self(SecretFile::new(path).with_copy(copy).refusing(refusal))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The file itself.
    pub(crate) fn into_secret_file(self) -> SecretFile {
        self.0
    }

    /// As [`SecretFile::make_level`].
    pub(crate) fn make_level(&self, newer_counts: bool) -> Result<(), String> {
        self.0.make_level(newer_counts)
    }

    /// Reads the ring; an empty one without a file.
    ///
    /// # Errors
    /// A message for the operator, with the file and the line. It quotes no key.
    pub(crate) fn read(&self) -> Result<KeyRing, String> {
        if !self.0.exists() {
            return Ok(KeyRing::default());
        }
        let text = self.0.read()?;
        let ring = KeyRing::parse(&text).map_err(|error| format!("in {}, {error}", self.path().display()))?;
        warn_of_readers(&self.0);
        if ring.current().is_none() {
            warn!(
                "{} has no current key, so that no object is encrypted unless it names a key: siltstone-tools key add",
                self.path().display()
            );
        }
        Ok(ring)
    }

    /// Creates the file with one key, if it is missing. Where it cannot be, as in a directory that
    /// is not the server's, there is no ring, and requests that need one are refused.
    fn create_if_missing(&self, now: Timestamp, entropy: &dyn Entropy) {
        if self.0.exists() {
            return;
        }
        let made = self.0.edit(|text| match text {
            None => Ok(keys::first_file(now, entropy)),
            Some(there) => Ok(there.to_owned()),
        });
        match made {
            Ok(()) => info!(
                "made the keys of encrypted objects in {}: keep a copy in another place",
                self.path().display()
            ),
            Err(problem) => warn!(
                "there are no keys, so that requests for encryption are refused: {problem}; name a file that the server may create by \
                 --keys-file"
            ),
        }
    }
}

/// The ring of a running server.
pub(crate) struct RunningKeys {
    file: KeysFile,
    pub(crate) ring: Arc<SharedKeyRing>,
    /// Where its changes are recorded, once that is known.
    audit: Option<Arc<AuditTrail>>,
}

impl RunningKeys {
    /// Reads the file. A server that may write makes it, unless `is_expected`: there are objects
    /// that no new key opens.
    ///
    /// # Errors
    /// The file is broken or cannot be read.
    pub(crate) fn open(file: KeysFile, may_make: bool, is_expected: bool) -> Result<Self, CliError> {
        if is_expected && !file.0.exists() {
            warn!(
                "there are encrypted objects, and no {}: they cannot be read until the file is put back, or named by --keys-file",
                file.path().display()
            );
        } else if may_make {
            file.create_if_missing(SystemClock.now(), &OsEntropy);
        }
        let ring = file.read().map_err(CliError::start)?;
        Ok(Self { file, ring: Arc::new(SharedKeyRing::new(ring)), audit: None })
    }

    /// The path of the file, as commands in other working directories need it.
    pub(crate) fn absolute_path(&self) -> Option<PathBuf> {
        path::absolute(self.file.path()).ok()
    }

    /// Whether the file is on the disk of a directory, so that who takes that disk has both.
    pub(crate) fn is_on_disk_of(&self, dir: &Path) -> bool {
        share_disk(self.file.path(), dir)
    }

    /// The same, whose changes are recorded.
    pub(crate) fn with_audit(self, audit: Arc<AuditTrail>) -> Self {
        Self { audit: Some(audit), ..self }
    }

    /// Reads the file again. If it is broken the previous keys stay in effect.
    pub(crate) fn reload(&self) {
        // A file system that is not mounted has no file.
        let read = self.file.read().and_then(|ring| match ring.is_empty() && !self.ring.get().is_empty() {
            true => Err(format!("{} is missing, or has no keys", self.file.path().display())),
            false => Ok(ring),
        });
        match read {
            Ok(ring) => {
                let before = self.ring.get();
                let kept_out = self.ring.replace(ring);
                self.record(&differences(&before, &self.ring.get()), None);
                info!("the keys of encrypted objects were read again");
                self.file.0.update_copy();
                if !kept_out.is_empty() {
                    warn!(
                        "{} still has keys that were destroyed, which stay out of the ring until the server is started again: {}; \
                         run siltstone key destroy for them once more",
                        self.file.path().display(),
                        kept_out.join(", ")
                    );
                }
            }
            Err(problem) => {
                self.record(&[KeyChange { action: "ReloadKeys", id: None }], Some("Refused"));
                error!("the keys of encrypted objects are unchanged: {problem}");
            }
        }
    }

    fn record(&self, changes: &[KeyChange], error: Option<&str>) {
        let Some(log) = self.audit.as_ref().filter(|_| !changes.is_empty()) else { return };
        let time = SystemClock.now();
        let records = changes.iter().map(|change| AuditRecord {
            time,
            peer: Some("SIGHUP"),
            action: change.action,
            subject: change.id.as_deref(),
            error,
            ..AuditRecord::default()
        });
        log.record(&records.collect::<Vec<_>>());
    }
}

/// A change of the ring, as the audit log names it.
#[derive(Debug, PartialEq)]
struct KeyChange {
    action: &'static str,
    /// The id of the key.
    id: Option<String>,
}

impl KeyChange {
    fn of(action: &'static str, key: &RingKey) -> Self {
        Self { action, id: Some(key.id.clone()) }
    }
}

/// The changes from `old` to `new`: keys that went, then those that came or changed.
fn differences(old: &KeyRing, new: &KeyRing) -> Vec<KeyChange> {
    let gone = old.iter().filter(|key| new.by_id(&key.id).is_none());
    let gone = gone.map(|key| KeyChange::of("RemoveKey", key));
    let changed = new.iter().filter_map(|key| match old.by_id(&key.id) {
        None => Some(KeyChange::of("AddKey", key)),
        Some(before) if !before.retired && key.retired => Some(KeyChange::of("RetireKey", key)),
        Some(before) if before != key => Some(KeyChange::of("ChangeKey", key)),
        Some(_) => None,
    });
    gone.chain(changed).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use siltstone::base::SeededEntropy;

    use super::*;
    use crate::cli::config::config_file::options;

    fn file(path: &Path) -> KeysFile {
        KeysFile(SecretFile::new(path.to_owned()))
    }

    #[test]
    fn the_file_is_the_named_one_or_a_credential_or_beside_the_users() {
        let dir = tempfile::tempdir().unwrap();
        let set = [("CREDENTIALS_DIRECTORY".into(), dir.path().as_os_str().to_owned())];
        let environment = Environment::new(set);
        let of = |text: &str, environment: &Environment| KeysFile::of(&options(&[], text), environment).0;
        let beside = of("data_dir = '/d'", &environment);
        assert_eq!(beside.path(), Path::new("/d/keys.toml"));
        assert_eq!(of("data_dir = '/d'\nusers = '/e/u'", &environment).path(), Path::new("/e/keys.toml"));
        fs::write(dir.path().join("keys.toml"), "").unwrap();
        assert_eq!(of("data_dir = '/d'", &environment).path(), dir.path().join("keys.toml"));
        let named = of("data_dir = '/d'\nkeys_file = '/k'", &environment);
        assert_eq!(named.path(), Path::new("/k"));
    }

    #[test]
    fn a_ring_is_made_once_and_not_where_objects_need_another_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys.toml");
        let open =
            |may_make, is_expected| RunningKeys::open(file(&path), may_make, is_expected).unwrap().ring.get();
        assert!(open(false, false).is_empty() && open(true, true).is_empty() && !path.exists());
        let made = open(true, false);
        assert!(
            made.current().is_some() && fs::metadata(&path).unwrap().permissions().mode() & 0o7777 == 0o600
        );
        assert_eq!(open(true, true), made);
        assert_eq!(open(false, false), made);
        fs::write(&path, "[[key]]\n").unwrap();
        assert!(RunningKeys::open(file(&path), true, false).is_err());
    }

    #[test]
    fn a_ring_that_cannot_be_made_does_not_stop_the_start() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("no-dir"), "").unwrap();
        let keys = RunningKeys::open(file(&dir.path().join("no-dir/keys.toml")), true, false).unwrap();
        assert!(keys.ring.get().is_empty());
    }

    #[test]
    fn a_broken_file_leaves_the_keys_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys.toml");
        let keys = RunningKeys::open(file(&path), true, false).unwrap();
        let first = keys.ring.get();
        fs::write(&path, "[[key]]\n").unwrap();
        keys.reload();
        assert_eq!(keys.ring.get(), first);
        fs::write(&path, "").unwrap();
        keys.reload();
        fs::remove_file(&path).unwrap();
        keys.reload();
        assert_eq!(keys.ring.get(), first, "its file system may not be mounted");
    }

    #[test]
    fn a_key_that_the_server_gave_up_does_not_come_back_from_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys.toml");
        let first = keys::first_file(Timestamp::from_millis(1), &SeededEntropy::new(1));
        let later = Timestamp::from_millis(2);
        let (both, _) = keys::with_new_key(&first, None, later, &SeededEntropy::new(2)).unwrap();
        let old = KeyRing::parse(&first).unwrap().current().unwrap().id.clone();
        fs::write(&path, keys::with_retired_key(&both, &old).unwrap()).unwrap();
        let keys = RunningKeys::open(file(&path), true, false).unwrap();
        keys.ring.give_up(&old).unwrap();
        keys.reload();
        assert!(keys.ring.get().by_id(&old).is_none() && keys.ring.get().current().is_some());
    }

    #[test]
    fn each_change_of_a_key_is_named() {
        let text = keys::first_file(Timestamp::from_millis(1), &SeededEntropy::new(1));
        let later = Timestamp::from_millis(2);
        let (more, id) = keys::with_new_key(&text, Some("a"), later, &SeededEntropy::new(2)).unwrap();
        let retired = keys::with_retired_key(&more, &id).unwrap();
        let renamed = more.replace("\"a\"", "\"b\"");
        let between = |old: &str, new: &str| {
            let changes = differences(&KeyRing::parse(old).unwrap(), &KeyRing::parse(new).unwrap());
            changes.iter().map(|change| (change.action, change.id == Some(id.clone()))).collect::<Vec<_>>()
        };
        assert_eq!(between(&text, &more), [("AddKey", true)]);
        assert_eq!(between(&more, &text), [("RemoveKey", true)]);
        assert_eq!(between(&more, &retired), [("RetireKey", true)]);
        assert_eq!(between(&retired, &more), [("ChangeKey", true)]);
        assert_eq!(between(&more, &renamed), [("ChangeKey", true)]);
        assert_eq!(between(&more, &more), []);
    }
}
