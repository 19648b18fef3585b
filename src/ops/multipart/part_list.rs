//! The list of parts that a request for completion holds.

use super::etag_of;
use crate::base::digest::from_hex;
use crate::base::limits::{OBJECT_SIZE_MAX_BYTES, PART_LIST_MAX_BYTES, PART_NUMBER_MAX, PART_SIZE_MIN_BYTES};
use crate::ops::{Context, body, checksums};
use crate::s3::checksum::{self, Algorithm};
use crate::s3::conditions::same_tag;
use crate::s3::{Call, ErrorCode, S3Error};
use crate::store::{ETag, PartRecord, VersionRecord};
use crate::xml::Element;

/// Parts as the client lists them.
pub(super) struct PartList(Vec<ListedPart>);

struct ListedPart {
    number: u32,
    tag: String,
    /// Checksums in base64.
    checksums: Vec<(Algorithm, String)>,
}

impl PartList {
    /// Reads the body of the request.
    ///
    /// # Errors
    /// `MalformedXML` for what is no list of parts, or one of none; those of reading documents.
    pub(super) fn read(context: &Context, call: &mut Call<'_>) -> Result<Self, S3Error> {
        let bytes = body::read_document_by_md5(context, call, PART_LIST_MAX_BYTES)?;
        Self::parse(&bytes)
    }

    fn parse(bytes: &[u8]) -> Result<Self, S3Error> {
        let document = body::parse(bytes, "CompleteMultipartUpload")?;
        let names = Algorithm::ALL.map(|algorithm| (algorithm, checksums::element(algorithm)));
        let parts = document.root().all("Part").map(|part| ListedPart::parse(part, &names));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        if parts.is_empty() || parts.len() > PART_NUMBER_MAX as usize {
            return Err(body::malformed_because("from 1 to 10000 parts make an object"));
        }
        Ok(Self(parts))
    }

    /// Takes the listed parts out of those that are there, which are ordered by number.
    ///
    /// # Errors
    /// In this order: `InvalidPartOrder`; `InvalidPart` for one that is not there or another than listed; `EntityTooSmall`,
    /// `EntityTooLarge`.
    pub(super) fn choose(&self, there: Vec<PartRecord>) -> Result<Vec<PartRecord>, S3Error> {
        if !self.0.is_sorted_by(|a, b| a.number < b.number) {
            return Err(S3Error::new(ErrorCode::InvalidPartOrder));
        }
        let mut there = there.into_iter();
        let parts = self.0.iter().map(|listed| listed.find(&mut there)).collect::<Result<Vec<_>, _>>()?;
        check_sizes(&parts)?;
        Ok(parts)
    }

    /// Whether `version` was made by completing an upload with just this list.
    pub(super) fn made(&self, version: &VersionRecord) -> bool {
        let numbers = version.upload.iter().flat_map(|assembly| &assembly.parts).map(|part| part.number);
        self.etag() == Some(version.etag) && numbers.eq(self.0.iter().map(|listed| listed.number))
    }

    /// The tag of an object of these parts; `None` where a part has a tag that no part has.
    fn etag(&self) -> Option<ETag> {
        let md5s = self.0.iter().map(|listed| from_hex(listed.tag.trim_matches('"'))?.try_into().ok());
        md5s.collect::<Option<Vec<[u8; 16]>>>().map(|md5s| etag_of(&md5s))
    }
}

impl ListedPart {
    /// `names` are those of the elements that bear checksums.
    fn parse(part: Element<'_>, names: &[(Algorithm, String)]) -> Result<Self, S3Error> {
        let text = |name: &str| part.child_text(name).map_err(body::malformed);
        let number = text("PartNumber")?.and_then(|number| number.trim().parse().ok());
        let tag = text("ETag")?.map(|tag| tag.trim().to_owned());
        let (Some(number), Some(tag)) = (number, tag) else {
            return Err(body::malformed_because("every part has a PartNumber and an ETag"));
        };
        let mut values = Vec::new();
        // Where there is nothing but those two, nothing need be looked for.
        let names = if part.children().nth(2).is_some() { names } else { &[] };
        for (algorithm, name) in names {
            if let Some(value) = text(name)? {
                values.push((*algorithm, value.trim().to_owned()));
            }
        }
        Ok(Self { number, tag, checksums: values })
    }

    /// Takes the part out of those that are there, both in order: what is passed over on the way nobody lists.
    fn find(&self, there: &mut impl Iterator<Item = PartRecord>) -> Result<PartRecord, S3Error> {
        let found = there.find(|part| part.number >= self.number);
        found.filter(|part| part.number == self.number && self.is(part)).ok_or_else(|| {
            S3Error::new(ErrorCode::InvalidPart)
                .element("PartNumber", self.number.to_string())
                .element("ETag", self.tag.as_str())
        })
    }

    fn is(&self, part: &PartRecord) -> bool {
        let has = |(algorithm, text): &(Algorithm, String)| {
            let own = part.checksum.as_ref().filter(|own| own.algorithm == checksums::to_store(*algorithm));
            own.is_some_and(|own| checksum::encode(&own.value) == *text)
        };
        same_tag(&self.tag, &ETag::Md5(part.md5).to_string()) && self.checksums.iter().all(has)
    }
}

/// Checks the sizes of the parts and of what they come to.
fn check_sizes(parts: &[PartRecord]) -> Result<(), S3Error> {
    let but_last = &parts[..parts.len() - 1];
    if let Some(small) = but_last.iter().find(|part| part.size < PART_SIZE_MIN_BYTES) {
        return Err(S3Error::new(ErrorCode::EntityTooSmall)
            .element("ProposedSize", small.size.to_string())
            .element("MinSizeAllowed", PART_SIZE_MIN_BYTES.to_string())
            .element("PartNumber", small.number.to_string())
            .element("ETag", ETag::Md5(small.md5).to_string()));
    }
    let size: u64 = parts.iter().map(|part| part.size).sum();
    if size > OBJECT_SIZE_MAX_BYTES {
        return Err(S3Error::new(ErrorCode::EntityTooLarge)
            .element("ProposedSize", size.to_string())
            .element("MaxSizeAllowed", OBJECT_SIZE_MAX_BYTES.to_string()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(inner: &str) -> Result<usize, ErrorCode> {
        let text = format!("<CompleteMultipartUpload>{inner}</CompleteMultipartUpload>");
        PartList::parse(text.as_bytes()).map(|list| list.0.len()).map_err(|e| e.code)
    }

    #[test]
    fn a_list_has_parts_with_number_and_tag() {
        let part = "<Part><PartNumber> 1\n</PartNumber><ETag>&quot;x&quot;</ETag><Other/></Part>";
        assert_eq!(parse(part), Ok(1));
        assert_eq!(parse(&part.repeat(10_000)), Ok(10_000));
        for inner in [
            "",
            "<Other/>",
            "<Part><PartNumber>1</PartNumber></Part>",
            "<Part><ETag>x</ETag></Part>",
            "<Part><PartNumber>-1</PartNumber><ETag>x</ETag></Part>",
            "<Part><PartNumber>one</PartNumber><ETag>x</ETag></Part>",
            "<Part><PartNumber>1</PartNumber><PartNumber>2</PartNumber><ETag>x</ETag></Part>",
            &part.repeat(10_001),
        ] {
            assert_eq!(parse(inner), Err(ErrorCode::MalformedXML), "{inner:.80}");
        }
    }
}
