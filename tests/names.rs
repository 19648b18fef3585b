//! One name a type: a reader who meets a name in one module must not have to ask which of several
//! types it is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::floors::rust_files;

/// The most names that may stand for types in several files.
const SHARED_MAX: usize = 15;

const KEYWORDS: [&str; 4] = ["struct ", "enum ", "trait ", "type "];

/// The types that a file declares outside its tests. Associated types are indented, and are not
/// counted.
fn declared(source: &str) -> BTreeSet<&str> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    code.lines().filter_map(type_name).collect()
}

fn type_name(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let rest = KEYWORDS.iter().find_map(|keyword| line.strip_prefix(keyword))?;
    rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests")
}

#[test]
fn few_names_stand_for_several_types() {
    let mut files = Vec::new();
    rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| !is_test(file)) {
        let source = std::fs::read_to_string(file).unwrap();
        for name in declared(&source) {
            places.entry(name.to_owned()).or_default().push(file.display().to_string());
        }
    }
    assert!(places.len() > 300, "{} types", places.len());
    places.retain(|_, files| files.len() > 1);
    assert!(places.len() < SHARED_MAX, "{} names stand for several types:\n{places:#?}", places.len());
}

#[test]
fn declarations_are_found() {
    let source = "pub(super) struct Wide<T>(T);\nenum Small {\n    type Inner = u8;\n}\npub trait Seen: Send {}\n\
        #[cfg(test)]\nmod tests {\nstruct Hidden;\n}";
    assert_eq!(declared(source), BTreeSet::from(["Seen", "Small", "Wide"]));
}
