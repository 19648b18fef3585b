//! Small files with secrets, which operators and commands edit: the users file and the key ring.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{Fs, OsFs};

/// The mode of a new file.
const SECRET_MODE: u32 = 0o600;

/// A file with secrets. Each change replaces it as a whole, durably.
#[derive(Debug, Clone)]
pub struct SecretFile {
    path: PathBuf,
    /// The same file on the other side of a mirror.
    copy: Option<PathBuf>,
    /// Why it must not be changed.
    refusal: Option<String>,
}

impl SecretFile {
    /// The file at `path`.
    pub fn new(path: PathBuf) -> Self {
        Self { path, copy: None, refusal: None }
    }

    /// The same, which has a copy: each change is made there, too, after it was made here.
    #[must_use]
    pub fn with_copy(self, copy: Option<PathBuf>) -> Self {
        Self { copy, ..self }
    }

    /// The same, which must not be changed where there is a reason.
    #[must_use]
    pub fn refusing(self, refusal: Option<String>) -> Self {
        Self { refusal, ..self }
    }

    /// Makes the file and its copy equal, where one of them is missing or differs. The file counts; with
    /// `newer_counts`, the one that was changed last does, if it can be read and is not empty. The other
    /// one is kept under another name.
    ///
    /// # Errors
    /// The copy counts, and cannot be copied; with the path.
    pub fn make_level(&self, newer_counts: bool) -> Result<(), String> {
        let Some(copy) = &self.copy else { return Ok(()) };
        let one = fs::read(&self.path);
        let other = fs::read(copy);
        let is_equal = matches!((&one, &other), (Ok(one), Ok(other)) if one == other);
        if is_equal || one.is_err() && other.is_err() {
            return Ok(());
        }
        let is_sound = other.as_ref().is_ok_and(|text| !text.is_empty());
        if newer_counts && is_sound && changed_at(copy) > changed_at(&self.path) {
            set_aside(&self.path);
            return replicate(copy, &self.path).map_err(|error| {
                format!("cannot copy {} to {}: {error}", copy.display(), self.path.display())
            });
        }
        if self.exists() {
            set_aside(copy);
            self.update_copy();
        }
        Ok(())
    }

