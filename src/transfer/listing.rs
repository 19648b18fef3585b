//! The listing of a bucket: each key with its versions.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use crate::base::Timestamp;
use crate::xml::{Document, Element};

use super::lenient::LenientPage;
use super::peer::{PeerCall, PeerError, PeerLink, attempts, decoded, passing};

/// The names of the roots of a page of objects, and of versions: the S3 API reference names the
/// latter in the plural, and S3 itself in the singular.
const ROOTS: [&str; 3] = ["ListBucketResult", "ListVersionsResult", "ListVersionResult"];
/// Pages without a key in a row. Servers that filter what they list may answer some.
const EMPTY_PAGES_MAX: u32 = 1_000;
/// The part of a token that an error names.
const SHOWN_CHARS: usize = 80;
const UNSAID: &str = "a page of the listing does not say where the next begins";

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerKey {
    /// The key.
    pub key: String,
    /// Its versions.
    pub versions: Vec<PeerVersion>,
    /// Why the listing does not show the key or its versions, where it does not. The others are not
    /// concerned.
    pub fault: Option<String>,
}

impl PeerKey {
    /// The bytes of all versions.
    pub fn bytes(&self) -> u64 {
        self.versions.iter().map(|version| version.length).sum()
    }
}

/// The place where the next page begins.
#[derive(Default, Hash)]
struct PageStart {
    token: Option<String>,
    version: Option<String>,
}

/// The pages so far, to notice a listing that turns in a circle.
#[derive(Default)]
struct PagesSeen {
    starts: HashSet<u64>,
    contents: HashSet<u64>,
    empty_in_a_row: u32,
}

impl PagesSeen {
    /// Notes a page and the place of the next one.
    ///
    /// # Errors
    /// A message that names the place: the listing was there before, or does not advance.
    fn note(&mut self, listed: &[PageEntry], next: &PageStart) -> Result<(), String> {
        let token = start_of(next.token.as_deref());
        let place = match &next.version {
            Some(version) => format!("{token:?}, version {:?}", start_of(Some(version))),
            None => format!("{token:?}"),
        };
        if !self.starts.insert(hash_of(next)) {
            return Err(format!("it repeats: the next page begins at {place} once more"));
        }
        self.empty_in_a_row = if listed.is_empty() { self.empty_in_a_row + 1 } else { 0 };
        if self.empty_in_a_row > EMPTY_PAGES_MAX {
            return Err(format!("it does not advance: {EMPTY_PAGES_MAX} pages without a key before {place}"));
        }
        let content: Vec<_> = listed.iter().map(|it| (&it.key, &it.version.id)).collect();
        if !listed.is_empty() && !self.contents.insert(hash_of(&content)) {
            return Err(format!("it repeats: the page before {place} was there before"));
        }
        Ok(())
    }
}

