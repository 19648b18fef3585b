//! Values of options from other places than flags and their own environment variables.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::ArgMatches;
use clap::parser::ValueSource;

/// Options by name, each as a flag with its value.
pub(crate) type OptionFlags = Vec<(String, String)>;

/// The arguments, preceded by the flags of `layers` for options that neither a flag nor a variable of their own sets.
/// An earlier layer takes precedence over a later one. `matches` are the parsed arguments.
pub(crate) fn with_layers(
    matches: &ArgMatches,
    arguments: &[OsString],
    layers: impl IntoIterator<Item = OptionFlags>,
) -> Vec<OsString> {
    let mut merged: Vec<_> = arguments.iter().take(1).cloned().collect();
    let mut set_by_layer = BTreeSet::new();
    for (name, flag) in layers.into_iter().flatten() {
        if !is_set(matches, &name) && set_by_layer.insert(name) {
            merged.push(flag.into());
        }
    }
    merged.extend(arguments.iter().skip(1).cloned());
    merged
}

/// Whether a flag or the option's own variable sets the option.
pub(crate) fn is_set(matches: &ArgMatches, name: &str) -> bool {
    matches!(matches.value_source(name), Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}