    /// Makes the copy equal, after the file was changed by hand. It is no error where that fails: the file counts, and the next start of the
    /// server copies it again.
    pub fn update_copy(&self) {
        let Some(copy) = &self.copy else { return };
        if let Err(error) = replicate(&self.path, copy) {
            log::warn!("{} is not copied to {}: {error}", self.path.display(), copy.display());
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is something at the path, also if it cannot be read.
    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    /// The text of the file.
    ///
    /// # Errors
    /// Errors of reading, also for a text that is not UTF-8; with the path.
    pub fn read(&self) -> Result<String, String> {
        fs::read_to_string(&self.path)
            .map_err(|error| format!("cannot read {}: {error}", self.path.display()))
    }

    /// Creates the file, readable by the owner alone. A file that is there is replaced.
    ///
    /// # Errors
    /// Errors of the disk, with the path.
    pub fn create(&self, text: &str) -> Result<(), String> {
        self.check_refusal()?;
        write(&self.path, text, None, SECRET_MODE)
            .map_err(|error| format!("cannot create {}: {error}", self.path.display()))?;
        self.update_copy();
        Ok(())
    }

    /// Replaces the text by the result of `change`, and keeps the owner, the group and the mode of
    /// the file, unless all accounts of the host could read it. `change` gets `None` for a missing
    /// file, which is created with the owner of its directory. Concurrent edits by several
    /// processes are serialised.
    ///
    /// # Errors
    /// Those of `change`, and of the disk; the file is unchanged.
    pub fn edit(&self, change: impl FnOnce(Option<&str>) -> Result<String, String>) -> Result<(), String> {
        self.check_refusal()?;
        // The target of a symbolic link is replaced, not the link.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        // The directory is locked, since each edit replaces the file.
        let dir = match fs::File::open(parent_of(&path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Whoever needs the file says so.
                change(None)?;
                return Err(self.unchanged(&error));
            }
            dir => dir.map_err(|error| self.unchanged(&error))?,
        };
        dir.lock().map_err(|error| self.unchanged(&error))?;
        let (text, owner, mode) = match fs::metadata(&path) {
            Ok(file) => (Some(self.read()?), (file.uid(), file.gid()), kept_mode(file.mode())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let above = dir.metadata().map_err(|error| self.unchanged(&error))?;
                (None, (above.uid(), above.gid()), SECRET_MODE)
            }
            Err(error) => return Err(self.unchanged(&error)),
        };
        let text = change(text.as_deref())?;
        write(&path, &text, Some(owner), mode).map_err(|error| self.unchanged(&error))?;
        self.update_copy();
        Ok(())
    }

    fn check_refusal(&self) -> Result<(), String> {
        match &self.refusal {
            Some(why) => Err(format!("{} is not changed: {why}", self.path.display())),
            None => Ok(()),
        }
    }

    fn unchanged(&self, error: &io::Error) -> String {
        format!("cannot change {}: {error}", self.path.display())
    }

    /// Whether others than the owner may read or change the file.
    pub fn is_open_to_others(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
    }
}

/// The mode of a file after an edit: that before, unless all accounts of the host could read the
/// secrets.
fn kept_mode(mode: u32) -> u32 {
    let mode = mode & 0o777;
    if mode & 0o007 == 0 { mode } else { SECRET_MODE }
}

/// When a file was changed; `None` where it is missing.
fn changed_at(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// Keeps a file that is about to be replaced under another name, if there is one.
fn set_aside(path: &Path) {
    let Ok(since) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) else { return };
    let aside = PathBuf::from(format!("{}.replaced-{}", path.display(), since.as_millis()));
    if fs::hard_link(path, &aside).is_ok() {
        log::warn!(
            "{} differs on the two sides of the mirror, and is kept as {}",
            path.display(),
            aside.display()
        );
    }
}

/// Gives `to` the text, the owner, the mode and the time of `from`.
fn replicate(from: &Path, to: &Path) -> io::Result<()> {
    // The target of a symbolic link is replaced, not the link.
    let to = fs::canonicalize(to).unwrap_or_else(|_| to.to_owned());
    let text = fs::read_to_string(from)?;
    let metadata = fs::metadata(from)?;
    write(&to, &text, Some((metadata.uid(), metadata.gid())), kept_mode(metadata.mode()))?;
    // A copy is no newer than what it was made of.
    fs::File::open(&to)?.set_modified(metadata.modified()?)
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Replaces a file atomically: writes a temporary file, syncs it, renames it and syncs the
/// directory. `owner` is a user id and a group id.
fn write(path: &Path, text: &str, owner: Option<(u32, u32)>, mode: u32) -> io::Result<()> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "its name is not UTF-8"))?;
    let dir = OsFs::new(parent_of(path));
    dir.create_root()?;
    // 1. A file of that name is from an edit that a crash ended. It is removed and not written
    //    over: whoever had opened it could read the new secrets.
    let unfinished = format!("{name}.new");
    match dir.remove(&unfinished) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => (),
    }
    // 2. Created for its owner alone, and only then given away: at no time is it open to more than
    //    it will be.
    let file = dir.create(&unfinished)?;
    let unfinished_path = path.with_file_name(&unfinished);
    // Its group may read it only once that is the right one.
    give_to(&unfinished_path, owner)?;
    fs::set_permissions(&unfinished_path, fs::Permissions::from_mode(mode))?;
    // 3. The bytes are durable before the name points at them. In the other order a crash could
    //    leave a users file of zeros.
    file.write_all_at(text.as_bytes(), 0)?;
    file.sync_data()?;
    // 4. The rename replaces the file in one step, and the sync of the directory makes it last.
    dir.rename(&unfinished, name)?;
    dir.sync_dir("")
}

