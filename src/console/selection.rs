//! The objects, versions and folders that a form selects. Folders are listed in steps, so that no
//! request takes longer than its step.

use std::collections::BTreeSet;

use super::form::{self, decoded};
use super::objects::{Folder, ObjectLine};
use super::s3_client::{Refusal, S3Client};
use super::selected_object::{SelectedObject, split_off};
use crate::s3::{QueryParams, uri};

/// Objects and folders that one form may select.
const SELECTED_MAX: usize = 1_000;

#[derive(Debug, PartialEq, Eq)]
enum SelectedItem {
    Object(SelectedObject),
    /// All current objects with this prefix.
    Folder(String),
    /// All versions and delete markers of keys with this prefix.
    History(String),
    /// All versions and delete markers of this key.
    Whole(String),
}

/// What a form selects: no object twice, and no folder within another one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Selection(Vec<SelectedItem>);

/// The place in a selection at which a step begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SelectionPlace {
    item: usize,
    /// Where the listing goes on; `None` for its beginning.
    within: Option<ListingPlace>,
}

/// The place in a listing at which its next page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ListingPlace {
    /// The token of a folder, or the last key of a history.
    after: String,
    /// The last version of that key.
    version: Option<String>,
}

/// A part of a selection.
#[derive(Default)]
pub(super) struct SelectionStep {
    /// Objects that the form names.
    pub(super) named: Vec<SelectedObject>,
    /// Objects of the folders, and versions of the histories that it names.
    pub(super) listed: Vec<ObjectLine>,
    /// The place of the next step, if there is one.
    pub(super) next: Option<SelectionPlace>,
}

