//! JSON in which a name appears once: a second `Effect` that silently wins would make a policy say
//! something that its author does not see.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A JSON value without duplicate names.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::auth) enum StrictJson {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as text.
    Number(String),
    Text(String),
    /// An array.
    List(Vec<StrictJson>),
    /// An object, in the order of its text.
    Object(Vec<(String, StrictJson)>),
}

impl StrictJson {
    /// Parses a document.
    ///
    /// # Errors
    /// The first error with its line and column; a name that appears twice is one.
    pub(in crate::auth) fn parse(text: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(text).map_err(|error| error.to_string())
    }

    /// The text of a string, a number or a Boolean, as IAM compares them.
    pub(in crate::auth) fn scalar(&self) -> Option<String> {
        match self {
            Self::Text(text) | Self::Number(text) => Some(text.clone()),
            Self::Bool(value) => Some(value.to_string()),
            Self::Null | Self::List(_) | Self::Object(_) => None,
        }
    }

    /// The elements of a list; a value that is no list counts as a list of one.
    pub(super) fn elements(&self) -> &[Self] {
        match self {
            Self::List(elements) => elements,
            single => std::slice::from_ref(single),
        }
    }
}

/// The members of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct StrictMembers<'j>(&'j [(String, StrictJson)]);

impl<'j> StrictMembers<'j> {
    /// The members of `json`, which must be an object with no other names than these. `subject`
    /// names it in errors.
    ///
    /// # Errors
    /// It is no object, or has another name; the text says which.
    pub(super) fn of(json: &'j StrictJson, subject: &str, known: &[&str]) -> Result<Self, String> {
        let StrictJson::Object(members) = json else {
            return Err(format!("{subject} must be an object"));
        };
        match members.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some((name, _)) => Err(format!("the element `{name}` is not supported")),
            None => Ok(Self(members)),
        }
    }

    /// The value of a member.
    pub(super) fn get(self, wanted: &str) -> Option<&'j StrictJson> {
        self.0.iter().find(|(name, _)| name == wanted).map(|(_, value)| value)
    }

    /// The value of a member that must be there.
    ///
    /// # Errors
    /// It is missing; the text names it.
    pub(super) fn required(self, wanted: &str) -> Result<&'j StrictJson, String> {
        self.get(wanted).ok_or_else(|| format!("the element `{wanted}` is missing"))
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = StrictJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<StrictJson, E> {
        Ok(StrictJson::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<StrictJson, E> {
        Ok(StrictJson::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<StrictJson, E> {
        Ok(StrictJson::Number(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<StrictJson, E> {
        Ok(StrictJson::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<StrictJson, E> {
        Ok(StrictJson::Number(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<StrictJson, E> {
        Ok(StrictJson::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<StrictJson, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element()? {
            elements.push(element);
        }
        Ok(StrictJson::List(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StrictJson, A::Error> {
        let mut members: Vec<(String, StrictJson)> = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, _>()? {
            if members.iter().any(|(other, _)| *other == name) {
                return Err(A::Error::custom(format!("{name:?} appears twice")));
            }
            members.push((name, value));
        }
        Ok(StrictJson::Object(members))
    }
}

impl<'de> Deserialize<'de> for StrictJson {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(StrictVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_appears_twice_is_refused_at_any_depth() {
        let error = StrictJson::parse(br#"{"a": [{"b": 1, "c": 2, "b": 3}]}"#).unwrap_err();
        assert!(error.starts_with("\"b\" appears twice at line 1"), "{error}");
    }

    #[test]
    fn values_keep_their_order_and_scalars_their_text() {
        let parsed = StrictJson::parse(br#"{"z": [1, true, "x", null], "a": 2.5}"#).unwrap();
        let StrictJson::Object(members) = &parsed else { panic!("{parsed:?}") };
        assert_eq!(members.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["z", "a"]);
        let scalars: Vec<_> = members[0].1.elements().iter().map(StrictJson::scalar).collect();
        assert_eq!(scalars, [Some("1".into()), Some("true".into()), Some("x".into()), None]);
        assert_eq!(members[1].1.elements()[0].scalar().as_deref(), Some("2.5"));
    }

    #[test]
    fn deep_nesting_is_refused_and_never_overflows_the_stack() {
        let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
        assert!(StrictJson::parse(&deep).unwrap_err().contains("recursion limit"));
    }
}
