//! Files that hold secrets.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use log::warn;

/// The folder in which runtimes of containers put secrets, readable by all of the one container
/// that has it.
pub(crate) const SECRETS_DIR: &str = "/run/secrets";

/// Warns if all accounts of the host may read a file that holds a secret.
pub(crate) fn warn_of_world(path: &Path) {
    if let Some(mode) = open_mode(path).filter(|_| !path.starts_with(SECRETS_DIR)) {
        let shown = path.display();
        warn!(
            "{shown} holds a secret and may be read by all accounts of this host (mode {mode:o}): chmod o= {shown}"
        );
    }
}

/// The mode of a file that all accounts may read or write.
fn open_mode(path: &Path) -> Option<u32> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o006 != 0).then_some(mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_open_where_others_than_its_group_may_read_or_write_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        fs::write(&path, "s").unwrap();
        for (mode, is_open) in
            [(0o600, false), (0o640, false), (0o660, false), (0o604, true), (0o644, true), (0o602, true)]
        {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(open_mode(&path).is_some(), is_open, "{mode:o}");
        }
        assert_eq!(open_mode(&dir.path().join("absent")), None);
    }
}
