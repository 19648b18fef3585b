//! The server. Only this file reads the arguments and the environment; it passes them on.

mod cli;

use std::env;
use std::process::ExitCode;

use cli::{CliError, CommandLine, KEY_VARIABLES, SOCKET_VARIABLE};

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
    let line = CommandLine::read(&arguments)?;
    if line.serves() {
        cli::restart_configured(arguments.into_iter(), |name| env::var_os(name).is_some());
    }
    cli::run(line, KEY_VARIABLES.map(env::var_os), env::var_os(SOCKET_VARIABLE))
}
