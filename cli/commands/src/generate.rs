//! `corelane generate`: what lies beside the program on a machine, made from its own flags.

use crate::complete;
use crate::exit::{Exit, Late};
use crate::print::print;
use anyhow::Result;
use clap::{Command, Subcommand};
use std::path::{Path, PathBuf};

/// Writes manual pages, or completions for a shell
///
/// Both are made from the flags of this very program, so they fit it.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Writes a manual page for each command into a folder, which must exist
    Manual {
        /// Where: pages of section 1, such as corelane-serve.1; older ones of the same names are replaced
        folder: PathBuf,
    },
    /// Prints the script by which a shell asks this program for completions
    ///
    /// They are commands, flags, their values, and the processes that run. Each shell's manual says what to do with the script; the program must be in the PATH.
    Completions {
        /// Which shell
        #[arg(value_parser = clap::builder::PossibleValuesParser::new(complete::shells()))]
        shell: String,
    },
}

/// Writes what was asked for; `program` is the whole command line, which knows every flag.
pub fn run(arguments: &Arguments, program: Command) -> Result<Exit> {
    match &arguments.what {
        What::Manual { folder } => manual(program, folder)?,
        What::Completions { shell } => {
            let mut lines = Vec::new();
            complete::script(shell, "corelane", &mut lines).map_err(|error| Late::of("writing completions", error))?;
            print(String::from_utf8_lossy(&lines))?;
        }
    }
    Ok(Exit::Done)
}

fn manual(program: Command, folder: &Path) -> Result<()> {
    // The pages of the help command itself would say nothing.
    let program = program.disable_help_subcommand(true);
    clap_mangen::generate_to(program, folder)
        .map_err(|error| Late::of(&format!("writing manual pages to {}", folder.display()), error).into())
}
