//! The table of who may name whom (the documentation of `src/lib.rs`), held against the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module and the modules it may name. `ops` may name `auth` for its proof type alone; see below.
const MAY_NAME: &[(&str, &[&str])] = &[
    ("guide", &[]),
    ("base", &[]),
    ("crypto", &["base"]),
    ("format", &["base", "crypto"]),
    ("fs", &["base"]),
    ("keys", &["base", "crypto"]),
    ("vault", &["base", "format", "fs"]),
    ("xml", &["base"]),
    ("client", &["base", "xml"]),
    ("transfer", &["base", "xml", "client"]),
    ("log", &["base", "format", "fs"]),
    ("disks", &["base", "format", "fs", "log", "vault"]),
    ("index", &["base", "format"]),
    ("remote", &["base", "format", "client"]),
    ("s3", &["base", "crypto", "xml"]),
    ("store", &["base", "crypto", "format", "fs", "log", "index", "remote"]),
    ("offline", &["base", "format", "fs", "keys", "log", "index", "remote", "store"]),
    // The simulated disk is for its tests alone.
    ("mirror", &["base", "fs", "client", "s3", "transfer", "store"]),
    ("webhook", &["base", "client", "s3", "store"]),
    ("auth", &["base", "s3"]),
    ("oidc", &["base", "client"]),
    ("ops", &["base", "keys", "xml", "s3", "auth", "store"]),
    ("service", &["base", "s3", "auth", "oidc", "ops", "mirror", "webhook"]),
    ("console", &["base", "xml", "client", "s3", "auth", "oidc", "service"]),
    ("http", &["base", "s3", "service"]),
];

/// What the unit tests of a module may name beside that: those of the store verify what they wrote.
const TESTS_MAY_NAME: &[(&str, &[&str])] = &[("store", &["disks", "keys", "offline", "vault"])];

/// What `ops` may name of `auth`: the proof, who it is about, and what else it may be asked.
const PROOF_TYPES: &[&str] = &["Authorized", "Identity", "Action"];

/// What the files of `ops` may name beside that answer the questions of the evaluator.
const FACT_FILES: &[&str] = &["ops/access.rs", "ops/bucket_policy.rs", "ops/configurations.rs"];
const FACT_TYPES: &[&str] = &[
    "AccessFacts",
    "AclPlace",
    "BucketPolicy",
    "ConditionMemo",
    "ExistingTags",
    "PolicyContext",
    "Resource",
    "StatedEncryption",
    "StatedHeader",
];

pub(crate) fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// The code of a file, without its comments.
fn code_of(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// The modules that `code` names by `crate::`, also in braces: `crate::{base, format::x}`.
fn named_modules(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let parts = match rest.strip_prefix('{') {
            Some(group) => group.split('}').next().unwrap_or("").split(',').collect(),
            None => vec![rest],
        };
        for part in parts {
            let name: String =
                part.trim_start().chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            names.insert(name);
        }
    }
    names.remove("");
    names
}

fn sources_of(module: &str) -> Vec<PathBuf> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&src.join(module), &mut files);
    files
}

