//! The listing of a bucket: each key with its versions.

use std::cmp::Reverse;

use crate::base::Timestamp;
use crate::xml::{Document, Element};

use super::peer::{PeerCall, PeerLink, decoded};

/// A version of an object, or a delete marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerVersion {
    /// The version; `None` where only the current one is listed.
    pub id: Option<String>,
    /// Whether it is a delete marker.
    pub delete_marker: bool,
    /// Bytes.
    pub length: u64,
    /// The entity tag, without quotes.
    pub etag: String,
    /// The modification time.
    pub modified: Option<Timestamp>,
}

/// A key with its versions, the oldest first.
pub struct PeerKey {
    /// The key.
    pub key: String,
    /// Its versions.
    pub versions: Vec<PeerVersion>,
}

impl PeerKey {
    /// The bytes of all versions.
    pub fn bytes(&self) -> u64 {
        self.versions.iter().map(|version| version.length).sum()
    }
}

/// The place where the next page begins.
#[derive(Default)]
struct PageStart {
    token: Option<String>,
    version: Option<String>,
}

/// Visits the keys that begin with `prefix`, in order, until the visitor returns `false`.
///
/// # Errors
/// A message, if a page cannot be had or read.
pub fn visit_keys(
    link: &mut PeerLink<'_>,
    prefix: &str,
    all_versions: bool,
    visit: &mut dyn FnMut(PeerKey) -> bool,
) -> Result<(), String> {
    let mut place = PageStart::default();
    let mut open: Option<PeerKey> = None;
    loop {
        let page = page(link, prefix, all_versions, &place)?;
        let document = Document::parse(&page).map_err(|error| error.to_string())?;
        // Servers that do not encode names ignore the parameter.
        let encoded = text(document.root(), "EncodingType")? == "url";
        for entry in ordered(document.root(), encoded)? {
            let (key, version) = listed(entry, encoded)?;
            match &mut open {
                Some(last) if last.key == key => last.versions.push(version),
                _ => {
                    let next = PeerKey { key, versions: vec![version] };
                    if open.replace(next).is_some_and(|done| !visit(oldest_first(done))) {
                        return Ok(());
                    }
                }
            }
        }
        match next_place(document.root(), all_versions, encoded)? {
            Some(next) => place = next,
            None => break,
        }
    }
    open.map(|done| visit(oldest_first(done)));
    Ok(())
}

/// The names of the buckets of a server.
///
/// # Errors
/// A message, if the answer cannot be had or read.
pub fn bucket_names(link: &mut PeerLink<'_>) -> Result<Vec<String>, String> {
    link.enter("");
    let answer = link.ask(PeerCall { method: "GET", ..PeerCall::default() });
    let (_, body) = answer.map_err(super::peer::PeerError::text)?;
    let document = Document::parse(&body).map_err(|error| error.to_string())?;
    let lists = document.root().children().filter(|child| child.name() == "Buckets");
    let buckets: Vec<_> = lists.flat_map(|list| list.children().collect::<Vec<_>>()).collect();
    buckets.into_iter().map(|bucket| text(bucket, "Name")).collect()
}

