//! Tags of objects (S3 user guide, "Categorizing your objects using tags") and of buckets (ibidem,
//! "Using cost allocation S3 bucket tags"): names and values in the order in which they were sent.

use crate::base::limits::{BUCKET_TAGS_MAX, TAG_KEY_LEN_MAX_CHARS, TAG_VALUE_LEN_MAX_CHARS, TAGS_MAX};
use crate::s3::{ErrorCode, QueryParams, S3Error, VendorHeaders, XmlConfiguration, uri};
use crate::xml::{Element, Writer, XmlError};

/// The root element of the document with the tags.
pub const ROOT: &str = "Tagging";

/// The tags of a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BucketTags(pub Vec<(String, String)>);

impl XmlConfiguration for BucketTags {
    const ROOT: &'static str = ROOT;

    fn parse(root: Element<'_>) -> Result<Self, S3Error> {
        parse(root, TagHolder::Bucket).map(Self)
    }

    fn render(&self, document: &mut Writer) {
        render(&self.0, document);
    }
}

/// The kind of resource that has tags, which decides how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagHolder {
    /// An object, with ten.
    Object,
    /// A bucket, with fifty.
    Bucket,
}

/// Characters allowed in tags, besides letters, digits and whitespace.
const MARKS: &str = "+-=._:/@";
/// The prefix of reserved names.
const RESERVED: &str = "aws:";

/// Parses the tags in the header `p-tagging`, which have the form of a query string. Without the
/// header there are none.
///
/// # Errors
/// `InvalidArgument` for malformed text and for a repeated name; the errors of [`check`].
pub fn from_header(vendor: VendorHeaders<'_>) -> Result<Vec<(String, String)>, S3Error> {
    let Some(value) = vendor.get("tagging") else { return Ok(Vec::new()) };
    let text = std::str::from_utf8(value).ok();
    let query = text.and_then(|text| QueryParams::parse(text).ok());
    let tags = query
        .map(|query| query.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect::<Vec<_>>());
    let Some(tags) = tags.filter(|tags| duplicate(tags).is_none()) else {
        let name = format!("{}tagging", vendor.dialect().header_prefix());
        let message = format!(
            "The header '{name}' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name \
             duplicates."
        );
        return Err(S3Error::invalid_argument(&name, &String::from_utf8_lossy(value), message));
    };
    check(&tags, TagHolder::Object)?;
    Ok(tags)
}

/// Reads the element `Tagging`.
///
/// # Errors
/// `MalformedXML` without a `TagSet` and for a tag without a key or a value; the errors of
/// [`check`].
pub fn parse(root: Element<'_>, holder: TagHolder) -> Result<Vec<(String, String)>, S3Error> {
    let set = root.child("TagSet").map_err(|error| S3Error::malformed_xml(&error.to_string()))?;
    let set = set.ok_or_else(|| S3Error::malformed_xml("there is no TagSet"))?;
    parse_set(set, holder)
}

/// Reads the element `Tags` of `CreateBucketConfiguration` (S3 API reference, CreateBucket).
/// Without it there are none.
///
/// # Errors
/// As of [`parse`].
pub fn of_new_bucket(root: Element<'_>) -> Result<BucketTags, S3Error> {
    let set = root.child("Tags").map_err(|error| S3Error::malformed_xml(&error.to_string()))?;
    let tags = set.map(|set| parse_set(set, TagHolder::Bucket)).transpose()?;
    Ok(BucketTags(tags.unwrap_or_default()))
}

fn parse_set(set: Element<'_>, holder: TagHolder) -> Result<Vec<(String, String)>, S3Error> {
    let read = set.all("Tag").map(parse_tag).collect::<Result<Option<Vec<_>>, _>>();
    let read = read.map_err(|error| S3Error::malformed_xml(&error.to_string()))?;
    let tags = read.ok_or_else(|| S3Error::malformed_xml("a Tag has a Key and a Value"))?;
    check(&tags, holder)?;
    Ok(tags)
}

fn parse_tag(tag: Element<'_>) -> Result<Option<(String, String)>, XmlError> {
    let key = tag.child_text("Key")?;
    let value = tag.child_text("Value")?;
    Ok(key.zip(value).map(|(key, value)| (key.into_owned(), value.into_owned())))
}