#[test]
fn every_module_names_only_what_stands_below_it() {
    let mut broken = Vec::new();
    for (module, allowed) in MAY_NAME {
        let files = sources_of(module);
        assert!(!files.is_empty() || *module == "guide", "{module} has no sources");
        for file in files {
            for name in named_modules(&code_of(&file)) {
                let is_test = file.components().any(|part| part.as_os_str() == "tests");
                let of_tests = TESTS_MAY_NAME.iter().filter(|(of, _)| is_test && of == module);
                let mut allowed = allowed.iter().chain(of_tests.flat_map(|(_, more)| *more));
                if name != *module && !allowed.any(|allowed| *allowed == name) {
                    broken.push(format!("{} names {name}", file.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "arrows that point up:\n{}", broken.join("\n"));
}

#[test]
fn operations_see_nothing_of_authentication_but_the_proof() {
    for file in sources_of("ops") {
        for rest in code_of(&file).split("auth::").skip(1) {
            let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let named = match rest.strip_prefix('{') {
                Some(group) => group.split('}').next().unwrap_or(""),
                None => rest.split(|c| !is_of_word(c)).next().unwrap_or(""),
            };
            for word in named.split(|c| !is_of_word(c)).filter(|word| !word.is_empty()) {
                let answers =
                    FACT_TYPES.contains(&word) && FACT_FILES.iter().any(|name| file.ends_with(name));
                assert!(PROOF_TYPES.contains(&word) || answers, "{} names auth::{word}", file.display());
            }
        }
    }
}

#[test]
fn the_table_lists_every_module_and_each_stands_above_what_it_names() {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let declared: BTreeSet<_> =
        lib.lines().filter_map(|l| l.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    let listed: BTreeSet<_> = MAY_NAME.iter().map(|(module, _)| *module).collect();
    assert_eq!(declared, listed);
    for (at, (module, allowed)) in MAY_NAME.iter().enumerate() {
        let below: BTreeSet<_> = MAY_NAME[..at].iter().map(|(m, _)| *m).collect();
        assert!(allowed.iter().all(|name| below.contains(name)), "{module} is part of a cycle");
    }
}

#[test]
fn only_the_door_to_the_disk_opens_files_below_the_command_line() {
    for module in ["base", "format", "log", "index", "store", "offline", "s3", "xml", "ops", "service"] {
        for file in sources_of(module) {
            let code = code_of(&file);
            // Unit tests may make the files that they need.
            let code = code.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            assert!(!code.contains("std::fs"), "{} opens files by itself", file.display());
        }
    }
}

#[test]
fn a_path_that_points_up_is_seen() {
    assert_eq!(
        named_modules("use crate::{http, base::limits}; fn f() { crate::service::x() }"),
        BTreeSet::from(["http".to_owned(), "base".to_owned(), "service".to_owned()])
    );
}

#[test]
fn the_architecture_names_files_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let documentation = fs::read_to_string(root.join("src/lib.rs")).unwrap();
    let named: Vec<_> = documentation
        .split('`')
        .filter(|code| code.ends_with(".rs") && code.contains('/') && !code.contains(' '))
        .collect();
    assert!(named.len() > 20, "{named:?}");
    let missing: Vec<_> = named
        .iter()
        .filter(|file| !root.join("src").join(file).exists() && !root.join(file).exists())
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The files of the store and its tools that may name the remote as one that can be changed: who
/// claims epochs, hands the remote on, or is asked by an operator to delete orphans. All others see a view of it, or change it by the epoch that is held.
const NAME_A_REMOTE: &[&str] = &[
    "offline/remote_audit.rs",
    "store/remote_log/object.rs",
    "store/remote_log/right.rs",
    "store/ship/epoch.rs",
    "store/ship/standby/mod.rs",
    "store/tier/epoch.rs",
    "store/tier/mod.rs",
];

#[test]
fn the_remote_is_changed_by_an_epoch_alone() {
    let mut found = BTreeSet::new();
    for file in sources_of("store").into_iter().chain(sources_of("offline")) {
        let path = file.to_string_lossy().replace('\\', "/");
        let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let code = code_of(&file);
        let names_it = code.split("dyn Remote").skip(1).any(|rest| !rest.starts_with(is_of_word));
        if names_it && !path.contains("/tests/") {
            found.insert(path.split("src/").last().unwrap_or_default().to_owned());
        }
    }
    let allowed: BTreeSet<_> = NAME_A_REMOTE.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(found, allowed, "change the remote by an EpochWriter");
}

/// The modules that a `mod.rs` declares.
fn declared_modules(file: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
    let declared = code_of(&path);
    let names = declared.lines().filter_map(|line| line.split("mod ").nth(1)?.strip_suffix(';'));
    names.map(str::to_owned).collect()
}

#[test]
fn only_the_tools_look_into_the_rooms_of_the_store() {
    let rooms = declared_modules("store/mod.rs");
    assert!(rooms.contains("commit") && rooms.contains("ship"), "{rooms:?}");
    let mut broken = Vec::new();
    for (module, _) in MAY_NAME.iter().filter(|(module, _)| !["store", "offline"].contains(module)) {
        for file in sources_of(module) {
            let code = code_of(&file);
            for room in &rooms {
                if code.contains(&format!("store::{room}::")) {
                    broken.push(format!("{} names store::{room}", file.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "name what `store/mod.rs` hands out:\n{}", broken.join("\n"));
}

/// Circles of files that are known. The table may only shrink: remove the row of a circle that you
/// have broken.
const KNOWN_CIRCLES: &[&[&str]] = &[];

/// A path of modules.
type ModulePath = Vec<String>;

/// The parts of a group, which may hold groups: `a::b, c::{d, e}`.
fn parts_of(group: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut depth = 0;
    let mut from = 0;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&group[from..]);
    parts
}

/// Adds the paths that stand for `path`, whose groups are in braces, to `found`.
fn expand(before: &[String], path: &str, found: &mut Vec<ModulePath>) {
    let (names, group) = match path.split_once('{') {
        Some((names, rest)) => (names, rest.rsplit_once('}').map(|(group, _)| group)),
        None => (path, None),
    };
    let names = names.split(" as ").next().unwrap_or_default();
    let names = names.split("::").map(str::trim).filter(|name| !name.is_empty());
    let whole: ModulePath = before.iter().cloned().chain(names.map(str::to_owned)).collect();
    match group {
        Some(group) => parts_of(group).iter().for_each(|part| expand(&whole, part, found)),
        None if !whole.is_empty() => found.push(whole),
        None => {}
    }
}

/// The paths in `code` that begin with `crate`, `super` or `self`.
fn paths_of(code: &str) -> Vec<ModulePath> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = ["crate::", "super::", "self::"].iter().filter_map(|name| rest.find(name)).min() {
        let is_new = !rest[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':');
        rest = &rest[at..];
        let mut depth = 0;
        let end = rest.find(|c: char| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            let is_of_path = c.is_ascii_alphanumeric() || "_:{}".contains(c);
            depth < 0 || (depth == 0 && c != '}' && !is_of_path)
        });
        let path = &rest[..end.unwrap_or(rest.len())];
        if is_new {
            expand(&[], path, &mut found);
        }
        rest = &rest[path.len().max(1)..];
    }
    found
}

/// The modules of the files below src, each with its code. Tests are left out.
fn modules() -> BTreeMap<ModulePath, String> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    let mut modules = BTreeMap::new();
    for file in files {
        let name = file.strip_prefix(&src).unwrap().with_extension("");
        let name: Vec<_> =
            name.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        if name.iter().any(|part| part == "tests" || part.ends_with("_tests")) {
            continue;
        }
        let name = name.into_iter().filter(|part| !["mod", "lib", "main"].contains(&part.as_str())).collect();
        let code = code_of(&file);
        let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        modules.insert(name, code.to_owned());
    }
    modules
}

/// The files that `module` names, but for its own folder and those that it lies in.
fn named_files(
    module: &[String],
    code: &str,
    modules: &BTreeMap<ModulePath, String>,
) -> BTreeSet<ModulePath> {
    let mut named = BTreeSet::new();
    for path in paths_of(code) {
        let mut from = if path[0] == "crate" { Vec::new() } else { module.to_vec() };
        let mut rest = path.as_slice();
        while let [first, after @ ..] = rest
            && ["crate", "super", "self"].contains(&first.as_str())
        {
            if first == "super" {
                from.pop();
            }
            rest = after;
        }
        from.extend_from_slice(rest);
        while !modules.contains_key(&from) && !from.is_empty() {
            from.pop();
        }
        if !from.starts_with(module) && !module.starts_with(&from) {
            named.insert(from);
        }
    }
    named
}

/// The files that can be reached from `module`.
fn reached(module: &ModulePath, graph: &BTreeMap<ModulePath, BTreeSet<ModulePath>>) -> BTreeSet<ModulePath> {
    let mut reached = BTreeSet::new();
    let mut next = vec![module];
    while let Some(module) = next.pop() {
        for named in &graph[module] {
            if reached.insert(named.clone()) {
                next.push(named);
            }
        }
    }
    reached
}

#[test]
fn no_files_name_one_another_in_a_circle() {
    let modules = modules();
    let graph: BTreeMap<_, _> =
        modules.iter().map(|(module, code)| (module.clone(), named_files(module, code, &modules))).collect();
    let reach: BTreeMap<_, _> = graph.keys().map(|module| (module, reached(module, &graph))).collect();
    let mut circles = BTreeSet::new();
    for (module, reached) in &reach {
        let circle: Vec<_> = reached.iter().filter(|other| reach[other].contains(*module)).collect();
        if !circle.is_empty() {
            circles.insert(circle.into_iter().map(|module| module.join("::")).collect::<Vec<_>>());
        }
    }
    let known: BTreeSet<Vec<_>> =
        KNOWN_CIRCLES.iter().map(|circle| circle.iter().map(|name| (*name).to_owned()).collect()).collect();
    let new: Vec<_> = circles.difference(&known).collect();
    let broken: Vec<_> = known.difference(&circles).collect();
    assert!(new.is_empty(), "files that name one another: {new:#?}");
    assert!(broken.is_empty(), "no circles any more, remove them from KNOWN_CIRCLES: {broken:#?}");
}

#[test]
fn paths_in_groups_are_seen() {
    let paths =
        paths_of("use super::a::{b, c::{self, D}};\nuse crate::{x, y as z};\nlet it = crate::e::f(1);");
    let joined: Vec<_> = paths.iter().map(|path| path.join("::")).collect();
    assert_eq!(
        joined,
        ["super::a::b", "super::a::c::self", "super::a::c::D", "crate::x", "crate::y", "crate::e::f"]
    );
}

/// The rooms of the store: each names only itself, those before it, and what `store/mod.rs` hands
/// out.
const STORE_ROOMS: &[&str] = &[
    "error",
    "options",
    "progress",
    "shared",
    "remote_log",
    "open",
    "commit",
    "objects",
    "expiry",
    "follow",
    "history",
    "fast_disk",
    "log_shadow",
    "reclaim",
    "sweep",
    "tier",
    "scrub",
    "ship",
];

#[test]
fn a_room_of_the_store_names_only_rooms_before_it() {
    let mut declared = declared_modules("store/mod.rs");
    declared.remove("tests");
    assert_eq!(declared, STORE_ROOMS.iter().map(|room| (*room).to_owned()).collect());
    let mut broken = Vec::new();
    for (module, code) in modules() {
        let [store, room, ..] = module.as_slice() else { continue };
        let Some(at) = STORE_ROOMS.iter().position(|known| known == room).filter(|_| store == "store") else {
            continue;
        };
        for path in paths_of(&code) {
            let named = path.get(2).filter(|_| path.starts_with(&["crate".to_owned(), "store".to_owned()]));
            if named.is_some_and(|named| STORE_ROOMS[at + 1..].contains(&named.as_str())) {
                broken.push(format!("{} names {}", module.join("::"), path.join("::")));
            }
        }
    }
    assert!(broken.is_empty(), "arrows that run back up:\n{}", broken.join("\n"));
}
