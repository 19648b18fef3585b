//! Forms of browsers that upload a file: `multipart/form-data` (RFC 7578), with fields in place of
//! headers (S3 API reference, "POST Object"). Everything before the file is read at once, within a
//! limit; the file is the body of the request from then on.

mod file;
mod multipart;
mod parameters;

pub use file::SizeLimitedBody;

use file::FileBody;
use multipart::{MultipartReader, PartHead};

use crate::base::limits::{FORM_BOUNDARY_MAX_BYTES, FORM_FIELDS_MAX_BYTES};
use crate::s3::tags::TagHolder;
use crate::s3::{Body, Dialect, ErrorCode, Headers, ObjectKey, Request, S3Error, encryption, hoisted, tags};
use crate::xml::{Document, XmlError, tree_bytes_max};

/// The name of the field with the file. Fields after it are ignored.
const FILE: &str = "file";
/// The variable in a field that stands for the name of the file.
const FILE_NAME_VARIABLE: &str = "${filename}";
/// The most memory of the parsed tags, which are XML: ten tags take a tenth of it.
const TAGS_TREE_MAX_BYTES: u64 = 64 * 1024;
/// The headers of a request that are not of its object. All others are fields.
const KEPT_HEADERS: [&str; 4] = ["host", "origin", "referer", "user-agent"];
/// Fields that become the standard header of their name.
const STANDARD_FIELDS: [&str; 7] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-md5",
    "content-type",
    "expires",
];
/// Vendor fields that belong to the signature.
const OF_THE_SIGNATURE: [&str; 5] = ["algorithm", "credential", "date", "security-token", "signature"];

/// The fields of a form, in the order in which they were sent. Names are case-insensitive; a
/// repeated `p-meta-` field is one list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PostForm {
    fields: Vec<(String, String)>,
}

impl PostForm {
    /// A form with these fields.
    pub fn of(fields: &[(&str, &str)]) -> Self {
        Self {
            fields: fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        }
    }

    /// Reads the form of `request` up to its file, which becomes the body of the request. The body
    /// has no announced length, since fields may follow the file.
    ///
    /// # Errors
    /// - `PreconditionFailed` for another media type, `MissingContentLength` for a request without
    ///   a body;
    /// - `MalformedPOSTRequest` for a malformed form; `MaxPostPreDataLengthExceeded`;
    /// - `InvalidArgument` for a form without a file, and for a repeated field;
    /// - errors of reading. Errors in the file, and after it, appear when it is read.
    pub fn open(request: &mut Request<'_>) -> Result<Self, S3Error> {
        let boundary = boundary(&request.headers)?;
        if request.body.content_length.is_none() && !request.body.chunked {
            return Err(S3Error::new(ErrorCode::MissingContentLength));
        }
        let plain = std::mem::replace(&mut request.body, Body::none());
        let mut reader = MultipartReader::new(plain.reader, &boundary);
        let (mut form, file) = Self::read(&mut reader)?;
        if let Some(name) = &file.file_name {
            form.expand(name)?;
        }
        let reader = Box::new(FileBody::new(reader));
        request.body = Body { content_length: None, chunked: true, reader };
        Ok(form)
    }

    fn read(reader: &mut MultipartReader<'_>) -> Result<(Self, PartHead), S3Error> {
        let mut form = Self::default();
        let mut budget = FORM_FIELDS_MAX_BYTES;
        reader.skip_preamble(&mut budget).map_err(fields_error)?;
        while let Some(head) = reader.next_part(&mut budget).map_err(fields_error)? {
            if head.name.eq_ignore_ascii_case(FILE) {
                return Ok((form, head));
            }
            let value = reader.value(&mut budget).map_err(fields_error)?;
            form.push(head.name, value)?;
        }
        Err(wrong_number_of_files(0))
    }

    fn push(&mut self, name: String, value: String) -> Result<(), S3Error> {
        let Some((_, list)) = self.fields.iter_mut().find(|(other, _)| other.eq_ignore_ascii_case(&name))
        else {
            self.fields.push((name, value));
            return Ok(());
        };
        let is_list = Dialect::ALL.into_iter().any(|dialect| {
            strip(&name, dialect.header_prefix()).is_some_and(|name| strip(name, "meta-").is_some())
        });
        if !is_list {
            let shown = if encryption::is_secret(&name) { encryption::HIDDEN } else { &value };
            return Err(S3Error::invalid_argument(&name, shown, "A field of the form appears twice."));
        }
        list.push(',');
        list.push_str(&value);
        Ok(())
    }

