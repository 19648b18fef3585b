//! The links between pages: by names whose definitions work on a code host and, by `links.txt`, in
//! the documentation.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The names of all pages.
fn pages() -> BTreeSet<String> {
    let mut pages = BTreeSet::new();
    for entry in fs::read_dir(root().join("src/guide")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(page) = name.strip_suffix(".md") {
            pages.insert(page.to_owned());
        }
    }
    pages
}

fn text(page: &str) -> String {
    fs::read_to_string(root().join(format!("src/guide/{page}.md"))).unwrap()
}

/// The page without its code: fenced blocks and words in backticks.
fn prose(text: &str) -> String {
    let unfenced: String = text.split("```").step_by(2).collect();
    unfenced.split('`').step_by(2).collect()
}

/// The names in brackets that are pages.
fn references(text: &str) -> BTreeSet<String> {
    let known = pages();
    let mut found = BTreeSet::new();
    for piece in prose(text).split('[').skip(1) {
        let Some((name, rest)) = piece.split_once(']') else { continue };
        if known.contains(name) && !rest.starts_with([':', '(']) {
            found.insert(name.to_owned());
        }
    }
    found
}

#[test]
fn every_reference_to_a_page_is_defined_as_its_file() {
    for page in pages() {
        let text = text(&page);
        for name in references(&text) {
            assert!(text.contains(&format!("\n[{name}]: {name}.md\n")), "{page} refers to {name}");
        }
        assert!(!text.contains("page `"), "{page} names a page without a link");
    }
}

#[test]
fn every_definition_is_of_a_page() {
    for page in pages() {
        for line in text(&page).lines() {
            let Some((name, file)) = line.strip_prefix('[').and_then(|line| line.split_once("]: ")) else {
                continue;
            };
            assert_eq!(file, format!("{name}.md"), "{page}");
            assert!(pages().contains(name), "{page} defines {name}");
        }
    }
    let modules = fs::read_to_string(root().join("src/guide/links.txt")).unwrap();
    let expected: String = pages().iter().map(|page| format!("[{page}]: crate::guide::{page}\n")).collect();
    assert_eq!(modules, expected);
}

#[test]
fn the_index_leads_to_every_page() {
    let mut named = references(&text("index"));
    named.insert("index".to_owned());
    assert_eq!(named, pages());
}

#[test]
fn files_and_headings_that_the_first_page_links_exist() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    for piece in readme.split("](").skip(1) {
        let target = piece.split(')').next().unwrap();
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let linked = fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{target}: {e}"));
        let mut anchors = linked.lines().filter(|line| line.starts_with('#')).map(anchor);
        assert!(heading.is_empty() || anchors.any(|it| it == heading), "{target}");
    }
}

/// The anchor of a heading, as code hosts make it.
fn anchor(heading: &str) -> String {
    let mut anchor = String::new();
    for c in heading.trim_start_matches('#').trim().chars() {
        match c {
            ' ' | '-' => anchor.push('-'),
            c if c.is_alphanumeric() || c == '_' => anchor.extend(c.to_lowercase()),
            _ => {}
        }
    }
    anchor
}

#[test]
fn every_alert_leads_to_a_heading_of_the_guide() {
    let alerts = fs::read_to_string(root().join("tools/package/alerts.yaml")).unwrap();
    let rules = alerts.lines().filter(|line| line.trim_start().starts_with("- alert: ")).count();
    let mut links = 0;
    for line in alerts.lines() {
        let Some(url) = line.trim_start().strip_prefix("runbook_url: ") else { continue };
        let target = url.strip_prefix("https://siltstone.invalid/").unwrap_or_else(|| panic!("{url}"));
        let (file, heading) = target.split_once('#').unwrap_or_else(|| panic!("{url}"));
        let page = fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{url}: {e}"));
        let mut anchors = page.lines().filter(|line| line.starts_with('#')).map(anchor);
        assert!(anchors.any(|it| it == heading), "{url}");
        links += 1;
    }
    assert!(rules > 0 && links == rules, "{rules} rules, {links} links");
}
