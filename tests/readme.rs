//! README.md, held against the code and the guide. Its quick start is run by
//! tests/clients/test_readme.py.

use std::fs;
use std::path::Path;

use siltstone::auth::Users;

use crate::floors::rust_files;
use crate::guide::{block, read, rows};

/// The most lines of the first page.
const LINES_MAX: usize = 200;

#[test]
fn the_first_page_stays_short() {
    let lines = read("README.md").lines().count();
    assert!(lines < LINES_MAX, "{lines} lines: move some to src/guide");
}

#[test]
fn the_compiler_is_that_of_the_manifest() {
    let needed = format!("It needs Rust {} or newer", env!("CARGO_PKG_RUST_VERSION"));
    assert!(read("README.md").contains(&needed), "{needed}");
}

#[test]
fn the_checks_run_the_test_command_of_the_readme() {
    let readme = read("README.md");
    let command =
        readme.lines().find_map(|line| line.strip_prefix("| test it | `")?.strip_suffix("` |")).unwrap();
    let checks = read(".ci/run");
    assert!(
        checks.lines().any(|line| line == format!("section {command}")),
        "{command} is missing in .ci/run"
    );
}

#[test]
fn the_user_of_the_example_is_accepted() {
    Users::parse(block(&read("README.md"), "toml")).unwrap();
}

#[test]
fn the_figures_are_those_of_the_guide() {
    let measured = rows("src/guide/performance.md", "# Performance");
    for row in rows("README.md", "## Performance") {
        assert!(measured.contains(&row), "{row:?} is not in the guide");
    }
}

#[test]
fn the_settings_are_options_with_the_defaults_of_the_guide() {
    let options = rows("src/guide/configuration.md", "# Configuration");
    for row in rows("README.md", "## Configuration") {
        for flag in row[0].split(", ") {
            let option = options.iter().find(|option| option[0] == flag);
            let default = &option.unwrap_or_else(|| panic!("{flag} is not in the guide"))[2];
            let told = row[1].replace(" memory, 64 MiB", ", 64MiB").replace("1 GiB", "1GiB");
            assert_eq!(default.trim_matches('`'), told.trim_matches('`'), "{flag}");
        }
    }
}

#[test]
fn every_link_leads_to_a_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in ["README.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md"] {
        let text = read(file);
        let links = text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
        for link in links.filter(|link| !link.starts_with('#')) {
            let target = root.join(file).parent().unwrap().join(link.split('#').next().unwrap());
            assert!(target.exists(), "{file}: {link}");
        }
    }
}

#[test]
fn the_example_of_another_operation_names_every_table() {
    let example = read(".github/CONTRIBUTING.md");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    rust_files(&root.join("src"), &mut files);
    let mut tables = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        // The operation beside whose rows those of the example stand.
        if text.contains("O::GetBucketQuota") || text.contains(" GetBucketQuota = ") {
            tables += 1;
            let path = file.strip_prefix(root).unwrap().display();
            assert!(example.contains(&format!("--- a/{path}\n")), "{path}");
        }
    }
    // The fourth is on the page of the guide.
    assert_eq!(tables, 3);
}
