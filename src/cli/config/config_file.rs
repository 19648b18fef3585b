//! The configuration file: options in TOML, named as their flags with `_` for `-`.
//!
//! Its options become flags, so that the command line alone parses and checks values.

use std::any::TypeId;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use clap::{Arg, Command};
use siltstone::base::line_of;
use siltstone::client::SettingSources;
use siltstone::service::MetricsAccess;
use toml_edit::{Document, Item, Value};

use super::bucket_specs::BucketSpecs;
use super::environment::Environment;
use super::keys::key_in;
use super::layers::{LayeredOption, OptionFlags, ValueOrigin, checked_flag, parser};
use super::option_values::{RegionNames, WebOrigins};
#[cfg(test)]
use super::options::ServerOptions;
use crate::cli::error::CliError;

/// The sections that are no options, and whether each is a list of tables.
const SECTIONS: [(&str, bool); 3] = [("remote", false), ("mirror", true), ("webhook", true)];

/// The least likeness of two names of which one may be meant by the other; from 0 to 1.
const LIKENESS_MIN: f64 = 0.85;

/// The options of the file at `path` as flags.
///
/// # Errors
/// The file cannot be read or is malformed TOML, or it has unknown options or wrong values. The
/// message names the file and the line of each.
pub(crate) fn read(path: &Path) -> Result<OptionFlags, CliError> {
    let text = text(path)?;
    flags(&text).map_err(|problems| {
        let shown = path.display();
        let lines: Vec<_> =
            problems.iter().map(|problem| format!("in the configuration file {shown}, {problem}")).collect();
        CliError::usage(lines.join("\n"))
    })
}

/// The text of the file at `path`.
///
/// # Errors
/// The file cannot be read. The message names it.
pub(crate) fn text(path: &Path) -> Result<String, CliError> {
    fs::read_to_string(path)
        .map_err(|e| CliError::usage(format!("cannot read the configuration file {}: {e}", path.display())))
}

/// A section of the configuration file at `config`, which `parse` reads from its text; the default
/// without a file. Nothing is connected.
///
/// # Errors
/// The section is wrong: file, line and problem.
pub(crate) fn section<T: Default>(
    config: Option<&Path>,
    environment: &Environment,
    parse: impl FnOnce(&str, &SettingSources<'_>) -> Result<T, String>,
) -> Result<T, CliError> {
    let Some(path) = config else { return Ok(T::default()) };
    let text = text(path)?;
    let parsed = parse(
        &text,
        &SettingSources {
            read: &key_in,
            variable: &|name| environment.text(name).ok().flatten().map(str::to_owned),
        },
    );
    parsed.map_err(|problem| {
        CliError::usage(format!("in the configuration file {}, {problem}", path.display()))
    })
}

/// The options of a file by name, each as a flag whose value is checked. The sections have no
/// flags; [`section`] reads them.
fn flags(text: &str) -> Result<OptionFlags, Vec<String>> {
    let file = Document::parse(text).map_err(|e| vec![e.to_string()])?;
    let command = parser();
    let mut flags = Vec::new();
    // All of them are reported, so that one attempt is enough to mend the file.
    let mut problems = Vec::new();
    for (name, item) in file.as_table().iter().filter(|(name, item)| !is_section(name, item)) {
        let line = line_of(text, &item.span().unwrap_or_default());
        match flag_of(name, item, &command) {
            Ok(flag) => {
                let origin = ValueOrigin::FileLine(line);
                flags.push(LayeredOption { name: name.to_owned(), flag, origin });
            }
            Err(problem) => problems.push(format!("line {line}: {problem}")),
        }
    }
    if problems.is_empty() { Ok(flags) } else { Err(problems) }
}

fn is_section(name: &str, item: &Item) -> bool {
    let section = SECTIONS.into_iter().find(|(section, _)| *section == name);
    section.is_some_and(|(_, is_list)| if is_list { item.is_array_of_tables() } else { item.is_table_like() })
}

fn flag_of(name: &str, item: &Item, command: &Command) -> Result<String, String> {
    let option = command.get_arguments().find(|arg| arg.get_id() == name);
    let option = option.ok_or_else(|| unknown(name, command))?;
    let value = text_of(item, option).ok_or_else(|| format!("`{name}` takes a value of another type"))?;
    checked_flag(name, &value)
}

/// Why there is no option of this name, and the name that was meant.
fn unknown(name: &str, command: &Command) -> String {
    if let Some((_, is_list)) = SECTIONS.into_iter().find(|(section, _)| *section == name) {
        let header = if is_list { format!("[[{name}]]") } else { format!("[{name}]") };
        return format!("`{name}` is no option: it begins with the line {header}");
    }
    let options = command.get_arguments().map(|option| option.get_id().as_str());
    let names = options.chain(SECTIONS.into_iter().map(|(section, _)| section));
    match closest(name, names) {
        Some(meant) => format!("there is no option `{name}`: did you mean `{meant}`?"),
        None => format!("there is no option `{name}`"),
    }
}

/// The name that is the most like `name`, if one is at all: it has few other letters.
fn closest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let rated = names.map(|known| (strsim::jaro_winkler(name, known), known));
    let (likeness, best) = rated.max_by(|one, other| one.0.total_cmp(&other.0))?;
    (likeness > LIKENESS_MIN).then_some(best)
}

