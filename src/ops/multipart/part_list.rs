//! The list of parts in a CompleteMultipartUpload request.

use super::etag_of;
use crate::base::digest::{from_hex, is_hex_of};
use crate::base::limits::{OBJECT_SIZE_MAX_BYTES, PART_LIST_MAX_BYTES, PART_NUMBER_MAX, PART_SIZE_MIN_BYTES};
use crate::base::{ChecksumAlgorithm, entity_tag};
use crate::ops::{Context, body, checksums};
use crate::s3::checksum;
use crate::s3::{Call, ErrorCode, S3Error};
use crate::store::{ETag, PartRecord, VersionRecord};
use crate::xml::Element;

/// Parts as the client lists them.
pub(super) struct PartList(Vec<ListedPart>);

struct ListedPart {
    number: u32,
    tag: String,
    /// Checksums in base64.
    checksums: Vec<(ChecksumAlgorithm, String)>,
}

impl PartList {
    /// Reads the body of the request.
    ///
    /// # Errors
    /// `MalformedXML` for another document and for an empty list; the errors of reading documents.
    pub(super) fn read(context: &Context, call: &mut Call<'_>) -> Result<Self, S3Error> {
        let bytes = body::read_document_by_md5(context, call, PART_LIST_MAX_BYTES)?;
        Self::parse(&bytes)
    }

    fn parse(bytes: &[u8]) -> Result<Self, S3Error> {
        let document = body::parse(bytes, "CompleteMultipartUpload")?;
        let names = ChecksumAlgorithm::ALL.map(|algorithm| (algorithm, checksums::element(algorithm)));
        let parts = document.root().all("Part").map(|part| ListedPart::parse(part, &names));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        if parts.is_empty() || parts.len() > PART_NUMBER_MAX as usize {
            return Err(body::malformed_because("from 1 to 10000 parts make an object"));
        }
        Ok(Self(parts))
    }

    /// Selects the listed parts from `there`, which is ordered by number.
    ///
    /// # Errors
    /// In this order: `InvalidPartOrder`; `InvalidPart` for a missing part and for one with another
    /// tag or checksum; `EntityTooSmall`, `EntityTooLarge`.
    pub(super) fn choose(&self, there: Vec<PartRecord>) -> Result<Vec<PartRecord>, S3Error> {
        if !self.0.is_sorted_by(|a, b| a.number < b.number) {
            return Err(S3Error::new(ErrorCode::InvalidPartOrder));
        }
        let mut parts = Vec::with_capacity(there.len());
        let mut there = there.into_iter();
        for listed in &self.0 {
            parts.push(listed.find(&mut there)?);
        }
        check_sizes(&parts)?;
        Ok(parts)
    }

    /// Whether a part is listed with a checksum.
    pub(super) fn has_checksums(&self) -> bool {
        self.0.iter().any(|part| !part.checksums.is_empty())
    }

    /// Whether `version` is the result of completing an upload with this list.
    pub(super) fn made(&self, version: &VersionRecord) -> bool {
        let numbers = version.upload.iter().flat_map(|assembly| &assembly.parts).map(|part| part.number);
        self.etag() == Some(version.etag) && numbers.eq(self.0.iter().map(|listed| listed.number))
    }

    /// The entity tag of an object of these parts; `None` if a tag in the list is malformed.
    fn etag(&self) -> Option<ETag> {
        let md5s = self.0.iter().map(ListedPart::md5);
        md5s.collect::<Option<Vec<[u8; 16]>>>().map(|md5s| etag_of(&md5s))
    }
}

impl ListedPart {
    /// `names` are the elements with checksums.
    fn parse(part: Element<'_>, names: &[(ChecksumAlgorithm, String)]) -> Result<Self, S3Error> {
        let mut number = None;
        let mut tag = None;
        let mut checksums = Vec::new();
        for child in part.children() {
            let text = child.text();
            let text = text.trim();
            let again = match child.name() {
                "PartNumber" => number.replace(text.parse().ok()).is_some(),
                "ETag" => tag.replace(text.to_owned()).is_some(),
                name => names.iter().find(|(_, known)| known == name).is_some_and(|(algorithm, _)| {
                    let again = checksums.iter().any(|(known, _)| known == algorithm);
                    checksums.push((*algorithm, text.to_owned()));
                    again
                }),
            };
            if again {
                return Err(body::malformed_because(&format!("more than one {}", child.name())));
            }
        }
        match (number.flatten(), tag) {
            (Some(number), Some(tag)) => Ok(Self { number, tag, checksums }),
            _ => Err(body::malformed_because("every part has a PartNumber and an ETag")),
        }
    }

    /// Finds the part in `there`. Both are ordered by number; the parts skipped are not in the
    /// list.
    fn find(&self, there: &mut impl Iterator<Item = PartRecord>) -> Result<PartRecord, S3Error> {
        let found = there.find(|part| part.number >= self.number);
        found.filter(|part| part.number == self.number && self.is(part)).ok_or_else(|| {
            S3Error::new(ErrorCode::InvalidPart)
                .element("PartNumber", self.number.to_string())
                .element("ETag", self.tag.as_str())
        })
    }

    /// The digest in the tag; `None` for a tag that is not an MD5 in lower case.
    fn md5(&self) -> Option<[u8; 16]> {
        let tag = entity_tag::bare(&self.tag);
        from_hex(tag)?.try_into().ok().filter(|md5: &[u8; 16]| is_hex_of(tag, md5))
    }

    fn is(&self, part: &PartRecord) -> bool {
        let has_checksums = self.checksums.iter().all(|(algorithm, text)| {
            let own = part.checksum.as_ref().filter(|own| own.algorithm == *algorithm);
            own.is_some_and(|own| checksum::encode(&own.value) == *text)
        });
        has_checksums && is_hex_of(entity_tag::bare(&self.tag), &part.md5)
    }
}

/// Checks the sizes of the parts and of the object.
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
        let part = "<Part><PartNumber> 1\n</PartNumber><ETag>&quot;x&quot;</ETag><Other/><Other/><ChecksumCRC32/><ChecksumSHA1/></Part>";
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
            "<Part><PartNumber>1</PartNumber><ETag>x</ETag><ETag>x</ETag></Part>",
            "<Part><PartNumber>1</PartNumber><ETag>x</ETag><ChecksumCRC32/><ChecksumCRC32/></Part>",
            &part.repeat(10_001),
        ] {
            assert_eq!(parse(inner), Err(ErrorCode::MalformedXML), "{inner:.80}");
        }
    }
}
