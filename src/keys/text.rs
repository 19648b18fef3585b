//! Edits of the text of a file of keys that preserve everything else, such as comments and order.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table};

use super::ring::is_name;
use super::{KeyRing, RingKey};
use crate::base::digest::to_hex;
use crate::base::{Entropy, Timestamp};
use crate::crypto::MasterKey;

/// The comment above the first key.
const ABOUT: &str = "\
# The keys of encrypted objects. Read again on SIGHUP. Without this file nothing that is encrypted can
# be read: keep a copy in another place.
";

/// Why a text cannot be edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyTextError {
    #[error("{0}")]
    Broken(String),
    #[error("a name has 1 to 64 letters, digits, `-`, `_` and `.`")]
    Name,
    #[error("there is no key `{0}`")]
    Unknown(String),
    #[error("`{0}` is not retired")]
    NotRetired(String),
    #[error("`{0}` is retired already")]
    Retired(String),
}

/// The difference of a copy of the ring from the ring.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RingComparison {
    /// The ids of keys that the copy lacks.
    pub missing: Vec<String>,
    /// The ids of keys that have another secret there.
    pub other: Vec<String>,
}

/// The text of a first file: one key without a name. `entropy` has to be the system's.
pub fn first_file(now: Timestamp, entropy: &dyn Entropy) -> String {
    let (text, _) = with_new_key("", None, now, entropy).expect("an empty text can be edited");
    format!("{ABOUT}\n{}", text.trim_start())
}

/// The text with a new key at its end, and the id of the key.
///
/// # Errors
/// The text is no file of keys, or `name` cannot be the name of a key.
pub fn with_new_key(
    text: &str,
    name: Option<&str>,
    now: Timestamp,
    entropy: &dyn Entropy,
) -> Result<(String, String), KeyTextError> {
    if name.is_some_and(|name| !is_name(name)) {
        return Err(KeyTextError::Name);
    }
    let mut random = [0; 8];
    entropy.fill(&mut random);
    let day: String = now.to_iso_basic().chars().take(8).collect();
    let id = format!("{day}-{}", to_hex(&random));
    let mut file = parsed(text)?;
    // The newest key is the current one, also where an earlier one was made by a clock that was
    // wrong.
    let newest = KeyRing::parse(text).ok().and_then(|ring| ring.iter().map(|key| key.created).max());
    let created = newest.map_or(now, |newest| newest.max(now));
    let mut key = Table::new();
    key["id"] = toml_edit::value(&id);
    key["created"] = toml_edit::value(created.to_iso8601());
    key["secret"] = toml_edit::value(BASE64.encode(MasterKey::generate(entropy).bytes()));
    if let Some(name) = name {
        key["name"] = toml_edit::value(name);
    }
    keys_of(&mut file)?.push(key);
    checked(&file).map(|text| (text, id))
}

/// The text in which the key `id` is retired.
///
/// # Errors
/// The text is no file of keys; there is no such key; it is retired already.
pub fn with_retired_key(text: &str, id: &str) -> Result<String, KeyTextError> {
    let mut file = parsed(text)?;
    let keys = keys_of(&mut file)?;
    let key = keys.iter_mut().find(|key| key.get("id").and_then(Item::as_str) == Some(id));
    let key = key.ok_or_else(|| KeyTextError::Unknown(id.to_owned()))?;
    if key.get("retired").and_then(Item::as_bool) == Some(true) {
        return Err(KeyTextError::Retired(id.to_owned()));
    }
    key["retired"] = toml_edit::value(true);
    checked(&file)
}

/// The text without the key `id`, which is retired.
///
/// # Errors
/// The text is no file of keys; there is no such key; it is not retired.
pub fn without_key(text: &str, id: &str) -> Result<String, KeyTextError> {
    let ring = KeyRing::parse(text).map_err(|error| KeyTextError::Broken(error.to_string()))?;
    let key = ring.by_id(id).ok_or_else(|| KeyTextError::Unknown(id.to_owned()))?;
    if !key.retired {
        return Err(KeyTextError::NotRetired(id.to_owned()));
    }
    let mut file = parsed(text)?;
    let keys = keys_of(&mut file)?;
    // The comment above the first key is about the file.
    let about = keys.get(0).and_then(|key| key.decor().prefix()).cloned();
    keys.retain(|key| key.get("id").and_then(Item::as_str) != Some(id));
    if let Some(about) = about
        && let Some(first) = keys.get_mut(0)
    {
        first.decor_mut().set_prefix(about);
    }
    checked(&file)
}

/// The text with a key of another text at its end, which wraps nothing new.
///
/// # Errors
/// The text is no file of keys, or has the key, its name or its secret in another place.
pub fn with_former_key(text: &str, former: &RingKey) -> Result<String, KeyTextError> {
    let mut file = parsed(text)?;
    let mut key = Table::new();
    key["id"] = toml_edit::value(&former.id);
    key["created"] = toml_edit::value(former.created.to_iso8601());
    key["secret"] = toml_edit::value(BASE64.encode(former.secret.bytes()));
    if let Some(name) = &former.name {
        key["name"] = toml_edit::value(name);
    }
    key["retired"] = toml_edit::value(true);
    keys_of(&mut file)?.push(key);
    checked(&file)
}

/// The text that notes that a copy with all its keys was seen at that time.
///
/// # Errors
/// The text is no file of keys.
pub fn with_confirmed_copy(text: &str, now: Timestamp) -> Result<String, KeyTextError> {
    let mut file = parsed(text)?;
    file["copy_confirmed"] = toml_edit::value(now.to_iso8601());
    checked(&file)
}

