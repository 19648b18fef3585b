//! The quota of a user in the users file.

use bytesize::ByteSize;
use serde::Deserialize;

use crate::auth::Users;
use crate::base::Quota;

/// A table `[user.quota]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QuotaTable {
    bytes: Option<SizeValue>,
    objects: Option<u64>,
    uploads: Option<u64>,
    index_bytes: Option<SizeValue>,
    buckets: Option<u64>,
}

/// A number of bytes, or a size with a unit.
#[derive(Deserialize)]
#[serde(untagged)]
enum SizeValue {
    Number(u64),
    Text(String),
}

impl QuotaTable {
    /// The quota of a user. The error describes the problem.
    pub(super) fn quota_of(&self, user: &str) -> Result<Quota, String> {
        let Self { objects, uploads, buckets, .. } = *self;
        if user == Users::ANONYMOUS {
            return Err(format!("the user `{user}` owns no buckets, so a quota has no effect"));
        }
        let bytes = self.bytes.as_ref().map(SizeValue::bytes).transpose()?;
        let index_bytes = self.index_bytes.as_ref().map(SizeValue::bytes).transpose()?;
        Ok(Quota { bytes, objects, uploads, index_bytes, buckets })
    }
}

impl SizeValue {
    fn bytes(&self) -> Result<u64, String> {
        match self {
            Self::Number(bytes) => Ok(*bytes),
            Self::Text(text) => match text.parse::<ByteSize>() {
                Ok(size) => Ok(size.as_u64()),
                Err(_) => Err(format!("`{text}` is not a size such as 500MiB or 10GiB")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(quota: &str) -> Result<Users, String> {
        let text = format!(
            "[[user]]\nname = \"ann\"\naccess_key = \"AK\"\nsecret_key = \"0123456789abcdef\"\n[user.quota]\n{quota}"
        );
        Users::parse(&text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_quota_has_the_limits_that_are_named() {
        let limited = users("bytes = \"10GiB\"\nbuckets = 3").unwrap();
        let quota = Quota { bytes: Some(10 << 30), buckets: Some(3), ..Quota::default() };
        assert_eq!(limited.quotas().get("ann"), Some(&quota));
        assert_eq!(limited.quotas().len(), 1);
        assert_eq!(users("bytes = 5").unwrap().quotas()["ann"].bytes, Some(5));
        assert_eq!(users("index_bytes = \"2MiB\"").unwrap().quotas()["ann"].index_bytes, Some(2 << 20));
    }

    #[test]
    fn wrong_quotas_are_refused_with_their_line() {
        for wrong in ["bytes = \"much\"", "bytes = -1", "objects = \"3\"", "keys = 3"] {
            let problem = users(wrong).unwrap_err();
            assert!(problem.starts_with("line "), "{wrong}: {problem}");
        }
        let anonymous = "[[user]]\nname = \"anonymous\"\nquota = { objects = 1 }";
        assert!(Users::parse(anonymous).unwrap_err().problem.contains("owns no buckets"));
    }
}
