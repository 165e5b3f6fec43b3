//! `ftl completions` and `ftl man`: what a shell and `man` know of the command, made from its own arguments.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use super::files;
use super::stop::{say, Stop};

/// Arguments of `ftl completions`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ftl completions bash > ~/.local/share/bash-completion/completions/ftl
  ftl completions zsh > ~/.zfunc/_ftl
  ftl completions fish > ~/.config/fish/completions/ftl.fish")]
pub(crate) struct CompletionsArgs {
    /// Shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Arguments of `ftl man`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  mkdir -p ~/.local/share/man/man1 && ftl man ~/.local/share/man/man1 && man ftl-compare")]
pub(crate) struct ManArgs {
    /// Folder to write the pages to, one for each subcommand
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// `ftl completions`.
pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<(), Stop> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "ftl", &mut script);
    say(&String::from_utf8_lossy(&script))
}

/// `ftl man`.
pub(crate) fn man(args: &ManArgs, mut command: Command) -> Result<(), Stop> {
    command.build();
    let mut written = 0;
    let mut left = vec![command];
    while let Some(command) = left.pop() {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
        left.extend(command.get_subcommands().filter(|under| under.get_name() != "help").cloned());
        let page = clap_mangen::Man::new(command);
        files::write_with(&args.folder.join(format!("{name}.1")), |out| page.render(out))?;
        written += 1;
    }
    say(&format!("{written} pages in {}\n", args.folder.display()))
}
