//! Grants of the users file in words, for the people who have them.

use super::text::visible;
use crate::service::GrantEntry;

/// The actions that most grants have, and what they allow. Others keep their names.
const ACTIONS: [(&str, &str); 12] = [
    ("*", "everything"),
    ("ListAllMyBuckets", "see the buckets"),
    ("CreateBucket", "make buckets"),
    ("DeleteBucket", "delete buckets"),
    ("ListBucket", "list objects"),
    ("ListBucketVersions", "list versions"),
    ("GetObject", "read objects"),
    ("GetObjectVersion", "read versions"),
    ("PutObject", "write objects"),
    ("CreateObject", "add objects"),
    ("DeleteObject", "delete objects"),
    ("DeleteObjectVersion", "delete versions"),
];

/// What a grant allows: `read objects, list objects: the bucket photos, all objects of photos`.
pub(super) fn in_words(grant: &GrantEntry) -> String {
    if grant.is_everything() {
        return "everything, as an administrator".to_owned();
    }
    let actions: Vec<_> = grant.actions.iter().map(|action| action_in_words(action)).collect();
    let resources: Vec<_> = grant.resources.iter().map(|resource| resource_in_words(resource)).collect();
    format!("{}: {}", actions.join(", "), resources.join(", "))
}

/// An action of grants and policies in words; those that few have keep their names.
pub(super) fn action_in_words(action: &str) -> String {
    let known = ACTIONS.iter().find(|(name, _)| *name == action);
    known.map_or_else(|| visible(action).into_owned(), |(_, words)| (*words).to_owned())
}

/// A bucket or objects, as grants and policies name them, in words.
pub(super) fn resource_in_words(resource: &str) -> String {
    match resource {
        "*" => return "everywhere".to_owned(),
        "@owned" => return "buckets of your own".to_owned(),
        _ => {}
    }
    let shown = visible(resource);
    let Some((bucket, key)) = shown.split_once('/') else {
        return match shown.strip_suffix('*') {
            Some(start) => format!("buckets that begin with {start}"),
            None => format!("the bucket {shown}"),
        };
    };
    let of = match bucket.strip_suffix('*') {
        Some("") => "all buckets".to_owned(),
        Some(start) => format!("buckets that begin with {start}"),
        None => bucket.to_owned(),
    };
    match key.strip_suffix('*') {
        Some("") => format!("all objects of {of}"),
        Some(start) => format!("objects of {of} that begin with {start}"),
        None => format!("the object {key} of {of}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_told_as_what_they_allow() {
        for (actions, resources, words) in [
            (&["*"][..], &["b", "*"][..], "everything, as an administrator"),
            (&["*"], &["@owned"], "everything: buckets of your own"),
            (&["ListAllMyBuckets"], &["*"], "see the buckets: everywhere"),
            (
                &["GetObject", "GetBucketLocation"],
                &["photos", "photos/*", "photos/2026/*", "photos/a.txt"],
                "read objects, GetBucketLocation: the bucket photos, all objects of photos, objects of photos that begin with 2026/, \
                 the object a.txt of photos",
            ),
            (
                &["PutObject"],
                &["alt-*", "alt-*/in/*", "*/k", "b/\u{202e}"],
                "write objects: buckets that begin with alt-, objects of buckets that begin with alt- that begin with in/, \
                 the object k of all buckets, the object ⟨U+202E⟩ of b",
            ),
        ] {
            let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
            let grant = GrantEntry { actions: texts(actions), resources: texts(resources) };
            assert_eq!(in_words(&grant), words);
        }
    }
}
