//! Names of the entries of an archive that are safe to extract.

use std::collections::{HashMap, HashSet};

/// Characters that names on Windows have not.
const WINDOWS_FORBIDDEN: &str = "<>:\"|?*";
/// Names of devices on Windows, with any extension.
const WINDOWS_DEVICES: [&str; 22] = [
    "con", "prn", "aux", "nul", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9",
    "lpt1", "lpt2", "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9",
];

/// The systems on which an archive is extracted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::console) enum NameRules {
    #[default]
    Posix,
    Windows,
}

/// The names of an archive. Each is relative, stays below the directory of extraction, and belongs
/// to one entry, also where case does not count.
#[derive(Default)]
pub(in crate::console) struct EntryNames {
    rules: NameRules,
    /// Names in lower case.
    files: HashSet<String>,
    directories: HashSet<String>,
    /// The number that the next entry of a name in lower case tries first.
    numbers: HashMap<String, u32>,
}

impl EntryNames {
    /// Names for these keys, in which no file takes the name of a directory.
    pub(in crate::console) fn of<'k>(rules: NameRules, keys: impl Iterator<Item = &'k str>) -> Self {
        let mut names = Self { rules, ..Self::default() };
        for key in keys {
            let name = safe(key, rules);
            let ends = name.match_indices('/').map(|(at, _)| at);
            names.directories.extend(ends.map(|end| name[..end].to_lowercase()));
        }
        names
    }

    /// The name of the entry for a key; `None` for the directory of extraction itself. A key that
    /// ends in a slash and has no content is a directory.
    pub(in crate::console) fn entry(&mut self, key: &str, is_empty: bool) -> Option<String> {
        let name = safe(key, self.rules);
        let plain = name.trim_end_matches('/');
        if key.ends_with('/') && is_empty {
            return (!plain.is_empty()).then(|| name.clone());
        }
        let plain = if plain.is_empty() { "_" } else { plain };
        let number = self.numbers.entry(plain.to_lowercase()).or_insert(1);
        loop {
            let name = if *number == 1 { plain.to_owned() } else { format!("{plain}~{number}") };
            *number += 1;
            let folded = name.to_lowercase();
            if !self.directories.contains(&folded) && self.files.insert(folded) {
                return Some(name);
            }
        }
    }
}

/// A key as a relative path: no step leads upwards, none is empty, and nothing in it means
/// something to a shell.
fn safe(key: &str, rules: NameRules) -> String {
    let mut steps = Vec::new();
    for step in key.split('/').filter(|step| !step.is_empty()) {
        let step = safe_step(step);
        steps.push(if rules == NameRules::Windows { windows_step(&step) } else { step });
    }
    let mut name = steps.join("/");
    if key.ends_with('/') && !name.is_empty() {
        name.push('/');
    }
    name
}

fn safe_step(step: &str) -> String {
    if step.bytes().all(|byte| byte == b'.') {
        return "_".repeat(step.len());
    }
    let is_drive = step.as_bytes().get(1) == Some(&b':') && step.as_bytes()[0].is_ascii_alphabetic();
    let mut safe = String::with_capacity(step.len());
    for (at, c) in step.char_indices() {
        let is_harmful = c == '\\' || c.is_control() || (c == ':' && is_drive && at == 1);
        safe.push(if is_harmful { '_' } else { c });
    }
    safe
}

/// A step that Windows takes for a file ("Naming Files, Paths, and Namespaces"): without characters
/// that it forbids, without a dot or a blank at its end, and no device.
fn windows_step(step: &str) -> String {
    let mut name: String =
        step.chars().map(|c| if WINDOWS_FORBIDDEN.contains(c) { '_' } else { c }).collect();
    if name.ends_with(['.', ' ']) {
        name.pop();
        name.push('_');
    }
    let stem = name.split('.').next().unwrap_or_default().trim_end();
    if WINDOWS_DEVICES.iter().any(|device| stem.eq_ignore_ascii_case(device)) {
        name.insert(0, '_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_nothing_outside() {
        for (key, name) in [
            ("a/b.txt", "a/b.txt"),
            ("/etc/passwd", "etc/passwd"),
            ("../../etc/passwd", "__/__/etc/passwd"),
            ("a/../../b", "a/__/__/b"),
            ("a//b/./c", "a/b/_/c"),
            ("..\\..\\x", ".._.._x"),
            ("C:\\x", "C__x"),
            ("C:/x", "C_/x"),
            ("12:30", "12:30"),
            ("line\nfeed\u{0}", "line_feed_"),
            ("...", "___"),
            ("ü/日", "ü/日"),
        ] {
            assert_eq!(EntryNames::default().entry(key, false).as_deref(), Some(name), "{key:?}");
        }
        assert_eq!(EntryNames::default().entry("/", true), None);
        assert_eq!(EntryNames::default().entry("dir/", true).as_deref(), Some("dir/"));
        assert_eq!(EntryNames::default().entry("dir/", false).as_deref(), Some("dir"));
        assert_eq!(EntryNames::default().entry("//", false).as_deref(), Some("_"));
    }

    #[test]
    fn no_entry_overwrites_another() {
        let keys = ["a", "a/../b", "a/__/b", "a/b", "a//b", "a/b~2", "c", "/c"];
        let mut names = EntryNames::of(NameRules::Posix, keys.into_iter());
        let entries: Vec<_> = keys.iter().map(|key| names.entry(key, false).unwrap()).collect();
        assert_eq!(entries, ["a~2", "a/__/b", "a/__/b~2", "a/b", "a/b~2", "a/b~2~2", "c", "c~2"]);
    }

    #[test]
    fn windows_takes_every_name() {
        let rules = NameRules::Windows;
        for (key, name) in [
            ("a: b?.txt", "a_ b_.txt"),
            ("<script>/\"x\"|y*", "_script_/_x__y_"),
            ("dir./file ", "dir_/file_"),
            ("aux/con.txt", "_aux/_con.txt"),
            ("lpt1 .log", "_lpt1 .log"),
            ("console", "console"),
            ("ü/日", "ü/日"),
        ] {
            assert_eq!(
                EntryNames { rules, ..EntryNames::default() }.entry(key, false).as_deref(),
                Some(name),
                "{key:?}"
            );
        }
        let keys = ["a?", "a*"];
        let mut names = EntryNames::of(rules, keys.into_iter());
        assert_eq!(keys.map(|key| names.entry(key, false).unwrap()), ["a_", "a_~2"]);
    }
}
