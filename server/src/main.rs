//! `hookd`: arguments, the cryptography provider, a runtime, and then [`hookd::app`].

use std::{
    env,
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{Parser as _, error::ErrorKind};
use hookd::app::{self, Exit, arguments::Arguments};

fn main() -> ExitCode {
    // First of all: a helper must have one thread, and takes its arguments as they are.
    if let Some(ended) = hookd_confine::main(env::args_os()) {
        return ended;
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            let shown = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return exit_code(if shown { Exit::Done } else { Exit::Unusable });
        }
    };
    // Two providers could be in the tree one day; which one is used is said here. It fails only if one is set already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let exit = runtime.block_on(app::run(arguments));
            // What still runs is a connection that nobody answers on.
            runtime.shutdown_background();
            exit_code(exit)
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "cannot start the runtime: {error}");
            exit_code(Exit::Failed)
        }
    }
}

fn exit_code(exit: Exit) -> ExitCode {
    ExitCode::from(exit as u8)
}
