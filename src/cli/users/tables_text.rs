//! Edits of arrays of tables in the text of a users file, which preserve everything else.

use siltstone::base::Timestamp;
use toml_edit::{ArrayOfTables, Datetime, DocumentMut, Item, Table};

/// Removes the table of a name, and the comment directly above it.
///
/// # Errors
/// There is no such table, or the file has a form that cannot be edited.
pub(super) fn remove_table(text: &str, kind: &'static str, name: &str) -> Result<String, String> {
    edit_tables(text, kind, |users| {
        let index = position(users, kind, name)?;
        Ok(removed(users, index))
    })
}

/// Removes the table at `index`, and the comment directly above it. Returns the comments before
/// those that no table is left for.
pub(super) fn removed(tables: &mut ArrayOfTables, index: usize) -> String {
    let removed = tables.remove(index);
    let kept = above_the_gap(prefix(&removed)).to_owned();
    let Some(next) = tables.get_mut(index) else { return kept };
    if !kept.is_empty() {
        let joined = format!("{kept}{}", prefix(next).trim_start_matches('\n'));
        next.decor_mut().set_prefix(joined);
    }
    String::new()
}

/// Edits an array of tables. The text that `change` returns is inserted before the end of the file.
///
/// # Errors
/// Those of the change; the file has a form that cannot be edited.
pub(super) fn edit_tables(
    text: &str,
    kind: &'static str,
    change: impl FnOnce(&mut ArrayOfTables) -> Result<String, String>,
) -> Result<String, String> {
    let mut file: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| e.message().to_owned())?;
    let tables = file.entry(kind).or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    let tables = tables.as_array_of_tables_mut();
    let tables =
        tables.ok_or_else(|| format!("only tables in the form [[{kind}]] can be edited by commands"))?;
    let kept = change(tables)?;
    let rest = file.trailing().as_str().unwrap_or_default().to_owned();
    file.set_trailing(kept + &rest);
    Ok(file.to_string())
}

/// The place of the table of a name.
///
/// # Errors
/// There is none.
pub(super) fn position(tables: &ArrayOfTables, kind: &str, name: &str) -> Result<usize, String> {
    tables
        .iter()
        .position(|table| table.get("name").and_then(Item::as_str) == Some(name))
        .ok_or_else(|| format!("there is no {kind} `{name}`"))
}

/// The field with the time at which the current keys of a user were made.
pub(super) const KEY_CREATED: &str = "key_created";

/// The field with the access keys of a user that sign nothing.
pub(super) const INACTIVE: &str = "inactive";

/// Has `inactive` name no key that the user has no longer.
pub(super) fn forget_inactive(user: &mut Table) {
    let Some(listed) = user.get(INACTIVE).and_then(Item::as_array) else { return };
    let previous = user.get("previous").and_then(|pair| pair.get("access_key"));
    let keys: Vec<_> =
        [user.get("access_key"), previous].into_iter().flatten().filter_map(Item::as_str).collect();
    let mut kept = listed.clone();
    kept.retain(|key| key.as_str().is_some_and(|key| keys.contains(&key)));
    if kept.len() == listed.len() {
        return;
    }
    if kept.is_empty() {
        user.remove(INACTIVE);
    } else {
        user.insert(INACTIVE, toml_edit::value(kept));
    }
}

/// A time in the form of the file.
///
/// # Errors
/// The file has no such times.
pub(super) fn datetime(time: Timestamp) -> Result<Datetime, String> {
    time.to_iso8601().parse().map_err(|e: toml_edit::DatetimeParseError| e.to_string())
}

/// A time of the file.
pub(super) fn instant_of(time: &Datetime) -> Option<Timestamp> {
    Timestamp::parse_iso8601(&time.to_string())
}

/// A time of the file, in the form of the answers.
pub(super) fn shown_time(time: &Datetime) -> String {
    instant_of(time).map_or_else(|| time.to_string(), Timestamp::to_iso8601)
}

/// The comments and empty lines above a table.
fn prefix(table: &Table) -> &str {
    table.decor().prefix().and_then(|text| text.as_str()).unwrap_or_default()
}

/// The comments that an empty line separates from the next table: they are about something else.
fn above_the_gap(comments: &str) -> &str {
    let above = comments.rfind("\n\n").map_or("", |at| &comments[..at + 2]);
    if above.trim().is_empty() { "" } else { above }
}
