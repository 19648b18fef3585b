//! GetObjectAttributes: the metadata of an object as a document.

use super::access::{self, Place};
use super::encryption::{OpenedVersion, OtherKinds, ReadKey};
use super::{Context, checksums, encryption, get, lookup, version_id};
use crate::auth::{Action, Authorized};
use crate::base::entity_tag;
use crate::base::limits::PAGE_LEN_MAX;
use crate::s3::render::xml;
use crate::s3::{Call, Response, S3Error};
use crate::store::{AssembledPart, VersionRecord};
use crate::xml::Writer;

/// GetObjectAttributes. It takes the permission to read the object, too (S3 API reference,
/// GetObjectAttributes, "Permissions").
pub(super) fn get(context: &Context, proof: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let requested = RequestedAttributes::from_headers(call)?;
    let parts = RequestedParts::from_headers(call)?;
    let found = lookup::target(context, proof, call)?;
    let key = ReadKey::of_target(call, OtherKinds::Refused)?;
    let version = &found.version;
    let place = Place::target(call).found(version);
    let action = if place.names_version() { Action::GetObjectVersion } else { Action::GetObject };
    access::check(context, proof, call, action, place)?;
    let own = key.open(context, call, version)?;
    let opened = OpenedVersion::open(context, version, &own, call)?;
    let shown = key.shown(context, encryption::key_of(version));
    let checked = get::check_conditions(version, &version.etag.to_string(), call);
    checked.map_err(|error| encryption::add_to_not_modified(shown.as_ref(), error))?;
    let mut document = context.document("GetObjectAttributesResponse");
    requested.write(&mut document, &opened, &parts);
    let response = xml(200, document).header("Last-Modified", version.last_modified().to_http_date());
    let response = encryption::add_headers(shown.as_ref(), response);
    Ok(version_id::add_version_id(context, response, &found))
}

/// The requested attributes.
#[derive(Default)]
struct RequestedAttributes {
    etag: bool,
    checksum: bool,
    parts: bool,
    storage_class: bool,
    size: bool,
}

impl RequestedAttributes {
    /// Reads the lines `p-object-attributes`, each a list.
    fn from_headers(call: &Call<'_>) -> Result<Self, S3Error> {
        let mut requested = Self::default();
        let mut any = false;
        for line in call.vendor().get_all("object-attributes") {
            let line = String::from_utf8_lossy(line);
            for name in line.split(',').map(str::trim) {
                *requested.flag(name).ok_or_else(|| unknown(call, name))? = true;
                any = true;
            }
        }
        if any { Ok(requested) } else { Err(unknown(call, "")) }
    }

    fn flag(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "ETag" => Some(&mut self.etag),
            "Checksum" => Some(&mut self.checksum),
            "ObjectParts" => Some(&mut self.parts),
            "StorageClass" => Some(&mut self.storage_class),
            "ObjectSize" => Some(&mut self.size),
            _ => None,
        }
    }

    fn write(&self, document: &mut Writer, version: &VersionRecord, parts: &RequestedParts) {
        if self.etag {
            // Unlike elsewhere, the tag has no quotes (S3 API reference, GetObjectAttributes,
            // "Examples").
            document.leaf("ETag", entity_tag::bare(&version.etag.to_string()));
        }
        if self.checksum && !version.checksums.is_empty() {
            document.element("Checksum", |element| checksums::write_bare(element, &version.checksums));
        }
        if let Some(assembly) = version.upload.as_ref().filter(|_| self.parts) {
            let listed = !version.checksums.is_empty();
            document.element("ObjectParts", |element| parts.write(element, &assembly.parts, listed));
        }
        if self.storage_class {
            document.plain("StorageClass", version.storage_class.as_str());
        }
        if self.size {
            document.plain("ObjectSize", version.size);
        }
    }
}

fn unknown(call: &Call<'_>, name: &str) -> S3Error {
    let header = format!("{}object-attributes", call.dialect.header_prefix());
    S3Error::invalid_argument(&header, name, "Invalid attribute name specified.")
}

/// The requested page of parts.
struct RequestedParts {
    after: u32,
    limit: usize,
}

impl RequestedParts {
    fn from_headers(call: &Call<'_>) -> Result<Self, S3Error> {
        let limit = number(call, "max-parts")?.map_or(PAGE_LEN_MAX, |limit| limit as usize);
        let after = number(call, "part-number-marker")?.unwrap_or(0);
        Ok(Self { after, limit: limit.min(PAGE_LEN_MAX) })
    }

    /// Writes the number of parts, and the parts themselves if the object has checksums (S3 API
    /// reference, GetObjectAttributes, "Parts").
    fn write(&self, element: &mut Writer, parts: &[AssembledPart], listed: bool) {
        element.plain("PartsCount", parts.len());
        if !listed {
            return;
        }
        let later = parts.iter().filter(|part| part.number > self.after);
        let page: Vec<_> = later.clone().take(self.limit).collect();
        element.plain("PartNumberMarker", self.after);
        element.plain("NextPartNumberMarker", page.last().map_or(self.after, |part| part.number));
        element.plain("MaxParts", self.limit);
        element.plain("IsTruncated", self.limit > 0 && later.count() > page.len());
        for part in page {
            element.element("Part", |entry| {
                entry.plain("PartNumber", part.number);
                entry.plain("Size", part.size);
                if let Some(checksum) = &part.checksum {
                    checksums::write_value(entry, checksum);
                }
            });
        }
    }
}

/// The number in a vendor header.
fn number(call: &Call<'_>, suffix: &str) -> Result<Option<u32>, S3Error> {
    let Some(value) = call.vendor().get(suffix) else { return Ok(None) };
    let text = String::from_utf8_lossy(value);
    let number = text.parse().ok().filter(|number| *number <= i32::MAX as u32);
    number.map(Some).ok_or_else(|| {
        let header = format!("{}{suffix}", call.dialect.header_prefix());
        S3Error::invalid_argument(&header, &text, "The value must be a number that is not negative.")
    })
}
