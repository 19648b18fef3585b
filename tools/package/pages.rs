//! Writes the man pages and the shell completions of a program, generated from the definition of
//! its arguments.
//!
//! Part of the tests of both programs, so that the programs stay without the generators.
//! `tools/package/build.sh` runs it.

use std::path::Path;
use std::{env, fs, io};

use clap::Command;
use clap_complete::Shell;

/// The variable with the directory to write to: the prefix of an installation, such as /usr.
const DIR: &str = "SILTSTONE_PAGES";

/// The shells, each with the path of its completions below the prefix.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions"),
    (Shell::Fish, "share/fish/vendor_completions.d"),
    (Shell::Zsh, "share/zsh/site-functions"),
];

/// Writes all files of a program.
///
/// # Errors
/// The variable is not set, or a file cannot be written.
pub(crate) fn write(command: Command) -> io::Result<()> {
    let dir = env::var_os(DIR).ok_or_else(|| io::Error::other(format!("set {DIR} to a directory")))?;
    let dir = Path::new(&dir);
    write_man_pages(command.clone(), &dir.join("share/man/man1"))?;
    write_completions(command, dir)
}

/// A page for the program and one for each of its commands.
fn write_man_pages(command: Command, dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    clap_mangen::generate_to(without_help_command(command), dir)
}

/// Hides the command `help`, which would get a page for each of the others.
fn without_help_command(command: Command) -> Command {
    command.mut_subcommands(|command| match command.get_name() {
        "help" => command.hide(true),
        _ => without_help_command(command),
    })
}

fn write_completions(mut command: Command, dir: &Path) -> io::Result<()> {
    let name = command.get_name().to_owned();
    for (shell, path) in SHELLS {
        fs::create_dir_all(dir.join(path))?;
        let file = clap_complete::generate_to(shell, &mut command, &name, dir.join(path))?;
        if shell == Shell::Bash {
            // bash-completion looks for a file with the name of the program.
            fs::rename(file, dir.join(path).join(&name))?;
        }
    }
    Ok(())
}