/// How the file writes the value of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueForm {
    /// An integer.
    Number,
    /// An array of strings.
    List,
    /// A boolean.
    Switch,
    /// A string.
    Text,
}

impl ValueForm {
    /// That of an option: numbers of things are integers, regions, origins and buckets are arrays
    /// of strings, switches are booleans, all other values are strings.
    pub(crate) fn of(option: &Arg) -> Self {
        let parsed = option.get_value_parser().type_id();
        if parsed == TypeId::of::<NonZeroUsize>() || parsed == TypeId::of::<u64>() {
            return Self::Number;
        }
        if parsed == TypeId::of::<RegionNames>()
            || parsed == TypeId::of::<BucketSpecs>()
            || parsed == TypeId::of::<WebOrigins>()
        {
            return Self::List;
        }
        if parsed == TypeId::of::<bool>() { Self::Switch } else { Self::Text }
    }
}

/// A value as a flag takes it; `None` for a value of a wrong type. A boolean is passed on for the
/// metrics, whose parser refuses it with advice.
fn text_of(item: &Item, option: &Arg) -> Option<String> {
    let is_of_metrics = option.get_value_parser().type_id() == TypeId::of::<MetricsAccess>();
    match (ValueForm::of(option), item.as_value()?) {
        (ValueForm::Text, Value::String(text)) => Some(text.value().clone()),
        (ValueForm::Number, Value::Integer(number)) => Some(number.value().to_string()),
        (ValueForm::List, Value::Array(names)) => {
            names.iter().map(Value::as_str).collect::<Option<Vec<_>>>().map(|names| names.join(","))
        }
        (ValueForm::Switch, Value::Boolean(value)) => Some(value.value().to_string()),
        (_, Value::Boolean(value)) if is_of_metrics => Some(value.value().to_string()),
        _ => None,
    }
}

