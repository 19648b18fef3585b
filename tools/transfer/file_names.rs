//! The places of keys in a directory.
//!
//! A key is a path below the directory where it can be one. Every other key has a file in the side
//! directory, named by a digest.

use ring::digest::{SHA256, digest};
use siltstone::base::digest::to_hex;

/// The directory with all that is no plain file: the manifest, noncurrent versions, and keys that
/// are no paths.
pub(super) const SIDE_DIRECTORY: &str = ".siltstone-export";
/// The longest name of a file, in bytes (Linux, `NAME_MAX`).
const NAME_MAX_BYTES: usize = 255;

/// The places of keys that come in the order of their bytes.
#[derive(Default)]
pub(super) struct Places {
    /// The last keys with a file of their own name, each of which the next begins with.
    files: Vec<String>,
}

impl Places {
    /// The path of the next key; an error says why it cannot be its own name.
    ///
    /// Where one key is a directory of another, the shorter one comes first, and has its name.
    pub(super) fn next(&mut self, key: &str) -> Result<String, &'static str> {
        while self.files.last().is_some_and(|file| !key.starts_with(&**file)) {
            self.files.pop();
        }
        is_path(key)?;
        if self.files.iter().any(|file| key.as_bytes().get(file.len()) == Some(&b'/')) {
            return Err("another key is a directory of its path");
        }
        self.files.push(key.to_owned());
        Ok(key.to_owned())
    }
}

/// The file of a key that is no path, or of a noncurrent version.
pub(super) fn side_file(key: &str, version: Option<&str>) -> String {
    let name = format!("{key}\0{}", version.unwrap_or_default());
    let name = to_hex(digest(&SHA256, name.as_bytes()).as_ref());
    let kind = if version.is_some() { "versions" } else { "keys" };
    format!("{SIDE_DIRECTORY}/{kind}/{}/{}", &name[..2], &name[2..])
}

fn is_path(key: &str) -> Result<(), &'static str> {
    if key.contains('\0') {
        return Err("its name has a NUL");
    }
    for (at, segment) in key.split('/').enumerate() {
        match segment {
            "" => return Err("its name has an empty segment"),
            "." | ".." => return Err("its name has a segment . or .."),
            SIDE_DIRECTORY if at == 0 => return Err("its name is that of the directory of the manifest"),
            _ if segment.len() > NAME_MAX_BYTES => return Err("its name has a segment over 255 bytes"),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a path of a manifest stays below the directory.
pub(super) fn is_below(path: &str) -> bool {
    !path.contains('\0') && path.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_that_are_no_paths_are_put_aside() {
        let long = "x".repeat(256);
        for key in
            ["", "/a", "a//b", "a/", "..", "../a", "a/../b", "./a", "a\0b", &long, ".siltstone-export/keys"]
        {
            assert!(Places::default().next(key).is_err(), "{key:?}");
        }
        for key in ["a", "a/b", "...", "a\nb", "-", "ä/%2F", "b/.siltstone-export"] {
            assert_eq!(Places::default().next(key), Ok(key.to_owned()));
        }
    }

    #[test]
    fn the_shorter_of_two_keys_that_exclude_each_other_has_its_name() {
        let mut places = Places::default();
        let kept: Vec<_> = ["a", "a-x", "a/b", "a/b/c", "a0", "b/", "b/c", "b/c/d", "b/cd"]
            .map(|key| places.next(key).is_ok())
            .into();
        assert_eq!(kept, [true, true, false, false, true, false, true, false, true]);
    }

    #[test]
    fn side_files_differ_and_are_no_places_of_keys() {
        let names = [
            side_file("a", None),
            side_file("b", None),
            side_file("a", Some("1")),
            side_file("a", Some("2")),
        ];
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 4);
        assert!(names.iter().all(|name| Places::default().next(name).is_err() && is_below(name)));
    }

    #[test]
    fn paths_that_lead_out_of_the_directory_are_told() {
        assert!(["/etc/passwd", "../a", "a/../../b", "", "a//b"].iter().all(|path| !is_below(path)));
        assert!(is_below("a/b"));
    }
}
