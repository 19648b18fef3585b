//! A request document: any bytes are a document or an error, every element of a document can be
//! read, and lifecycle rules that are accepted are read back from the document that is stored.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone::s3::XmlConfiguration as _;
use siltstone::s3::lifecycle::LifecycleConfiguration;
use siltstone::xml::{Document, Element};

fn walk(element: Element<'_>) -> usize {
    let _ = (element.name(), element.text(), element.child("Key"), element.child_text("ETag"));
    1 + element.children().map(walk).sum::<usize>()
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(document) = Document::parse(bytes) {
        assert!(walk(document.root()) <= bytes.len());
        if let Ok(rules) = LifecycleConfiguration::parse(document.root()) {
            assert_eq!(LifecycleConfiguration::from_document(&rules.to_document()), Some(rules));
        }
    }
});
