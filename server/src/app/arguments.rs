//! The command line.

use std::path::PathBuf;

use clap::Parser;

const EXIT_CODES: &str = "Exit codes: 0 done; 1 it could not serve, or the check found what is wrong with rules; 64 \
                          arguments, settings, files that they name, or central rules cannot be used; 130 a second signal.";

/// Evaluates the hooks of AI agents for a whole fleet, over gRPC.
#[derive(Debug, Parser)]
#[command(name = "hookd", version, after_help = EXIT_CODES)]
pub struct Arguments {
    /// Settings file: YAML, JSON or TOML. Variables such as HOOKD__LISTEN win over it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Load everything, print what would run and what is wrong, and exit.
    #[arg(long, conflicts_with = "print_config")]
    pub check: bool,
    /// Print the settings in force as YAML, and exit.
    #[arg(long)]
    pub print_config: bool,
}
