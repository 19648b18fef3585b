//! The server. Only this file reads the arguments and the environment; it passes them on.

mod cli;
#[cfg(test)]
#[path = "../tools/package/pages.rs"]
mod pages;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use siltstone::base::forbid_core_files;

use cli::{CliError, CommandLine, Environment, ProgramName};

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().collect();
    let name = ProgramName::of(&arguments);
    // Before the first secret is read.
    if let Err(error) = forbid_core_files() {
        eprintln!("{}: a crash may write keys to a core file: {error}", name.as_str());
    }
    match run(name, arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error.report(name.as_str());
            error.status()
        }
    }
}

fn run(name: ProgramName, arguments: Vec<OsString>) -> Result<(), CliError> {
    let environment = Environment::new(env::vars_os());
    if let Some(outcome) = name.run(&arguments, &environment) {
        return outcome;
    }
    let line = CommandLine::read(&arguments, &environment)?;
    if line.serves() {
        cli::restart_configured(arguments.into_iter(), |name| env::var_os(name).is_some());
    }
    cli::run(line, &environment)
}

#[cfg(test)]
mod tests {
    #[test]
    #[ignore = "writes files for tools/package/build.sh"]
    fn write_pages() {
        crate::pages::write(crate::cli::command()).unwrap();
    }
}
