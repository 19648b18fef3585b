//! One name a type: a reader who meets a name in one module must not have to ask which of several
//! types it is. And a sentence for each type, and for each function that may fail.

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

/// The public types, and the public functions that may fail, that no doc comment describes. Fields
/// and accessors are left to their names.
fn undescribed(source: &str) -> Vec<&str> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines: Vec<_> = code.lines().map(str::trim_start).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if needs_description(&lines[at..]) && !is_described(&lines[..at]) {
            found.push(*line);
        }
    }
    found
}

fn needs_description(lines: &[&str]) -> bool {
    let Some(item) = lines[0].strip_prefix("pub ") else { return false };
    if KEYWORDS.iter().any(|keyword| item.starts_with(keyword)) {
        return true;
    }
    if !item.starts_with("fn ") && !item.starts_with("const fn ") {
        return false;
    }
    let end = lines.iter().position(|line| line.ends_with(['{', ';'])).unwrap_or(0);
    lines[..=end].join(" ").split_once("->").is_some_and(|(_, returned)| returned.contains("Result<"))
}

/// Whether the lines before an item end with its doc comment and its attributes.
fn is_described(before: &[&str]) -> bool {
    let mut before = before;
    while before.last().is_some_and(|line| line.ends_with(']')) {
        // An attribute may take several lines.
        let begin = before.iter().rposition(|line| line.starts_with("#[")).unwrap_or(0);
        before = &before[..begin];
    }
    before.last().is_some_and(|line| line.starts_with("///") || line.starts_with("$(#[doc"))
}

#[test]
fn types_and_functions_that_may_fail_are_described() {
    let mut files = Vec::new();
    rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let mut missing = Vec::new();
    for file in files.iter().filter(|file| !is_test(file)) {
        let source = std::fs::read_to_string(file).unwrap();
        missing.extend(undescribed(&source).iter().map(|item| format!("{}: {item}", file.display())));
    }
    assert!(missing.is_empty(), "without a doc comment:\n{}", missing.join("\n"));
}

#[test]
fn items_without_a_description_are_found() {
    let source = "pub struct Bare;\n/// A type.\n#[derive(Debug)]\npub struct Told;\n\
        impl Told {\n    pub fn len(&self) -> usize {\n    pub fn read(\n        &self,\n    ) -> Result<u8, E> {\n\
        /// Writes.\n    pub fn write(&self) -> Result<(), E> {\n#[cfg(test)]\nmod tests {\npub struct Hidden;";
    assert_eq!(undescribed(source), ["pub struct Bare;", "pub fn read("]);
}