/// The options that `arguments` and a file with this text set.
#[cfg(test)]
pub(crate) fn options(arguments: &[&str], text: &str) -> ServerOptions {
    use std::ffi::OsString;

    use clap::{FromArgMatches, Parser};

    use super::layers::with_layers;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: ServerOptions,
    }

    let arguments: Vec<_> = ["siltstone"].iter().chain(arguments).map(OsString::from).collect();
    let command = <Line as clap::CommandFactory>::command();
    let matches = command.clone().get_matches_from(&arguments);
    let merged = with_layers(&matches, &arguments, &[flags(text).unwrap()]);
    Line::from_arg_matches(&command.get_matches_from(merged)).unwrap().options
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Args as _;

    use super::*;

    #[test]
    fn unknown_options_and_wrong_values_are_refused_with_their_line() {
        for wrong in [
            "workrs = 2",
            "config = 'other.toml'",
            "queue = 0",
            "queue = '1'",
            "trusted_proxies = 'here'",
            "region = []",
            "region = 'eu'",
            "cors_allow_origin = '*'",
            "cors_allow_origin = ['a.example']",
            "listen = 'here'",
            "log_level = 'loud'",
            "idle_timeout = '0s'",
            "segment_size = '1023KiB'",
            "segment_size = '3 bytes'",
            "segment_size = 268435456",
            "reclaim_rate = 'fast'",
            "metrics = 'all'",
            "sigv2_presigned = 'false'",
            "sigv2_presigned = 0",
            "data_dir = true",
            "[data_dir]",
            "workers = 2",
        ] {
            let problem = flags(&format!("workers = 1\n{wrong}")).unwrap_err().join("\n");
            assert!(problem.contains("line 2"), "{problem}");
        }
        let problem = flags("log_level = 'loud'").unwrap_err().join("\n");
        assert!(problem.contains("--log-level") && problem.contains("trace"), "{problem}");
    }

    #[test]
    fn every_problem_is_told_with_the_name_that_may_be_meant() {
        let problems =
            flags("listn = 'a'\nqueue = 1\ndata-dir = 'd'\n[remot]\n[mirror]\n[zebra]\n").unwrap_err();
        assert_eq!(
            problems,
            [
                "line 1: there is no option `listn`: did you mean `listen`?",
                "line 3: there is no option `data-dir`: did you mean `data_dir`?",
                "line 4: there is no option `remot`: did you mean `remote`?",
                "line 5: `mirror` is no option: it begins with the line [[mirror]]",
                "line 6: there is no option `zebra`",
            ]
        );
    }

    #[test]
    fn the_metrics_of_earlier_versions_are_refused_with_their_replacement() {
        for (old, instead) in [("true", "open"), ("false", "off")] {
            for written in [format!("metrics = {old}"), format!("metrics = '{old}'")] {
                let problem = flags(&written).unwrap_err().join("\n");
                assert!(problem.contains("line 1") && problem.contains(instead), "{problem}");
            }
        }
    }

    const EVERY_OPTION: &str = "data_dir = 'a'\nfast_dir = 'f'\nmirror_dirs = 'a=b'\npair_witness = 'w'\naccept_degraded = true\naccept_outdated = true\ncreate = 'never'\nlisten = '[::1]:1'\nusers = 'u'\nkeys_file = 'k'\nregion = ['r']\ndomain = 'D'\n\
        cors_allow_origin = ['https://a', 'null']\nhtml_sandbox = 'off'\n\
        website_domain = 'W'\nobject_ownership = 'ObjectWriter'\n\
        dialect = 'aws'\nxml_namespace = ''\nencrypt_objects = true\nsse_c_insecure = true\nmetrics = 'off'\nmetrics_token_file = 't'\netag = 'crc'\nhttp_engine = 'tiny_http'\ntls_cert = 'c'\n\
        sigv2_presigned = false\ntls_key = 'k'\nworkers = 1\nqueue = 2\nmax_connections = 3\nmax_connections_per_address = 2\n\
        trusted_proxies = 'none'\nidle_timeout = '4s'\nshutdown_timeout = '5s'\nkeep_alive_after = '6s'\n\
        abort_uploads_after = '8d'\nconsole = 'off'\nconsole_listen = '[::1]:2'\nconsole_path = '/ui'\nconsole_insecure = true\npublic_url = 'https://s'\nconsole_url = 'https://c/ui'\noidc_issuer = 'https://a'\noidc_client_id = 'b'\noidc_client_secret_file = 'c'\noidc_scopes = 'openid'\noidc_groups_claim = 'd'\noidc_ca_file = 'e'\nbuckets_max = 5\naudit_log = 'a'\nsegment_size = '64MiB'\nencrypt_store = true\nstore_key_file = 'k'\nlocal_max = '2GiB'\nkeep_local = '3h'\nkeep_dropped = '2d'\nship = 'sync'\nship_lag_max = '7s'\ntakeover_after = '20s'\nread_only = true\nabandon_log = true\nship_every = '9s'\nship_window = '3d'\nstandby = true\nstandby_reads = true\nremote_insecure = true\nfollow_max = '2GiB'\nreclaim_rate = '1GiB'\nscrub_rate = '0'\nscrub_remote = 2\ndisk_hook = 'h'\naccess_log = '-'\nbucket_log_interval = '9m'\n\
        access_log_format = 'common'\nlog_level = 'off'\nlog_format = 'json'\nmemory_max = '64MiB'\nindex_max = '64MiB'\nbucket = ['photos', 'logs:versioned']";

    #[test]
    fn every_option_can_stand_in_the_file_and_a_flag_overrides_it() {
        let flags = flags(EVERY_OPTION).unwrap();
        let command = ServerOptions::augment_args(Command::new("siltstone"));
        let known: BTreeSet<_> = command.get_arguments().map(|arg| arg.get_id().to_string()).collect();
        assert_eq!(flags.iter().map(|option| option.name.clone()).collect::<BTreeSet<_>>(), known);
        let set: Vec<_> = flags.iter().map(|option| option.flag.as_str()).collect();
        let all = options(&[], EVERY_OPTION);
        assert_eq!(options(&set, ""), all);
        assert!(!format!("{all:?}").contains("None"), "{all:?}");
        for LayeredOption { name, .. } in &flags {
            let without: String = EVERY_OPTION
                .lines()
                .filter(|line| !line.starts_with(&format!("{name} ")))
                .collect::<Vec<_>>()
                .join("\n");
            assert_ne!(options(&[], &without), all, "{name} has the same value as its default");
        }
        let defaults = options(&["--log-level=info", "--listen=127.0.0.1:9000"], EVERY_OPTION);
        assert_eq!(
            (defaults.logs.log_level, defaults.start.listen.port()),
            (crate::cli::logs::logging::LogLevel::Info, 9000)
        );
    }
}