/// The entries of a page by key, and the newest first in each. Some servers list all delete markers after all versions; only their pages are
/// sorted by time, since others tell the order better than times do.
fn ordered(root: Element<'_>, encoded: bool) -> Result<Vec<Element<'_>>, String> {
    let is_entry = |entry: &Element<'_>| matches!(entry.name(), "Contents" | "Version" | "DeleteMarker");
    let entries: Vec<_> = root.children().filter(is_entry).collect();
    let first = entries.iter().position(|entry| entry.name() == "DeleteMarker").unwrap_or(entries.len());
    if entries[first..].iter().any(|entry| entry.name() != "DeleteMarker") || first == entries.len() {
        return Ok(entries);
    }
    let mut keyed = Vec::new();
    for entry in entries {
        // The time of arrival tells the order, where the server shows it beside a stated one.
        let arrived = Some(text(entry, "Stored")?).filter(|time| !time.is_empty());
        let arrived = arrived.map_or_else(|| text(entry, "LastModified"), Ok)?;
        let newest_first = (Reverse(text(entry, "IsLatest")?), Reverse(arrived));
        keyed.push(((name(text(entry, "Key")?, encoded)?, newest_first), entry));
    }
    keyed.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(keyed.into_iter().map(|(_, entry)| entry).collect())
}

/// The versions of one key, the oldest first.
///
/// # Errors
/// As of [`visit_keys`].
pub fn versions_of(link: &mut PeerLink<'_>, key: &str) -> Result<Vec<PeerVersion>, String> {
    let mut versions = Vec::new();
    // The key itself comes before all longer ones.
    visit_keys(link, key, true, &mut |listed| {
        if listed.key == key {
            versions = listed.versions;
        }
        false
    })?;
    Ok(versions)
}

fn oldest_first(mut listed: PeerKey) -> PeerKey {
    listed.versions.reverse();
    listed
}

fn page(
    link: &mut PeerLink<'_>,
    prefix: &str,
    all_versions: bool,
    place: &PageStart,
) -> Result<Vec<u8>, String> {
    let token = if all_versions { "key-marker" } else { "continuation-token" };
    let mut query = vec![("encoding-type", "url"), ("prefix", prefix)];
    query.extend(if all_versions { [("versions", "")] } else { [("list-type", "2")] });
    query.extend(place.token.as_deref().map(|value| (token, value)));
    query.extend(place.version.as_deref().map(|value| ("version-id-marker", value)));
    query.sort_unstable();
    let answer = link.ask(PeerCall { method: "GET", query: &query, ..PeerCall::default() });
    Ok(answer.map_err(super::peer::PeerError::text)?.1)
}

fn next_place(root: Element<'_>, all_versions: bool, encoded: bool) -> Result<Option<PageStart>, String> {
    if text(root, "IsTruncated")? != "true" {
        return Ok(None);
    }
    if !all_versions {
        let token = Some(text(root, "NextContinuationToken")?).filter(|token| !token.is_empty());
        let token = token.ok_or("a page of the listing does not say where the next begins")?;
        return Ok(Some(PageStart { token: Some(token), version: None }));
    }
    let token = name(text(root, "NextKeyMarker")?, encoded)?;
    let version = Some(text(root, "NextVersionIdMarker")?).filter(|version| !version.is_empty());
    if token.is_empty() {
        return Err("a page of the listing does not say where the next begins".to_owned());
    }
    Ok(Some(PageStart { token: Some(token), version }))
}

fn listed(entry: Element<'_>, encoded: bool) -> Result<(String, PeerVersion), String> {
    let delete_marker = entry.name() == "DeleteMarker";
    let key = name(text(entry, "Key")?, encoded)?;
    let length = match text(entry, "Size")?.parse() {
        Ok(length) => length,
        Err(_) if delete_marker => 0,
        Err(_) => return Err(format!("{key:?} has no size in the listing")),
    };
    let id = Some(text(entry, "VersionId")?).filter(|id| !id.is_empty());
    let etag = text(entry, "ETag")?.trim_matches('"').to_owned();
    let modified = Timestamp::parse_iso8601(&text(entry, "LastModified")?);
    Ok((key, PeerVersion { id, delete_marker, length, etag, modified }))
}

fn name(given: String, encoded: bool) -> Result<String, String> {
    if !encoded {
        return Ok(given);
    }
    decoded(&given).ok_or_else(|| format!("the name {given} in the listing is not UTF-8"))
}

fn text(element: Element<'_>, child: &str) -> Result<String, String> {
    let text = element.child_text(child).map_err(|error| error.to_string())?;
    Ok(text.unwrap_or_default().into_owned())
}