    /// Replaces the variable in all fields by the last component of `path`, which some browsers
    /// send whole.
    fn expand(&mut self, path: &str) -> Result<(), S3Error> {
        let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
        let mut size = 0;
        for (_, value) in &mut self.fields {
            size += value.len() + value.matches(FILE_NAME_VARIABLE).count() * name.len();
            if size > FORM_FIELDS_MAX_BYTES {
                return Err(fields_too_long());
            }
            if value.contains(FILE_NAME_VARIABLE) {
                *value = value.replace(FILE_NAME_VARIABLE, name);
            }
        }
        Ok(())
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// All fields before the file, by the names with which they were sent.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The key of the new object.
    ///
    /// # Errors
    /// `InvalidArgument` without one; `KeyTooLongError`.
    pub fn key(&self) -> Result<ObjectKey, S3Error> {
        match self.get("key") {
            None => Err(missing_field("key")),
            Some("") => {
                let message = "User key must have a length greater than 0.";
                Err(S3Error::invalid_argument("key", "", message))
            }
            Some(key) => ObjectKey::new(key.to_owned()),
        }
    }

    /// Replaces the headers of a request by its object's: the fields. Host, origin, referrer
    /// and user agent stay, and the expected owner of the bucket. Must follow the verification of
    /// the form.
    ///
    /// # Errors
    /// `InvalidArgument` for a field that no header can have; `MalformedXML` and the others of
    /// [`tags::parse`] for the field `tagging`.
    pub fn restore_headers(&self, headers: &mut Headers, dialect: Dialect) -> Result<(), S3Error> {
        let mut restored = Headers::default();
        let owner = format!("{}expected-bucket-owner", dialect.header_prefix());
        for (name, value) in headers.iter().filter(|(name, _)| KEPT_HEADERS.contains(name) || *name == owner)
        {
            restored.push(name, value);
        }
        for (name, value) in self.iter() {
            let Some((header, value)) = header_of(name, value, dialect)? else { continue };
            hoisted::check_header(&header, &value)?;
            restored.push(&header, value.as_bytes());
        }
        *headers = restored;
        Ok(())
    }
}

/// The header that a field stands for, if it stands for one.
fn header_of(name: &str, value: &str, dialect: Dialect) -> Result<Option<(String, String)>, S3Error> {
    let name = name.to_ascii_lowercase();
    let prefix = dialect.header_prefix();
    let header = match name.as_str() {
        "acl" => format!("{prefix}acl"),
        "tagging" => return Ok(Some((format!("{prefix}tagging"), tags_of(value)?))),
        standard if STANDARD_FIELDS.contains(&standard) => name,
        _ => match name.strip_prefix(prefix) {
            Some(suffix) if !OF_THE_SIGNATURE.contains(&suffix) => name,
            _ => return Ok(None),
        },
    };
    Ok(Some((header, value.to_owned())))
}

/// The document of the field `tagging` in the form of the header.
fn tags_of(document: &str) -> Result<String, S3Error> {
    let tree = tree_bytes_max(document.as_bytes()).map_err(|error| malformed_xml(&error))?;
    if tree > TAGS_TREE_MAX_BYTES {
        return Err(S3Error::malformed_xml("too many elements"));
    }
    let parsed = Document::parse(document.as_bytes()).map_err(|error| malformed_xml(&error))?;
    match parsed.root().name() {
        tags::ROOT => Ok(tags::to_header(&tags::parse(parsed.root(), TagHolder::Object)?)),
        other => Err(S3Error::malformed_xml(&format!("the root is {other}, not {}", tags::ROOT))),
    }
}

fn malformed_xml(error: &XmlError) -> S3Error {
    S3Error::malformed_xml(&error.to_string())
}

/// The boundary in the media type of a request (RFC 2046, section 5.1.1).
fn boundary(headers: &Headers) -> Result<String, S3Error> {
    let mut types = headers.get_all("content-type");
    let (Some(media_type), None) = (types.next(), types.next()) else { return Err(other_type()) };
    let media_type = std::str::from_utf8(media_type).map_err(|_| other_type())?;
    let kind = media_type.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("multipart/form-data") {
        return Err(other_type());
    }
    let boundary = parameters::get(media_type, "boundary").filter(|boundary| is_boundary(boundary));
    boundary.ok_or_else(malformed)
}

fn other_type() -> S3Error {
    let condition = "Bucket POST must be of the enclosure-type multipart/form-data";
    S3Error::new(ErrorCode::PreconditionFailed).element("Condition", condition)
}

fn is_boundary(text: &str) -> bool {
    (1..=FORM_BOUNDARY_MAX_BYTES).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&b))
        && !text.ends_with(' ')
}

/// `name` without `prefix`, whatever its case.
fn strip<'n>(name: &'n str, prefix: &str) -> Option<&'n str> {
    let start = name.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| &name[prefix.len()..])
}

/// The error for a form without a field that it needs before the file.
pub fn missing_field(name: &str) -> S3Error {
    let message = format!(
        "Bucket POST must contain a field named '{name}'.  If it is specified, please check the order of the fields."
    );
    S3Error::invalid_argument(name, "", message)
}

/// The error for a form with `count` files.
fn wrong_number_of_files(count: usize) -> S3Error {
    let message = "POST requires exactly one file upload per request.";
    S3Error::invalid_argument(FILE, &count.to_string(), message)
}

fn malformed() -> S3Error {
    S3Error::new(ErrorCode::MalformedPOSTRequest)
}

fn fields_too_long() -> S3Error {
    S3Error::new(ErrorCode::MaxPostPreDataLengthExceeded)
        .element("MaxPostPreDataLengthBytes", FORM_FIELDS_MAX_BYTES.to_string())
}

/// An error before the file.
fn fields_error(error: multipart::PartError) -> S3Error {
    match error {
        multipart::PartError::TooLong => fields_too_long(),
        multipart::PartError::Malformed => malformed(),
        multipart::PartError::Body(error) => error,
    }
}

#[cfg(test)]
mod tests;