/// Compares a copy with the ring.
pub fn compared(ring: &KeyRing, copy: &KeyRing) -> RingComparison {
    let mut found = RingComparison::default();
    for key in ring.iter() {
        match copy.by_id(&key.id) {
            None => found.missing.push(key.id.clone()),
            Some(copied) if copied.secret != key.secret => found.other.push(key.id.clone()),
            Some(_) => {}
        }
    }
    found
}

fn parsed(text: &str) -> Result<DocumentMut, KeyTextError> {
    KeyRing::parse(text).map_err(|error| KeyTextError::Broken(error.to_string()))?;
    text.parse().map_err(|error: toml_edit::TomlError| KeyTextError::Broken(error.message().to_owned()))
}

fn keys_of(file: &mut DocumentMut) -> Result<&mut ArrayOfTables, KeyTextError> {
    let keys = file.entry("key").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    let form = "only keys in the form [[key]] can be edited by commands";
    keys.as_array_of_tables_mut().ok_or_else(|| KeyTextError::Broken(form.to_owned()))
}

fn checked(file: &DocumentMut) -> Result<String, KeyTextError> {
    let text = file.to_string();
    parsed(&text).map(|_| text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeededEntropy;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_millis(secs * 1000)
    }

    #[test]
    fn a_first_file_has_one_key_and_is_explained() {
        let text = first_file(at(1), &SeededEntropy::new(1));
        let ring = KeyRing::parse(&text).unwrap();
        let key = ring.current().unwrap();
        assert!(text.starts_with("# The keys of encrypted objects."), "{text}");
        assert_eq!((ring.iter().count(), key.created, key.name.as_deref()), (1, at(1), None));
        assert!(key.id.starts_with("19700101-") && key.id.len() == 25, "{}", key.id);
        let other = KeyRing::parse(&first_file(at(1), &SeededEntropy::new(2))).unwrap();
        assert_ne!(other.current().unwrap().secret, key.secret);
    }

    #[test]
    fn keys_are_added_and_retired_and_the_rest_stays() {
        let first = first_file(at(1), &SeededEntropy::new(1)) + "# The end.\n";
        let (text, id) = with_new_key(&first, Some("invoices"), at(2), &SeededEntropy::new(2)).unwrap();
        let ring = KeyRing::parse(&text).unwrap();
        assert_eq!(ring.named("invoices").unwrap().id, id);
        assert_eq!(ring.iter().count(), 2);
        assert!(
            text.starts_with(first.trim_end_matches("# The end.\n")) && text.contains("# The end."),
            "{text}"
        );

        let retired = with_retired_key(&text, &id).unwrap();
        assert!(KeyRing::parse(&retired).unwrap().by_id(&id).unwrap().retired);
        assert_eq!(retired.replace("retired = true\n", ""), text);
        assert_eq!(with_retired_key(&retired, &id), Err(KeyTextError::Retired(id.clone())));
        assert_eq!(with_retired_key(&text, "none"), Err(KeyTextError::Unknown("none".to_owned())));

        assert_eq!(without_key(&text, &id), Err(KeyTextError::NotRetired(id.clone())));
        let without = without_key(&retired, &id).unwrap();
        assert!(!without.contains(&id) && without.contains("# The end."), "{without}");
        assert_eq!(KeyRing::parse(&without), KeyRing::parse(&first));
        assert_eq!(without_key(&without, &id), Err(KeyTextError::Unknown(id.clone())));

        let confirmed = with_confirmed_copy(&retired, at(3)).unwrap();
        let confirmed = with_confirmed_copy(&confirmed, at(4)).unwrap();
        assert_eq!(confirmed.matches("copy_confirmed").count(), 1);
        assert_eq!(KeyRing::parse(&confirmed), KeyRing::parse(&retired));
        assert_eq!(KeyRing::confirmed_copy(&confirmed).map(Timestamp::as_millis), Some(4000), "{confirmed}");
    }

    #[test]
    fn what_is_no_file_of_keys_is_not_edited() {
        let entropy = SeededEntropy::new(1);
        for broken in ["[[key]]\n", "x = 1\n", "key = [{}]\n", "key = 1\n"] {
            assert!(
                matches!(with_new_key(broken, None, at(1), &entropy), Err(KeyTextError::Broken(_))),
                "{broken}"
            );
        }
        for name in ["", "a b", "ä", &"a".repeat(65)] {
            assert_eq!(with_new_key("", Some(name), at(1), &entropy), Err(KeyTextError::Name), "{name}");
        }
    }

    #[test]
    fn a_new_key_is_the_current_one_also_after_one_of_a_clock_that_was_ahead() {
        let ahead = first_file(at(9), &SeededEntropy::new(1));
        let (both, id) = with_new_key(&ahead, None, at(2), &SeededEntropy::new(2)).unwrap();
        assert_eq!(KeyRing::parse(&both).unwrap().current().unwrap().id, id);
    }

    #[test]
    fn a_copy_lacks_keys_or_has_others() {
        let first = first_file(at(1), &SeededEntropy::new(1));
        let (both, id) = with_new_key(&first, None, at(2), &SeededEntropy::new(2)).unwrap();
        let [first, both] = [first, both].map(|text| KeyRing::parse(&text).unwrap());
        assert_eq!(compared(&first, &both), RingComparison::default(), "more keys do no harm");
        assert_eq!(compared(&both, &first), RingComparison { missing: vec![id], other: vec![] });
        let other = first_file(at(1), &SeededEntropy::new(3));
        let own = &first.current().unwrap().id;
        let renamed = KeyRing::parse(&other).unwrap().current().unwrap().id.clone();
        let other = KeyRing::parse(&other.replace(&renamed, own)).unwrap();
        assert_eq!(compared(&first, &other), RingComparison { missing: vec![], other: vec![own.clone()] });
    }
}
