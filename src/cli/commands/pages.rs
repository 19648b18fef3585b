//! The commands `completions` and `man`: what packages install as files, for those who have the
//! program alone.

use std::io::{self, Write as _, stdout};

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::error::CliError;

/// Shown below the help of `completions`.
pub(crate) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  siltstone completions bash > /etc/bash_completion.d/siltstone
  siltstone completions zsh > /usr/local/share/zsh/site-functions/_siltstone
  siltstone completions fish > ~/.config/fish/completions/siltstone.fish";

/// Shown below the help of `man`.
pub(crate) const MAN_EXAMPLES: &str = "\
Examples:
  siltstone man | man -l -
  siltstone man user add > /usr/local/share/man/man1/siltstone-user-add.1";

/// The arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

/// The arguments of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// The command, such as user add [default: the program]
    command: Vec<String>,
}

/// Writes the completions of a shell for the program `command`.
///
/// # Errors
/// Standard output is closed.
pub(crate) fn completions(arguments: &CompletionsArguments, mut command: Command) -> Result<(), CliError> {
    let mut text = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(arguments.shell, &mut command, name, &mut text);
    write(&text)
}

/// Writes the page of the program `command`, or of one of its commands.
///
/// # Errors
/// There is no such command, or standard output is closed.
pub(crate) fn man(arguments: &ManArguments, command: Command) -> Result<(), CliError> {
    let mut page = command;
    for name in &arguments.command {
        let found = page.find_subcommand(name).cloned();
        page = found.ok_or_else(|| CliError::usage(format!("there is no command `{name}`")))?;
    }
    let mut text = Vec::new();
    Man::new(page).render(&mut text).map_err(|e| failed(&e))?;
    write(&text)
}

fn write(text: &[u8]) -> Result<(), CliError> {
    let mut out = stdout().lock();
    out.write_all(text).and_then(|()| out.flush()).map_err(|e| failed(&e))
}

fn failed(error: &io::Error) -> CliError {
    CliError::refused(format!("cannot write the answer: {error}"))
}