impl Selection {
    /// The selection of the fields `object`, as [`SelectedObject::field`] writes them, and
    /// `folder` and `history`, which are percent-encoded prefixes, and `whole`, which are keys.
    ///
    /// # Errors
    /// There are more than 1,000 fields, or one is malformed.
    pub(super) fn read(fields: &QueryParams) -> Result<Self, Refusal> {
        // Counted before the fields are parsed, which takes memory for each of them.
        let items = fields.iter().filter(|(name, _)| ["object", "folder", "history", "whole"].contains(name));
        if items.count() > SELECTED_MAX {
            return Err(Refusal::new(
                400,
                format!("At most {SELECTED_MAX} objects and folders can be selected at a time."),
            ));
        }
        let folders = prefixes(fields, "folder")?;
        let histories = prefixes(fields, "history")?;
        let mut selected = BTreeSet::new();
        for field in form::all(fields, "object") {
            let object = SelectedObject::parse(field)?;
            // A folder covers current objects, and a history covers versions.
            let covering = if object.version.is_none() { &folders } else { &histories };
            if !covering.iter().any(|prefix| object.key.starts_with(prefix)) {
                selected.insert(object);
            }
        }
        let mut wholes = form::all(fields, "whole").map(decoded).collect::<Result<BTreeSet<_>, _>>()?;
        wholes.retain(|key| !histories.iter().any(|prefix| key.starts_with(prefix)));
        let mut objects: Vec<_> = selected.into_iter().collect();
        objects.dedup_by(|one, other| (&one.key, &one.version) == (&other.key, &other.version));
        let objects = objects.into_iter().map(SelectedItem::Object);
        let folders = folders.into_iter().map(SelectedItem::Folder);
        let histories = histories.into_iter().map(SelectedItem::History);
        let wholes = wholes.into_iter().map(SelectedItem::Whole);
        Ok(Self(objects.chain(folders).chain(histories).chain(wholes).collect()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all versions of the whole bucket are selected.
    pub(super) fn is_whole_bucket(&self) -> bool {
        self.0.iter().any(|item| matches!(item, SelectedItem::History(prefix) if prefix.is_empty()))
    }

    /// The number of keys that are selected with all their versions.
    pub(super) fn whole_keys(&self) -> usize {
        self.0.iter().filter(|item| matches!(item, SelectedItem::Whole(_))).count()
    }

    /// The key of the object or the prefix of the folder, if one of them is all that is selected.
    pub(super) fn single(&self) -> Option<&str> {
        match &*self.0 {
            [SelectedItem::Object(object)] => Some(&object.key),
            [SelectedItem::Folder(prefix)] => Some(prefix),
            _ => None,
        }
    }

    /// The prefixes of the folders whose current objects are selected.
    pub(super) fn folders(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|item| match item {
            SelectedItem::Folder(prefix) => Some(prefix.as_str()),
            SelectedItem::Object(_) | SelectedItem::History(_) | SelectedItem::Whole(_) => None,
        })
    }

    /// The fields of all but the named objects, once more: names and values.
    pub(super) fn prefix_fields(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.0.iter().filter_map(|item| match item {
            SelectedItem::Folder(prefix) => Some(("folder", uri::encode_query(prefix))),
            SelectedItem::History(prefix) => Some(("history", uri::encode_query(prefix))),
            SelectedItem::Whole(key) => Some(("whole", uri::encode_query(key))),
            SelectedItem::Object(_) => None,
        })
    }

    /// The part from `place` on: about `objects_max` objects.
    ///
    /// # Errors
    /// Errors of ListObjectsV2 and ListObjectVersions.
    pub(super) fn step(
        &self,
        s3: &S3Client<'_>,
        bucket: &str,
        mut place: SelectionPlace,
        objects_max: usize,
    ) -> Result<SelectionStep, Refusal> {
        let mut step = SelectionStep::default();
        let mut cost = 0;
        while let Some(item) = self.0.get(place.item) {
            if cost >= objects_max {
                step.next = Some(place);
                break;
            }
            let next_item = SelectionPlace { item: place.item + 1, within: None };
            let within = place.within.as_ref();
            let page = match item {
                SelectedItem::Object(object) => {
                    step.named.push(object.clone());
                    cost += 1;
                    place = next_item;
                    continue;
                }
                SelectedItem::Folder(prefix) => {
                    let folder = Folder { bucket, prefix, is_grouped: false };
                    s3.objects(folder, within.map(|within| within.after.as_str()))?
                }
                SelectedItem::History(prefix) => {
                    let folder = Folder { bucket, prefix, is_grouped: false };
                    s3.versions(folder, within.map(|within| (&*within.after, within.version.as_deref())))?
                }
                SelectedItem::Whole(key) => {
                    let folder = Folder { bucket, prefix: key, is_grouped: false };
                    let after = within.map(|within| (&*within.after, within.version.as_deref()));
                    let mut page = s3.versions(folder, after)?;
                    // Keys that begin with this one come after its last version.
                    page.objects.retain(|object| object.key == *key);
                    page.next = page.next.filter(|(next, _)| next == key);
                    page
                }
            };
            // An empty folder takes a request, too.
            cost += page.objects.len().max(1);
            step.listed.extend(page.objects);
            place = match page.next {
                Some((after, version)) => {
                    SelectionPlace { within: Some(ListingPlace { after, version }), ..place }
                }
                None => next_item,
            };
        }
        Ok(step)
    }
}

impl SelectionPlace {
    /// The value of a field.
    pub(super) fn field(&self) -> String {
        let mut field = self.item.to_string();
        if let Some(ListingPlace { after, version }) = &self.within {
            field += &format!("?{}", uri::encode_query(after));
            if let Some(version) = version {
                field += &format!("#{}", uri::encode_query(version));
            }
        }
        field
    }

    /// The place in a field.
    ///
    /// # Errors
    /// It is malformed.
    pub(super) fn parse(field: &str) -> Result<Self, Refusal> {
        let (place, version) = split_off(field, '#');
        let (item, after) = split_off(place, '?');
        let Ok(item) = item.parse() else {
            return Err(Refusal::new(400, "The field `after` is not one of this page."));
        };
        let version = version.map(decoded).transpose()?;
        let within = match after {
            Some(after) => Some(ListingPlace { after: decoded(after)?, version }),
            None => None,
        };
        Ok(Self { item, within })
    }
}

/// The prefixes in the fields of a name, without those that another one covers.
fn prefixes(fields: &QueryParams, name: &str) -> Result<Vec<String>, Refusal> {
    let mut prefixes: Vec<String> = Vec::new();
    // A prefix comes right before those that it covers.
    for prefix in form::all(fields, name).map(decoded).collect::<Result<BTreeSet<_>, _>>()? {
        if !prefixes.last().is_some_and(|covering| prefix.starts_with(covering)) {
            prefixes.push(prefix);
        }
    }
    Ok(prefixes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Selection {
        Selection::read(&QueryParams::parse(query).unwrap()).unwrap()
    }

    fn object(key: &str, version: Option<&str>, etag: Option<&str>) -> SelectedObject {
        SelectedObject {
            key: key.to_owned(),
            version: version.map(str::to_owned),
            etag: etag.map(str::to_owned),
        }
    }

    #[test]
    fn fields_keep_every_name() {
        for object in [
            object("a?b#c%\r\n \u{1}", None, None),
            object("k", Some("null"), Some("")),
            object("", Some("v?#"), Some("\"0123\"")),
            object("?", None, Some("#")),
        ] {
            assert_eq!(SelectedObject::parse(&object.field()).unwrap(), object);
        }
        assert!(object("k", Some("v"), Some("")).is_marker());
        assert!(!object("k", Some("v"), None).is_marker());
        for place in [
            SelectionPlace::default(),
            SelectionPlace {
                item: 999,
                within: Some(ListingPlace { after: "a.b%/+=#?".to_owned(), version: None }),
            },
            SelectionPlace {
                item: 1,
                within: Some(ListingPlace { after: "\r\n".to_owned(), version: Some("v".to_owned()) }),
            },
        ] {
            assert_eq!(SelectionPlace::parse(&place.field()).unwrap(), place);
        }
        for malformed in ["", "x", "-1", "0?%f"] {
            assert!(SelectionPlace::parse(malformed).is_err(), "{malformed}");
        }
    }

    #[test]
    fn nothing_is_selected_twice() {
        let selection = read(
            "object=k&object=k%2523x&folder=a%252Fb%252F&object=a%252Fk&object=k&folder=a%252F&object=a%252Fk%3Fv&folder=b\
             &object=k&folder=a%252F&folder=a%252F",
        );
        let items = [
            SelectedItem::Object(object("a/k", Some("v"), None)),
            SelectedItem::Object(object("k", None, None)),
            SelectedItem::Object(object("k#x", None, None)),
            SelectedItem::Folder("a/".to_owned()),
            SelectedItem::Folder("b".to_owned()),
        ];
        assert_eq!(selection.0, items);
        assert_eq!(read("folder=&folder=a&object=k").0, [SelectedItem::Folder(String::new())]);
        assert_eq!(
            read("history=&history=a&object=k%3Fv&object=k").0,
            [SelectedItem::Object(object("k", None, None)), SelectedItem::History(String::new())]
        );
        assert_eq!(read("object=k%23%2522x%2522&object=k").0.len(), 1);
        assert_eq!(
            read("history=a&whole=ab&whole=k&whole=k").0,
            [SelectedItem::History("a".to_owned()), SelectedItem::Whole("k".to_owned())]
        );
    }

    #[test]
    fn one_object_or_folder_is_known_as_such() {
        assert_eq!(read("object=a%252Fk%23%2522x%2522&object=a%252Fk").single(), Some("a/k"));
        assert_eq!(read("folder=a%252F&object=a%252Fk").single(), Some("a/"));
        assert_eq!(read("history=a%252F").single(), None);
        assert_eq!(read("object=a&object=b").single(), None);
        assert_eq!(read("folder=a&folder=b&object=c&history=d").folders().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_form_selects_a_thousand_at_most() {
        let fields = |count: usize| QueryParams::parse(&vec!["folder="; count].join("&")).unwrap();
        assert!(Selection::read(&fields(SELECTED_MAX)).is_ok());
        assert!(Selection::read(&fields(SELECTED_MAX + 1)).is_err());
        assert!(Selection::read(&QueryParams::parse("object=%25zz").unwrap()).is_err());
    }
}
