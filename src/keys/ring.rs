//! The keys of one version of the file.
//!
//! ```toml
//! [[key]]
//! id = "20261126-4f6c9a2e51b03d77"
//! created = "2026-11-26T10:00:00.000Z"
//! secret = "q83vEjRWeJASNFZ4kKvN7xI0VniQq83vEjRWeJCrze8="
//!
//! [[key]]
//! id = "20261126-90c1e5b7a3d2f846"
//! created = "2026-11-26T10:05:00.000Z"
//! secret = "7xI0VniQq83vEjRWeJCrze/NqxI0VniQq83vEjRWeJA="
//! name = "invoices"
//!
//! [[key]]
//! id = "20250301-1b2c3d4e5f607182"
//! created = "2025-03-01T08:00:00.000Z"
//! secret = "EjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJCrze8="
//! retired = true
//! ```
//!
//! The newest key without a name that is not retired is the current one, under which new objects
//! are encrypted that name no key. A named key serves those that ask for it by name. Several keys
//! may have one name: the newest of them wraps, all of them open. A retired key wraps nothing new
//! but still opens.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use toml::Spanned;

use crate::base::{Timestamp, line_of};
use crate::crypto::MasterKey;

/// The longest id or name. Records keep the id.
const NAME_MAX_BYTES: usize = 64;
/// S3's name for the key that a service makes by itself.
const DEFAULT_ALIAS: &str = "aws/s3";

/// An error in a file of keys. It never quotes a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct KeyRingError {
    /// The line, counted from 1.
    pub line: usize,
    pub problem: String,
}

/// A key of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingKey {
    /// Names the key in records.
    pub id: String,
    pub created: Timestamp,
    /// The name by which clients ask for it.
    pub name: Option<String>,
    /// Whether it wraps nothing new.
    pub retired: bool,
    /// The key itself.
    pub secret: MasterKey,
}

impl RingKey {
    /// The name that clients see: its own, else its id.
    pub fn shown_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }
}

/// Why a key that a client names cannot encrypt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnusableKey {
    /// The ring has none of that name.
    Unknown,
    /// All keys of that name are retired.
    Retired,
}

