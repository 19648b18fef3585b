//! The limits of a quota as the fields of a form.

use serde_json::{Map, Value};

use super::s3_client::Refusal;
use super::seen;
use crate::s3::QueryParams;

/// The fields; empty for no limit.
pub(super) struct QuotaFields {
    pub(super) bytes: String,
    pub(super) objects: String,
    pub(super) uploads: String,
    pub(super) index_bytes: String,
    /// Of users alone.
    pub(super) buckets: String,
    /// What the form shows, as its hidden field has it.
    pub(super) shown: String,
}

impl QuotaFields {
    /// The fields of a quota as S3 tells it.
    pub(super) fn of(quota: &Value) -> Self {
        let field = |name: &str| quota[name].as_u64().map(|limit| limit.to_string()).unwrap_or_default();
        Self {
            bytes: field("bytes"),
            objects: field("objects"),
            uploads: field("uploads"),
            index_bytes: field("index_bytes"),
            buckets: field("buckets"),
            shown: seen::digest(&quota.to_string()),
        }
    }
}

/// The quota of a form, as S3 takes it.
///
/// # Errors
/// A field has no number, or no size.
pub(super) fn read(fields: &QueryParams) -> Result<String, Refusal> {
    let mut quota = Map::new();
    let given = |name| fields.get(name).map(str::trim).filter(|text| !text.is_empty());
    for name in ["bytes", "index_bytes"] {
        if let Some(size) = given(name) {
            let size = size
                .parse::<bytesize::ByteSize>()
                .map_err(|_| Refusal::new(400, "A size is written as 10GiB."))?;
            quota.insert(name.to_owned(), size.as_u64().into());
        }
    }
    for name in ["objects", "uploads", "buckets"] {
        if let Some(count) = given(name) {
            let count = count.parse::<u64>().map_err(|_| {
                Refusal::new(400, "A number of objects, uploads or buckets has digits alone.")
            })?;
            quota.insert(name.to_owned(), count.into());
        }
    }
    Ok(Value::Object(quota).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_quota_give_it_back() {
        let quota = r#"{"buckets":3,"bytes":1099511627776,"objects":10,"uploads":0}"#;
        let quota: Value = serde_json::from_str(quota).unwrap();
        let fields = QuotaFields::of(&quota);
        assert_eq!((fields.bytes.as_str(), fields.index_bytes.as_str()), ("1099511627776", ""));
        let sent = format!(
            "bytes={}&objects={}&uploads={}&index_bytes=&buckets={}",
            fields.bytes, fields.objects, fields.uploads, fields.buckets
        );
        let sent = read(&QueryParams::parse(&sent).unwrap()).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&sent).unwrap(), quota);
        let sizes = read(&QueryParams::parse("bytes=+1TiB+&index_bytes=1KiB").unwrap()).unwrap();
        assert_eq!(sizes, r#"{"bytes":1099511627776,"index_bytes":1024}"#);
        assert_eq!(read(&QueryParams::parse("").unwrap()).unwrap(), "{}");
        for wrong in ["bytes=much", "objects=1KiB", "uploads=-1", "buckets=x"] {
            assert_eq!(read(&QueryParams::parse(wrong).unwrap()).unwrap_err().status, 400, "{wrong}");
        }
    }
}