/// Changes the owner, so that a server that runs as another user can read the file that root
/// edited.
fn give_to(path: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    let now = fs::metadata(path)?;
    match owner {
        Some((user, group)) if (user, group) != (now.uid(), now.gid()) => {
            chown(path, Some(user), Some(group))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(file: &SecretFile) -> u32 {
        fs::metadata(file.path()).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_new_file_is_its_owners_alone_and_replaces_what_a_crash_left() {
        let dir = tempfile::tempdir().unwrap();
        let file = SecretFile::new(dir.path().join("sub/secrets"));
        file.create("a").unwrap();
        assert_eq!(
            (file.read().unwrap().as_str(), mode(&file), file.is_open_to_others()),
            ("a", 0o600, false)
        );
        fs::write(dir.path().join("sub/secrets.new"), "half").unwrap();
        file.create("b").unwrap();
        assert_eq!(file.read().unwrap(), "b");
        assert_eq!(fs::read_dir(dir.path().join("sub")).unwrap().count(), 1);
    }

    #[test]
    fn an_absent_file_is_made_by_a_change_that_may_and_succeeds() {
        let dir = tempfile::tempdir().unwrap();
        let file = SecretFile::new(dir.path().join("secrets"));
        assert_eq!(file.edit(|text| Err(format!("{text:?}"))), Err("None".to_owned()));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        file.edit(|_| Ok("new".to_owned())).unwrap();
        assert_eq!((file.read().unwrap().as_str(), mode(&file)), ("new", 0o600));
        let nowhere = SecretFile::new(dir.path().join("absent/secrets"));
        assert_eq!(nowhere.edit(|_| Err("none".to_owned())), Err("none".to_owned()));
        assert!(nowhere.edit(|_| Ok(String::new())).unwrap_err().contains("absent"));
    }

    #[test]
    fn a_change_keeps_the_mode_and_the_group() {
        let dir = tempfile::tempdir().unwrap();
        let file = SecretFile::new(dir.path().join("secrets"));
        fs::write(file.path(), "").unwrap();
        let group = fs::metadata(file.path()).unwrap().gid();
        // A test that may choose a group chooses another one.
        let other = if rustix::process::geteuid().is_root() { group + 1 } else { group };
        chown(file.path(), None, Some(other)).unwrap();
        for mode in [0o640, 0o600, 0o440] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            file.edit(|text| Ok(format!("{}#\n", text.unwrap()))).unwrap();
            let after = fs::metadata(file.path()).unwrap();
            assert_eq!((after.mode() & 0o7777, after.gid()), (mode, other));
        }
        assert_eq!(file.read().unwrap(), "#\n#\n#\n");
        assert_eq!([0o100_644, 0o100_604, 0o100_660].map(kept_mode), [0o600, 0o600, 0o660]);
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
        assert!(file.is_open_to_others());
    }

    #[test]
    fn the_target_of_a_link_is_changed_and_not_the_link() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("etc")).unwrap();
        fs::write(dir.path().join("etc/secrets"), "a").unwrap();
        std::os::unix::fs::symlink("etc/secrets", dir.path().join("secrets")).unwrap();
        let file = SecretFile::new(dir.path().join("secrets"));
        file.edit(|text| Ok(format!("{}b", text.unwrap()))).unwrap();
        assert!(fs::symlink_metadata(file.path()).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(dir.path().join("etc/secrets")).unwrap(), "ab");
    }

    #[test]
    fn each_change_is_made_in_the_copy_too_and_a_copy_that_fails_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("b/secrets");
        let file = SecretFile::new(dir.path().join("a/secrets")).with_copy(Some(copy.clone()));
        file.create("one").unwrap();
        assert_eq!(fs::read_to_string(&copy).unwrap(), "one");
        assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o777, SECRET_MODE);
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
        file.edit(|_| Ok("two".to_owned())).unwrap();
        assert_eq!(fs::read_to_string(&copy).unwrap(), "two");
        assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o777, 0o640);
        fs::remove_dir_all(dir.path().join("b")).unwrap();
        fs::write(dir.path().join("b"), "no directory").unwrap();
        file.edit(|_| Ok("three".to_owned())).unwrap();
        assert_eq!(file.read().unwrap(), "three");
        file.make_level(false).unwrap();
    }

    #[test]
    fn a_copy_is_no_newer_than_the_file_and_what_is_replaced_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("b");
        let file = SecretFile::new(dir.path().join("a")).with_copy(Some(copy.clone()));
        file.create("keys").unwrap();
        assert_eq!(changed_at(&copy), changed_at(file.path()));
        let time = changed_at(&copy).unwrap();
        // Rot changes no time.
        fs::write(&copy, "rot").unwrap();
        fs::File::options().write(true).open(&copy).unwrap().set_modified(time).unwrap();
        file.make_level(true).unwrap();
        assert_eq!(file.read().unwrap(), "keys");
        assert_eq!(fs::read_to_string(&copy).unwrap(), "keys");
        let kept: Vec<_> = OsFs::new(dir.path()).list("").unwrap();
        let kept: Vec<_> = kept.into_iter().filter(|name| name.starts_with("b.replaced-")).collect();
        assert_eq!(kept.len(), 1);
        assert_eq!(fs::read_to_string(dir.path().join(&kept[0])).unwrap(), "rot");
        // One that was emptied counts for nothing.
        fs::write(&copy, "").unwrap();
        file.make_level(true).unwrap();
        assert_eq!(fs::read_to_string(&copy).unwrap(), "keys");
    }

    #[test]
    fn a_file_of_a_side_that_may_not_count_is_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let file = SecretFile::new(dir.path().join("a"));
        file.create("one").unwrap();
        let file = file.refusing(Some("the other side may be later".to_owned()));
        assert!(file.edit(|_| Ok("two".to_owned())).unwrap_err().contains("may be later"));
        assert!(file.create("two").is_err());
        assert_eq!(file.read().unwrap(), "one");
    }

    #[test]
    fn a_copy_that_differs_is_made_equal_from_the_one_that_counts() {
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("b");
        let file = SecretFile::new(dir.path().join("a")).with_copy(Some(copy.clone()));
        file.make_level(true).unwrap();
        assert!(!copy.exists(), "there is neither");
        let old = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1);
        let write = |path: &Path, text: &str, is_old: bool| {
            fs::write(path, text).unwrap();
            if is_old {
                fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
            }
        };
        for (newer_counts, file_is_old, expected) in
            [(false, false, "file"), (false, true, "file"), (true, false, "file"), (true, true, "copy")]
        {
            write(file.path(), "file", file_is_old);
            write(&copy, "copy", !file_is_old);
            file.make_level(newer_counts).unwrap();
            let both = [file.path(), &copy].map(|path| fs::read_to_string(path).unwrap());
            assert_eq!(both, [expected; 2], "{newer_counts} {file_is_old}");
        }
        fs::remove_file(file.path()).unwrap();
        file.make_level(false).unwrap();
        assert!(!file.exists(), "only the file counts");
        file.make_level(true).unwrap();
        assert_eq!(file.read().unwrap(), "copy");
    }
}