/// The keys of one version of the file, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyRing {
    keys: Vec<RingKey>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RingToml {
    #[serde(default)]
    key: Vec<Spanned<KeyTable>>,
    /// The time of [`super::with_confirmed_copy`].
    #[serde(default)]
    copy_confirmed: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyTable {
    id: Spanned<String>,
    created: Spanned<String>,
    secret: Spanned<String>,
    name: Option<Spanned<String>>,
    #[serde(default)]
    retired: bool,
}

/// A problem, and its place in the text.
type WrongPlace = (Range<usize>, String);

impl KeyRing {
    /// Parses a file of keys.
    ///
    /// # Errors
    /// The first problem: malformed TOML, an unknown field, or an id, a time, a name or a secret
    /// that is malformed or repeated.
    pub fn parse(text: &str) -> Result<Self, KeyRingError> {
        let file: RingToml = toml::from_str(text).map_err(|error| KeyRingError {
            line: line_of(text, &error.span().unwrap_or_default()),
            // The parser quotes what it expected, and no value.
            problem: error.message().to_owned(),
        })?;
        let mut keys = Vec::with_capacity(file.key.len());
        for table in &file.key {
            let read = read_key(table.as_ref(), &keys);
            let key = read.map_err(|(at, problem)| KeyRingError { line: line_of(text, &at), problem })?;
            keys.push(key);
        }
        if let Some(time) = &file.copy_confirmed {
            read_time(time).map_err(|(at, problem)| KeyRingError { line: line_of(text, &at), problem })?;
        }
        // Of two keys of one time the later one in the file is the newer.
        keys.sort_by_key(|key| key.created);
        Ok(Self { keys })
    }

    /// The key for new objects that name none.
    pub fn current(&self) -> Option<&RingKey> {
        self.keys.iter().rev().find(|key| !key.retired && key.name.is_none())
    }

    /// The key of a record.
    pub fn by_id(&self, id: &str) -> Option<&RingKey> {
        self.keys.iter().find(|key| key.id == id)
    }

    /// The key for new objects that name one: by its name or its id, as `alias/NAME`, or by an ARN
    /// that ends so. The alias that S3 keeps for itself, `alias/aws/s3`, is the current key.
    ///
    /// # Errors
    /// There is no such key, or it is retired.
    pub fn named(&self, asked: &str) -> Result<&RingKey, UnusableKey> {
        let name = bare_name(asked);
        if Self::is_default_alias(asked) {
            return self.current().ok_or(UnusableKey::Unknown);
        }
        let newest_first = self.keys.iter().rev();
        let mut all =
            newest_first.filter(|key| key.id == name || key.name.as_deref() == Some(name)).peekable();
        if all.peek().is_none() {
            return Err(UnusableKey::Unknown);
        }
        all.find(|key| !key.retired).ok_or(UnusableKey::Retired)
    }

    /// Whether a client asks by the alias that S3 keeps for itself, as one that names no key.
    pub fn is_default_alias(asked: &str) -> bool {
        bare_name(asked) == DEFAULT_ALIAS
    }

    /// The time at which a copy with all keys was seen, as the text of a file notes it.
    pub fn confirmed_copy(text: &str) -> Option<Timestamp> {
        let file: RingToml = toml::from_str(text).ok()?;
        Timestamp::parse_iso8601(file.copy_confirmed?.as_ref())
    }

    /// The ring without a key.
    #[must_use]
    pub fn without(&self, id: &str) -> Self {
        Self { keys: self.keys.iter().filter(|key| key.id != id).cloned().collect() }
    }

    /// The ring with a key that it may have already.
    #[must_use]
    pub fn with(&self, key: RingKey) -> Self {
        let mut ring = self.without(&key.id);
        ring.keys.push(key);
        ring.keys.sort_by_key(|key| key.created);
        ring
    }

    /// All keys, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &RingKey> {
        self.keys.iter()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// The name in an alias or an ARN.
fn bare_name(asked: &str) -> &str {
    let resource = match asked.strip_prefix("arn:") {
        // arn:PARTITION:kms:REGION:ACCOUNT:RESOURCE
        Some(rest) => rest.splitn(5, ':').nth(4).unwrap_or_default(),
        None => asked,
    };
    let key = resource.strip_prefix("key/").filter(|_| resource.len() < asked.len());
    key.or_else(|| resource.strip_prefix("alias/")).unwrap_or(resource)
}

fn read_key(table: &KeyTable, before: &[RingKey]) -> Result<RingKey, WrongPlace> {
    let id = read_name("id", &table.id)?;
    let name = table.name.as_ref().map(|name| read_name("name", name)).transpose()?;
    if before.iter().any(|key| key.id == id) {
        return Err((table.id.span(), format!("there are two keys with the id `{id}`")));
    }
    if let Some(name) = &name
        && (before.iter().any(|key| key.id == *name) || *name == id)
    {
        let at = table.name.as_ref().map(Spanned::span).unwrap_or_default();
        return Err((at, format!("the name `{name}` is the id of a key")));
    }
    if before.iter().any(|key| key.name.as_ref() == Some(&id)) {
        return Err((table.id.span(), format!("the id `{id}` is the name of a key")));
    }
    let secret = BASE64.decode(table.secret.as_ref()).ok().and_then(|bytes| bytes.try_into().ok());
    let secret = secret
        .map(MasterKey::new)
        .ok_or_else(|| (table.secret.span(), format!("the secret of `{id}` is not base64 of 32 bytes")))?;
    if let Some(other) = before.iter().find(|key| key.secret == secret) {
        return Err((table.secret.span(), format!("`{}` and `{id}` have the same secret", other.id)));
    }
    Ok(RingKey { created: read_time(&table.created)?, id, name, retired: table.retired, secret })
}

fn read_name(field: &str, text: &Spanned<String>) -> Result<String, WrongPlace> {
    match is_name(text.as_ref()) {
        true => Ok(text.as_ref().clone()),
        false => Err((
            text.span(),
            format!("the {field} has 1 to {NAME_MAX_BYTES} letters, digits, `-`, `_` and `.`"),
        )),
    }
}

/// Whether `text` can be the id or the name of a key.
pub(super) fn is_name(text: &str) -> bool {
    (1..=NAME_MAX_BYTES).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn read_time(text: &Spanned<String>) -> Result<Timestamp, WrongPlace> {
    Timestamp::parse_iso8601(text.as_ref())
        .ok_or_else(|| (text.span(), "this is no time such as 2026-02-03T04:05:06.007Z".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(id: &str, day: u8, byte: u8, more: &str) -> String {
        let secret = BASE64.encode([byte; 32]);
        format!(
            "[[key]]\nid = \"{id}\"\ncreated = \"2026-01-{day:02}T00:00:00.000Z\"\nsecret = \"{secret}\"\n{more}\n"
        )
    }

    fn ring(tables: &[String]) -> KeyRing {
        KeyRing::parse(&tables.concat()).unwrap()
    }

    #[test]
    fn the_newest_key_without_a_name_that_is_not_retired_is_current() {
        let ring = ring(&[
            table("new", 3, 1, ""),
            table("old", 1, 2, ""),
            table("named", 4, 3, "name = \"invoices\""),
            table("gone", 5, 4, "retired = true"),
        ]);
        assert_eq!(ring.current().map(|key| key.id.as_str()), Some("new"));
        assert_eq!(
            ring.iter().map(|key| key.id.as_str()).collect::<Vec<_>>(),
            ["old", "new", "named", "gone"]
        );
        assert_eq!(ring.by_id("gone").map(|key| key.retired), Some(true), "a retired key opens");
        assert_eq!(KeyRing::default().current(), None);
        assert_eq!(KeyRing::parse(""), Ok(KeyRing::default()));
        let of_one_time = KeyRing::parse(&[table("a", 1, 1, ""), table("b", 1, 2, "")].concat()).unwrap();
        assert_eq!(of_one_time.current().map(|key| key.id.as_str()), Some("b"));
    }

    #[test]
    fn a_key_is_found_by_its_name_its_id_its_alias_and_its_arn() {
        let ring = ring(&[
            table("first", 1, 1, "name = \"invoices\""),
            table("second", 2, 2, "name = \"invoices\""),
            table("third", 3, 3, "name = \"invoices\"\nretired = true"),
            table("gone", 4, 4, "name = \"closed\"\nretired = true"),
            table("plain", 5, 5, ""),
        ]);
        let found = |asked: &str| ring.named(asked).map(|key| key.id.as_str());
        for asked in [
            "invoices",
            "second",
            "alias/invoices",
            "arn:aws:kms:eu:123456789012:alias/invoices",
            "arn:aws:kms:eu:123456789012:key/second",
        ] {
            assert_eq!(found(asked), Ok("second"), "{asked}");
        }
        assert_eq!(found("first"), Ok("first"));
        assert_eq!([found("alias/aws/s3"), found("plain")], [Ok("plain"), Ok("plain")]);
        assert_eq!([found("closed"), found("gone"), found("third")], [Err(UnusableKey::Retired); 3]);
        for asked in ["", "other", "key/second", "arn:", "arn:aws:kms:eu:1:key/", "INVOICES"] {
            assert_eq!(found(asked), Err(UnusableKey::Unknown), "{asked}");
        }
        assert_eq!(ring.by_id("second").unwrap().shown_name(), "invoices");
        assert_eq!(ring.by_id("plain").unwrap().shown_name(), "plain");
    }

    #[test]
    fn problems_name_their_line_and_quote_no_secret() {
        let good = table("a", 1, 1, "");
        let secret = BASE64.encode([1; 32]);
        for (text, line, told) in [
            ("[[ky]]\n".to_owned(), 1, "ky"),
            (good.replace("created", "made"), 3, "made"),
            (good.replace("id = \"a\"\n", ""), 1, "id"),
            (good.replace("\"a\"", "\"a b\""), 2, "letters"),
            (good.replace("\"a\"", "\"\""), 2, "letters"),
            (good.replace("2026-01-01", "yesterday"), 3, "time"),
            (good.replace(&secret, &secret[4..]), 4, "32 bytes"),
            (format!("{good}{}", table("a", 2, 2, "")), 7, "two keys"),
            (format!("{good}{}", table("b", 2, 1, "")), 9, "same secret"),
            (format!("{good}{}", table("b", 2, 2, "name = \"a\"")), 10, "id of a key"),
            (format!("{}{}", table("b", 2, 2, "name = \"a\""), good), 7, "name of a key"),
            (table("b", 2, 2, "name = \"b\""), 5, "id of a key"),
            (format!("copy_confirmed = \"soon\"\n{good}"), 1, "time"),
        ] {
            let KeyRingError { line: at, problem } = KeyRing::parse(&text).unwrap_err();
            assert!(at == line && problem.contains(told), "{text}: line {at}: {problem}");
            assert!(!problem.contains(&secret[4..40]), "{problem}");
        }
    }

    #[test]
    fn nothing_shows_a_secret() {
        let shown = format!("{:?}", ring(&[table("a", 1, 1, "")]));
        assert!(shown.contains("MasterKey") && !shown.contains(&BASE64.encode([1; 32])), "{shown}");
        assert!(!shown.contains("1, 1, 1"), "{shown}");
    }
}
