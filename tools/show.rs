//! Records as text or as JSON, from one description.

use std::io::{self, Write};

use serde_json::{Map, Value};
use siltstone::offline::verify::{NamedOwner, RecordRef};
use siltstone::store::Damage;

/// Writes `value` as one line of JSON.
pub(crate) fn json(out: &mut dyn Write, value: &Value) -> io::Result<()> {
    writeln!(out, "{value}")
}

/// A place of damage.
pub(crate) fn damage(damage: &Damage) -> Value {
    let Damage { file, offset, what } = damage;
    serde_json::json!({ "file": file, "offset": offset, "what": what })
}

/// Adds the owner to a description.
pub(crate) fn owner(owner: &NamedOwner, described: &mut Value) {
    described["bucket"] = owner.bucket.as_str().into();
    described["key"] = owner.key.as_str().into();
    match owner.record {
        RecordRef::Version { null, .. } => {
            described["version"] = owner.id.to_string().into();
            described["null"] = null.into();
        }
        RecordRef::Part { number, .. } => {
            described["upload"] = owner.id.to_string().into();
            described["part"] = number.into();
        }
    }
}

/// Writes `value` under a name: simple fields on one line, the others below, indented.
pub(crate) fn text(out: &mut dyn Write, indent: usize, name: &str, value: &Value) -> io::Result<()> {
    match value {
        Value::Object(fields) => {
            writeln!(out, "{:indent$}{name}: {}", "", simple_fields(fields))?;
            fields.iter().try_for_each(|(name, value)| nested(out, indent + 2, name, value))
        }
        simple => writeln!(out, "{:indent$}{name}: {}", "", word(simple).unwrap_or_default()),
    }
}

fn simple_fields(fields: &Map<String, Value>) -> String {
    let simple = fields.iter().filter_map(|(name, value)| Some(format!("{} {}", plain(name), word(value)?)));
    simple.collect::<Vec<_>>().join(", ")
}

fn nested(out: &mut dyn Write, indent: usize, name: &str, value: &Value) -> io::Result<()> {
    match value {
        Value::Object(fields) if !fields.is_empty() => text(out, indent, name, value),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(at, item)| text(out, indent, &format!("{name} {at}"), item)),
        _ => Ok(()),
    }
}

/// A simple value as text; `None` for null, arrays and objects.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(plain(text)),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(if *flag { "yes" } else { "no" }.into()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Unambiguous text, quoted if needed: a key may hold any character, also control characters of
/// terminals.
fn plain(text: &str) -> String {
    let is_harmless = text.chars().all(|c| c.is_alphanumeric() || "-_./ +:;@()".contains(c));
    let hides_end = text.starts_with(' ') || text.ends_with(' ') || text.is_empty();
    if is_harmless && !hides_end { text.to_owned() } else { format!("{text:?}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(value: &Value) -> String {
        let mut out = Vec::new();
        text(&mut out, 0, "record", value).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn simple_fields_stand_on_one_line_and_others_below() {
        let value = json!({
            "size": 3, "null": true, "none": null, "key": "a/b c", "empty": {}, "nothing": [],
            "pack": {"len": 5}, "extents": [{"offset": 64}, {"offset": 128}],
        });
        let expected = "record: size 3, null yes, key a/b c\n  pack: len 5\n  extents 0: offset 64\n  extents 1: offset 128\n";
        assert_eq!(shown(&value), expected);
    }

    #[test]
    fn what_a_terminal_would_obey_is_quoted() {
        let value = json!({ "key": "a\u{1b}[2Jb", "other": "", "edge": " x", "quote": "a\"b, c 5" });
        let expected = "record: key \"a\\u{1b}[2Jb\", other \"\", edge \" x\", quote \"a\\\"b, c 5\"\n";
        assert_eq!(shown(&value), expected);
    }
}
