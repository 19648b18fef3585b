//! Values of options from other places than flags and their own environment variables.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args as _, Command};

use super::options::ServerOptions;

/// Where the value of an option comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ValueOrigin {
    Default,
    CommandLine,
    Variable(String),
    /// A line of the configuration file.
    FileLine(usize),
}

/// An option that a layer sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LayeredOption {
    pub(crate) name: String,
    /// The flag with its value.
    pub(crate) flag: String,
    pub(crate) origin: ValueOrigin,
}

/// The options that a layer sets.
pub(crate) type OptionFlags = Vec<LayeredOption>;

/// The arguments, preceded by the flags of `layers` for options that neither a flag nor a variable
/// of their own sets. An earlier layer takes precedence over a later one. `matches` are the parsed
/// arguments.
pub(crate) fn with_layers(
    matches: &ArgMatches,
    arguments: &[OsString],
    layers: &[OptionFlags],
) -> Vec<OsString> {
    let mut merged: Vec<_> = arguments.iter().take(1).cloned().collect();
    let mut set_by_layer = BTreeSet::new();
    for option in layers.iter().flatten() {
        if !is_set(matches, &option.name) && set_by_layer.insert(&option.name) {
            merged.push(option.flag.as_str().into());
        }
    }
    merged.extend(arguments.iter().skip(1).cloned());
    merged
}

/// Whether a flag or the option's own variable sets the option.
pub(crate) fn is_set(matches: &ArgMatches, name: &str) -> bool {
    matches!(matches.value_source(name), Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

/// A parser of the options alone.
pub(crate) fn parser() -> Command {
    ServerOptions::augment_args(Command::new("siltstone").no_binary_name(true))
}

/// Whether there is an option of that name.
pub(crate) fn is_option(name: &str) -> bool {
    parser().get_arguments().any(|arg| arg.get_id() == name)
}

/// The flag of an option with its value.
///
/// # Errors
/// The value is not valid: the reason in one line.
pub(crate) fn checked_flag(name: &str, value: &str) -> Result<String, String> {
    // In one word, so that a value that begins with a dash is not taken for another flag.
    let flag = format!("--{}={value}", name.replace('_', "-"));
    match parser().try_get_matches_from([&flag]) {
        Ok(_) => Ok(flag),
        Err(error) => Err(first_paragraph(&error.render().to_string())),
    }
}

/// The message of clap without its prefix and its hints.
fn first_paragraph(message: &str) -> String {
    let lines = message.lines().take_while(|line| !line.is_empty()).map(str::trim);
    let paragraph = lines.collect::<Vec<_>>().join(" ");
    paragraph.strip_prefix("error: ").unwrap_or(&paragraph).to_owned()
}