fn start_of(text: Option<&str>) -> String {
    text.unwrap_or_default().chars().take(SHOWN_CHARS).collect()
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// An entry of a page.
struct PageEntry {
    key: String,
    version: PeerVersion,
    fault: Option<String>,
}

/// Visits the keys that begin with `prefix`, in order, until the visitor returns `false`.
///
/// # Errors
/// A message, if a page cannot be had or read, or the pages do not advance.
pub fn visit_keys(
    link: &mut PeerLink<'_>,
    prefix: &str,
    all_versions: bool,
    visit: &mut dyn FnMut(PeerKey) -> bool,
) -> Result<(), String> {
    let mut place = PageStart::default();
    let mut seen = PagesSeen::default();
    let mut open: Option<PeerKey> = None;
    loop {
        let page = attempts(|| page(link, prefix, all_versions, &place)).map_err(PeerError::text)?;
        let document = Document::parse(page.text()).map_err(|error| error.to_string())?;
        let listing = Listing::of(&page, document.root())?;
        let listed = listing.entries()?;
        let next = listing.next_place(all_versions)?;
        next.as_ref().map_or(Ok(()), |next| seen.note(&listed, next))?;
        for PageEntry { key, version, fault } in listed {
            match &mut open {
                Some(last) if last.key == key => {
                    last.versions.push(version);
                    last.fault = last.fault.take().or(fault);
                }
                _ => {
                    let next = PeerKey { key, versions: vec![version], fault };
                    if open.replace(next).is_some_and(|done| !visit(oldest_first(done))) {
                        return Ok(());
                    }
                }
            }
        }
        match next {
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
    let (_, body) = answer.map_err(PeerError::text)?;
    let document = Document::parse(&body).map_err(|error| error.to_string())?;
    let lists = document.root().children().filter(|child| child.name() == "Buckets");
    let buckets: Vec<_> = lists.flat_map(|list| list.children().collect::<Vec<_>>()).collect();
    buckets.into_iter().map(|bucket| text(bucket, "Name")).collect()
}

/// Whether the bucket of the link is there, as a page of its listing shows. An answer of success to
/// HEAD may come from anything on the way.
///
/// # Errors
/// As of [`PeerLink::send`].
pub fn has_bucket(link: &mut PeerLink<'_>) -> Result<bool, PeerError> {
    let query = [("list-type", "2"), ("max-keys", "1")];
    let call = PeerCall { method: "GET", query: &query, ..PeerCall::default() };
    match link.ask(call).and_then(|(_, body)| checked(LenientPage::of(body))) {
        Err(PeerError::Absent) => Ok(false),
        found => found.map(|_| true),
    }
}

/// The versions of one key, the oldest first.
///
/// # Errors
/// As of [`visit_keys`].
pub fn versions_of(link: &mut PeerLink<'_>, key: &str) -> Result<Vec<PeerVersion>, String> {
    let mut versions = Ok(Vec::new());
    // The key itself comes before all longer ones.
    visit_keys(link, key, true, &mut |listed| {
        if listed.key == key {
            versions = listed.fault.map_or(Ok(listed.versions), Err);
        }
        false
    })?;
    versions
}

/// The newest versions of a key.
#[derive(Debug)]
pub struct NewestVersions {
    /// The versions, oldest first.
    pub versions: Vec<PeerVersion>,
    /// Whether there may be older ones.
    pub has_older: bool,
}

/// The newest versions of one key: those on a page of the listing.
///
/// # Errors
/// As of [`visit_keys`].
pub fn newest_versions_of(link: &mut PeerLink<'_>, key: &str) -> Result<NewestVersions, String> {
    let place = PageStart::default();
    let page = attempts(|| page(link, key, true, &place)).map_err(PeerError::text)?;
    let document = Document::parse(page.text()).map_err(|error| error.to_string())?;
    let listing = Listing::of(&page, document.root())?;
    let mut has_older = listing.next_place(true)?.is_some();
    let mut versions = Vec::new();
    for PageEntry { key: listed, version, fault } in listing.entries()? {
        if listed != key {
            has_older = false;
            break;
        }
        if let Some(fault) = fault {
            return Err(fault);
        }
        versions.push(version);
    }
    versions.reverse();
    Ok(NewestVersions { versions, has_older })
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
) -> Result<LenientPage, PeerError> {
    let token = if all_versions { "key-marker" } else { "continuation-token" };
    let mut query = vec![("encoding-type", "url"), ("prefix", prefix)];
    query.extend(if all_versions { [("versions", "")] } else { [("list-type", "2")] });
    query.extend(place.token.as_deref().map(|value| (token, value)));
    query.extend(place.version.as_deref().map(|value| ("version-id-marker", value)));
    query.sort_unstable();
    let (_, body) = link.ask_once(PeerCall { method: "GET", query: &query, ..PeerCall::default() }, b"")?;
    checked(LenientPage::of(body))
}

/// A page that is a listing. Anything on the way may have answered another document in place of the
/// server.
fn checked(page: LenientPage) -> Result<LenientPage, PeerError> {
    let document = Document::parse(page.text()).map_err(|error| passing(format!("no listing: {error}")))?;
    match document.root().name() {
        root if ROOTS.contains(&root) => {}
        root => return Err(passing(format!("the answer is no listing but {root:.40}"))),
    }
    drop(document);
    Ok(page)
}

/// A page of a listing.
#[derive(Clone, Copy)]
struct Listing<'p> {
    page: &'p LenientPage,
    root: Element<'p>,
    /// Whether names are encoded. Servers that do not encode them ignore the parameter.
    encoded: bool,
}

impl<'p> Listing<'p> {
    fn of(page: &'p LenientPage, root: Element<'p>) -> Result<Self, String> {
        Ok(Self { page, root, encoded: text(root, "EncodingType")? == "url" })
    }

    /// The entries by key, and the newest first in each. Some servers list all delete markers after
    /// all versions; only their pages are sorted by time, since others show the order better than
    /// times do.
    fn entries(self) -> Result<Vec<PageEntry>, String> {
        let entries = self.root.children();
        let entries: Vec<_> =
            entries.filter(|entry| matches!(entry.name(), "Contents" | "Version" | "DeleteMarker")).collect();
        let first = entries.iter().position(|entry| entry.name() == "DeleteMarker").unwrap_or(entries.len());
        let is_in_order =
            first == entries.len() || entries[first..].iter().any(|entry| entry.name() != "DeleteMarker");
        let mut keyed = Vec::new();
        for entry in entries {
            // The time of arrival gives the order, where the server shows it beside a stated one.
            let arrived = Some(text(entry, "Stored")?).filter(|time| !time.is_empty());
            let arrived = arrived.map_or_else(|| text(entry, "LastModified"), Ok)?;
            let newest_first = (Reverse(text(entry, "IsLatest")?), Reverse(arrived));
            keyed.push((newest_first, self.listed(entry)?));
        }
        if !is_in_order {
            keyed.sort_by(|(one_time, one), (other_time, other)| {
                (&one.key, one_time).cmp(&(&other.key, other_time))
            });
        }
        Ok(keyed.into_iter().map(|(_, listed)| listed).collect())
    }

    fn listed(self, entry: Element<'_>) -> Result<PageEntry, String> {
        let delete_marker = entry.name() == "DeleteMarker";
        let name = text(entry, "Key")?;
        let (key, mut fault) = self.name(&name);
        let length = match text(entry, "Size")?.trim().parse() {
            Ok(length) => length,
            Err(_) if delete_marker => 0,
            Err(_) => {
                fault = fault.or_else(|| Some("it has no size in the listing".to_owned()));
                0
            }
        };
        let id = Some(text(entry, "VersionId")?).filter(|id| !id.is_empty());
        let etag = text(entry, "ETag")?.trim_matches('"').to_owned();
        let modified = Timestamp::parse_iso8601(&text(entry, "LastModified")?);
        let version = PeerVersion { id, delete_marker, length, etag, modified };
        Ok(PageEntry { key, version, fault })
    }

    /// The name of a key, as far as it can be read, and why it cannot.
    fn name(self, given: &str) -> (String, Option<String>) {
        if let Some(restored) = self.page.restored(given) {
            let why = "its name in the listing has characters that XML cannot carry";
            return (restored, Some(why.to_owned()));
        }
        if !self.encoded {
            return (given.to_owned(), None);
        }
        match decoded(given) {
            Some(name) => (name, None),
            None => (given.to_owned(), Some("its name in the listing is not UTF-8".to_owned())),
        }
    }

    fn next_place(self, all_versions: bool) -> Result<Option<PageStart>, String> {
        if text(self.root, "IsTruncated")?.trim() != "true" {
            return Ok(None);
        }
        if !all_versions {
            let token = self.told("NextContinuationToken")?.ok_or(UNSAID)?;
            return Ok(Some(PageStart { token: Some(token), version: None }));
        }
        let token = self.told("NextKeyMarker")?.ok_or(UNSAID)?;
        let token = match self.encoded {
            true => decoded(&token)
                .ok_or_else(|| format!("the place {token:.80} of the next page is not UTF-8"))?,
            false => token,
        };
        Ok(Some(PageStart { token: Some(token), version: self.told("NextVersionIdMarker")? }))
    }

    /// A place in the next page; `None` where the page names none.
    fn told(&self, child: &str) -> Result<Option<String>, String> {
        let given = text(self.root, child)?;
        let restored = self.page.restored(&given).unwrap_or(given);
        Ok(Some(restored).filter(|text| !text.is_empty()))
    }
}

fn text(element: Element<'_>, child: &str) -> Result<String, String> {
    let text = element.child_text(child).map_err(|error| error.to_string())?;
    Ok(text.unwrap_or_default().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(page: &str) -> Vec<(String, usize, bool)> {
        let page = LenientPage::of(page.as_bytes().to_vec());
        let document = Document::parse(page.text()).unwrap();
        let listed = Listing::of(&page, document.root()).unwrap().entries().unwrap();
        listed.into_iter().map(|it| (it.key, it.version.length as usize, it.fault.is_some())).collect()
    }

    #[test]
    fn a_name_that_xml_cannot_carry_concerns_its_key_alone() {
        let contents = |key: &str| format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>");
        let keys = ["a", "b\u{1}c", "d&#1;e", "f&#x1F;g", "h&#xFFFE;", "z\u{e000}"].map(contents);
        let found = entries(&format!("<ListBucketResult>{}</ListBucketResult>", keys.concat()));
        let wanted = [
            ("a", false),
            ("b\u{1}c", true),
            ("d\u{1}e", true),
            ("f\u{1f}g", true),
            ("h\u{fffd}", true),
            ("z\u{e000}", false),
        ];
        assert_eq!(found, wanted.map(|(key, fault)| (key.to_owned(), 1, fault)));
        let encoded = format!(
            "<ListBucketResult><EncodingType>url</EncodingType>{}{}<Contents><Key>c</Key></Contents></ListBucketResult>",
            contents("a%01b"),
            contents("%ff")
        );
        let wanted = [("a\u{1}b", 1, false), ("%ff", 1, true), ("c", 0, true)];
        assert_eq!(entries(&encoded), wanted.map(|(key, length, fault)| (key.to_owned(), length, fault)));
    }

    #[test]
    fn pages_that_repeat_are_noticed_by_their_place_or_their_keys() {
        let listed = |key: &str| {
            let version = PeerVersion {
                id: None,
                delete_marker: false,
                length: 1,
                etag: String::new(),
                modified: None,
            };
            vec![PageEntry { key: key.to_owned(), version, fault: None }]
        };
        let at = |token: &str| PageStart { token: Some(token.to_owned()), version: None };
        let mut seen = PagesSeen::default();
        seen.note(&listed("a"), &at("1")).unwrap();
        seen.note(&listed("b"), &at("2")).unwrap();
        let why = seen.note(&listed("c"), &at("1")).unwrap_err();
        assert!(why.contains("repeats") && why.contains("\"1\""), "{why}");
        let why = seen.note(&listed("a"), &at("3")).unwrap_err();
        assert!(why.contains("repeats") && why.contains("\"3\""), "{why}");
        let mut seen = PagesSeen::default();
        let end = (0..2 * EMPTY_PAGES_MAX).find_map(|nth| seen.note(&[], &at(&nth.to_string())).err());
        assert!(end.unwrap().contains("does not advance"));
    }
}
