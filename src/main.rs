//! The server. This file alone reads the arguments and the environment; all else is handed what it needs.

mod cli;

use std::env;
use std::process::ExitCode;

use cli::{CommandLine, KEY_VARIABLES};

fn main() -> ExitCode {
    let line = CommandLine::read();
    if line.serves() {
        cli::settle_allocator(env::args_os(), |name| env::var_os(name).is_some());
    }
    let keys = KEY_VARIABLES.map(env::var_os);
    match cli::run(line, keys) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("siltstone: {failure}");
            failure.status()
        }
    }
}