/// The value of the header `p-tagging` for tags.
pub fn to_header(tags: &[(String, String)]) -> String {
    let pairs =
        tags.iter().map(|(key, value)| format!("{}={}", uri::encode_listed(key), uri::encode_listed(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Writes the tags below the root element.
pub fn render(tags: &[(String, String)], document: &mut Writer) {
    document.element("TagSet", |set| {
        for (key, value) in tags {
            set.element("Tag", |tag| {
                tag.leaf("Key", key);
                tag.leaf("Value", value);
            });
        }
    });
}

/// Validates tags.
///
/// # Errors
/// `BadRequest` for more than `holder` may have; `InvalidTag` for a key or value with a wrong
/// length or character, and for a repeated or reserved key.
pub fn check(tags: &[(String, String)], holder: TagHolder) -> Result<(), S3Error> {
    let (most, name) = match holder {
        TagHolder::Object => (TAGS_MAX, "Object tags"),
        TagHolder::Bucket => (BUCKET_TAGS_MAX, "Bucket tag count"),
    };
    if tags.len() > most {
        let message = format!("{name} cannot be greater than {most}");
        return Err(S3Error::new(ErrorCode::BadRequest).message(message));
    }
    for (key, value) in tags {
        check_text(key, 1..=TAG_KEY_LEN_MAX_CHARS, "TagKey")?;
        check_text(value, 0..=TAG_VALUE_LEN_MAX_CHARS, "TagValue")?;
        if key.starts_with(RESERVED) {
            let message = "System tags cannot be added/updated by requester";
            return Err(S3Error::new(ErrorCode::InvalidTag).message(message).element("TagKey", key));
        }
    }
    if let Some(key) = duplicate(tags) {
        let message = "Cannot provide multiple Tags with the same key";
        return Err(S3Error::new(ErrorCode::InvalidTag).message(message).element("TagKey", key));
    }
    Ok(())
}

fn may_be_in_tag(c: char) -> bool {
    c.is_alphanumeric() || MARKS.contains(c) || c.is_whitespace() && !c.is_control()
}

fn check_text(
    text: &str,
    length: std::ops::RangeInclusive<usize>,
    element: &'static str,
) -> Result<(), S3Error> {
    // S3 counts code units of UTF-16, of which some letters take two.
    if length.contains(&text.encode_utf16().count()) && text.chars().all(may_be_in_tag) {
        return Ok(());
    }
    let message = format!("The {element} you have provided is invalid");
    Err(S3Error::new(ErrorCode::InvalidTag).message(message).element(element, text))
}

/// A key that is there more than once. Called for few tags only; more are refused by [`check`].
fn duplicate(tags: &[(String, String)]) -> Option<&str> {
    let mut keys: Vec<_> = tags.iter().map(|(key, _)| key.as_str()).collect();
    keys.sort_unstable();
    keys.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::s3::{Dialect, Headers};

    fn read(value: &[u8]) -> Result<Vec<(String, String)>, S3Error> {
        let mut headers = Headers::default();
        headers.push("x-amz-tagging", value);
        from_header(VendorHeaders::new(&headers, Dialect::Aws))
    }

    fn code(tags: &[(&str, &str)]) -> Option<ErrorCode> {
        let owned: Vec<_> = tags.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        check(&owned, TagHolder::Object).err().map(|error| error.code)
    }

    #[test]
    fn a_header_writes_tags_like_a_query() {
        let tags = read(b"colour=gr%C3%BCn&size=10+cm&flag").unwrap();
        let expected = [("colour", "grün"), ("size", "10 cm"), ("flag", "")];
        assert_eq!(tags, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert_eq!(read(b"").unwrap(), []);
        assert_eq!(from_header(VendorHeaders::new(&Headers::default(), Dialect::Aws)).unwrap(), []);
    }

    #[test]
    fn tags_are_read_back_from_the_header_made_of_them() {
        let tags = [("a b:", "1+/="), ("ü", "")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(read(to_header(&tags).as_bytes()).unwrap(), tags);
        assert_eq!(read(to_header(&[]).as_bytes()).unwrap(), []);
    }

    #[test]
    fn a_header_that_is_no_query_is_an_invalid_argument() {
        for value in [&b"a=%zz"[..], b"a=%ff", b"\xff=a", b"a=1&a=2"] {
            let error = read(value).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidArgument);
            assert_eq!(error.elements[0].1, "x-amz-tagging");
        }
        assert_eq!(read(b"=a").unwrap_err().code, ErrorCode::InvalidTag);
    }

    #[test]
    fn keys_and_values_have_a_length_and_an_alphabet() {
        let long = "ü".repeat(257);
        assert_eq!(code(&[(&long[..256], &long[..512]), ("a b+-=._:/@1", "")]), None);
        for (key, value) in
            [("", "v"), (&long[..258], "v"), ("k", &*long), ("k<", "v"), ("k", "v\n"), ("aws:k", "v")]
        {
            assert_eq!(code(&[(key, value)]), Some(ErrorCode::InvalidTag), "{key}={value}");
        }
        // A letter of two code units, as UTF-16 has it.
        let wide = |count| "\u{20000}".repeat(count);
        assert_eq!(code(&[(&wide(64), &wide(128))]), None);
        assert_eq!(code(&[(&wide(65), "v")]), Some(ErrorCode::InvalidTag));
        assert_eq!(code(&[("k", &wide(129))]), Some(ErrorCode::InvalidTag));
    }

    #[test]
    fn there_are_ten_tags_at_most_and_no_two_of_one_name() {
        let keys: Vec<_> = (0..11).map(|n| n.to_string()).collect();
        let tags: Vec<_> = keys.iter().map(|key| (key.as_str(), "")).collect();
        assert_eq!(code(&tags[..10]), None);
        assert_eq!(code(&tags), Some(ErrorCode::BadRequest));
        assert_eq!(code(&[("a", "1"), ("b", "1"), ("a", "2")]), Some(ErrorCode::InvalidTag));
    }

    proptest! {
        #[test]
        fn no_header_makes_it_panic(value in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = read(&value);
        }
    }
}
