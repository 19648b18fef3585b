//! The names that this program is called by. The image has it under those that compose files of
//! MinIO use, so that their commands and health checks work as they are.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::commands::health::{fetch, mc};
use super::config::environment::Environment;
use super::error::CliError;

/// A name of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgramName {
    /// Its own, and `minio`, whose command has the same form.
    Siltstone,
    /// MinIO's client.
    Mc,
    /// curl.
    Curl,
    /// wget.
    Wget,
}

impl ProgramName {
    /// The name in the first argument of a process, without its directory. Any other is the
    /// program's own.
    pub(crate) fn of(arguments: &[OsString]) -> Self {
        let path = arguments.first().map_or(Path::new(""), Path::new);
        match path.file_name().and_then(OsStr::to_str) {
            Some("mc") => Self::Mc,
            Some("curl") => Self::Curl,
            Some("wget") => Self::Wget,
            _ => Self::Siltstone,
        }
    }

    /// The name, before its messages.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Siltstone => "siltstone",
            Self::Mc => "mc",
            Self::Curl => "curl",
            Self::Wget => "wget",
        }
    }

    /// Runs the program that this one stands for; `None` under its own name.
    pub(crate) fn run(
        self,
        arguments: &[OsString],
        environment: &Environment,
    ) -> Option<Result<(), CliError>> {
        match self {
            Self::Siltstone => None,
            Self::Mc => Some(mc::run(arguments, environment)),
            Self::Curl => Some(fetch::curl(arguments)),
            Self::Wget => Some(fetch::wget(arguments)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_known_by_its_name_wherever_it_is() {
        for (called, name) in [
            ("/bin/mc", ProgramName::Mc),
            ("curl", ProgramName::Curl),
            ("./wget", ProgramName::Wget),
            ("/bin/minio", ProgramName::Siltstone),
            ("/usr/bin/siltstone", ProgramName::Siltstone),
            ("", ProgramName::Siltstone),
        ] {
            assert_eq!(ProgramName::of(&[OsString::from(called)]), name, "{called}");
        }
        assert_eq!(ProgramName::of(&[]), ProgramName::Siltstone);
    }
}
