//! The server. Only this file reads the arguments and the environment; it passes them on.

mod cli;
#[cfg(test)]
#[path = "../tools/package/pages.rs"]
mod pages;

use std::env;
use std::process::ExitCode;

use cli::{CliError, CommandLine, Environment};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("siltstone: {error}");
            error.status()
        }
    }
}

fn run() -> Result<(), CliError> {
    let arguments: Vec<_> = env::args_os().collect();
    let environment = Environment::new(env::vars_os());
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
