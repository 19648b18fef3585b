//! The options and the sections as `siltstone config show` writes them: a configuration file that
//! says where each value comes from, and shows no secret.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches};
use toml_edit::{Array, Document, Item, TableLike, Value};

use super::config_file::ValueForm;
use super::layers::{OptionFlags, ValueOrigin, parser};

/// Where comments begin, if the value is short.
const COMMENT_COLUMN: usize = 40;

/// An option with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownOption {
    name: String,
    /// As the file writes it; `None` for an option that is not set.
    value: Option<String>,
    origin: ValueOrigin,
}

impl ShownOption {
    /// Every option, in the order of the help. `own` are the parsed arguments of the process, and
    /// `merged` the same with the flags of `layers`.
    pub(crate) fn all(own: &ArgMatches, merged: &ArgMatches, layers: &[OptionFlags]) -> Vec<Self> {
        let mut options = Vec::new();
        for option in parser().get_arguments() {
            options.push(Self {
                name: option.get_id().to_string(),
                value: value_of(option, merged),
                origin: origin_of(option, own, layers),
            });
        }
        options
    }

    /// Its line.
    pub(crate) fn line(&self) -> String {
        let Some(value) = &self.value else { return format!("# {} is not set", self.name) };
        let setting = format!("{} = {value}", self.name);
        let origin = match &self.origin {
            ValueOrigin::Default => "default".to_owned(),
            ValueOrigin::CommandLine => "command line".to_owned(),
            ValueOrigin::Variable(name) => format!("variable {name}"),
            ValueOrigin::FileLine(line) => format!("configuration file, line {line}"),
        };
        format!("{setting:<COMMENT_COLUMN$} # {origin}")
    }
}

fn origin_of(option: &Arg, own: &ArgMatches, layers: &[OptionFlags]) -> ValueOrigin {
    let id = option.get_id().as_str();
    match own.value_source(id) {
        Some(ValueSource::CommandLine) => return ValueOrigin::CommandLine,
        Some(ValueSource::EnvVariable) => {
            let name = option.get_env().unwrap_or_default();
            return ValueOrigin::Variable(name.to_string_lossy().into_owned());
        }
        _ => {}
    }
    let set = layers.iter().flatten().find(|set| set.name == id);
    set.map_or(ValueOrigin::Default, |set| set.origin.clone())
}

fn value_of(option: &Arg, merged: &ArgMatches) -> Option<String> {
    let raw = merged.get_raw(option.get_id().as_str())?;
    let texts: Vec<_> = raw.map(|text| without_password(&text.to_string_lossy())).collect();
    if texts.is_empty() {
        return None;
    }
    let text = texts.join(",");
    Some(match ValueForm::of(option) {
        ValueForm::Number | ValueForm::Switch => text,
        ValueForm::Text => Value::from(text).to_string(),
        ValueForm::List => {
            let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
            Value::from(names.collect::<Array>()).to_string()
        }
    })
}

/// The sections of a configuration file with this text. Left out are secrets, the paths of
/// addresses, which may hold some, and comments: one may be a secret that somebody switched off.
pub(crate) fn sections(text: &str) -> Vec<String> {
    let Ok(file) = Document::parse(text) else { return Vec::new() };
    let mut lines = Vec::new();
    for (name, section) in file.iter() {
        if let Some(tables) = section.as_array_of_tables() {
            for table in tables {
                lines.push(format!("[[{name}]]"));
                lines.extend(settings(table));
            }
        } else if let Some(table) = section.as_table_like() {
            lines.push(format!("[{name}]"));
            lines.extend(settings(table));
        }
    }
    lines
}

fn settings(table: &dyn TableLike) -> impl Iterator<Item = String> {
    table.iter().filter_map(|(name, item)| Some(format!("{name} = {}", setting(name, item)?)))
}

fn setting(name: &str, item: &Item) -> Option<Value> {
    let is_secret = ["secret", "password", "token", "encryption_key"].iter().any(|word| name.contains(word));
    if is_secret && !name.ends_with("_file") {
        return Some(Value::from("(not shown)"));
    }
    if let Some(text) = item.as_str() {
        return Some(Value::from(if name == "url" { origin(text) } else { without_password(text) }));
    }
    let mut value = item.clone().into_value().ok()?;
    value.decor_mut().clear();
    match &mut value {
        Value::Array(array) => array.fmt(),
        Value::InlineTable(table) => table.fmt(),
        _ => {}
    }
    Some(value)
}

/// A URL without the user and the password before its host.
fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let host_end = rest.find('/').unwrap_or(rest.len());
    match rest[..host_end].rfind('@') {
        Some(at) => format!("{scheme}://(not shown){}", &rest[at..]),
        None => text.to_owned(),
    }
}

/// A URL without what follows its host, and without a password.
fn origin(url: &str) -> String {
    let host_start = url.find("://").map_or(0, |at| at + 3);
    let host_end = url[host_start..].find(['/', '?', '#']).map_or(url.len(), |at| host_start + at);
    let shown = without_password(&url[..host_end]);
    if host_end == url.len() { shown } else { format!("{shown}/(not shown)") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_shown_without_secrets_and_comments() {
        let text = "listen = 'a'\n# secret_key = 'old'\n[remote]\nendpoint = 'https://u:p@h:1'\naccess_key = 'AK'\n\
            secret_key = 'hidden-a' # hidden-b\nencryption_key_file = '/k'\n\
            [[webhook]]\nname = 'w'\nurl = 'https://hooks.example/hidden-c?hidden-d'\nsecret_file = '/s'\n";
        let shown = sections(text).join("\n");
        for kept in
            ["[remote]", "'AK'", "/k", "[[webhook]]", "https://hooks.example/(not shown)", "/s", "@h:1"]
        {
            assert!(shown.contains(&kept.replace('\'', "\"")), "{kept} is missing in {shown}");
        }
        for gone in ["hidden", "old", "u:p", "listen", "#"] {
            assert!(!shown.contains(gone), "{gone} is shown in {shown}");
        }
        assert!(Document::parse(shown.as_str()).is_ok(), "{shown}");
    }
}
