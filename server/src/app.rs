//! The composition root: settings → ports → catalog → serving → drained.

pub mod arguments;
mod bind;
mod check;
mod open_files;
mod reload;
mod serve;
mod shutdown;
mod signals;
mod start_error;
mod views;

use std::{
    env,
    ffi::OsString,
    io::{self, Write as _},
    sync::Arc,
};

use hookd_rules::Environment;

use crate::{
    run::Holding,
    settings::{self, Origin, Settings},
    telemetry,
};
use arguments::Arguments;
use bind::App;
use signals::Signals;
use start_error::StartError;

/// How the process ends; the number is its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything is done: drained, printed, or checked without an error.
    Done = 0,
    /// It could not serve, or the check found an error.
    Failed = 1,
    /// The arguments, the settings or the central rules cannot be used.
    Unusable = 64,
    /// A second signal ended it at once.
    Forced = 130,
}

/// Does what the arguments ask for, to the end of the process. What is wrong is told on stderr.
pub async fn run(arguments: Arguments) -> Exit {
    match start(arguments).await {
        Ok(exit) => exit,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            error.exit()
        }
    }
}

async fn start(arguments: Arguments) -> Result<Exit, StartError> {
    let origin = Origin {
        file: arguments.config,
        environment: settings::environment(env::vars_os()),
        working_directory: env::current_dir()?,
    };
    let settings = Settings::read(&origin)?;
    if arguments.print_config {
        io::stdout().write_all(settings.to_yaml().as_bytes())?;
        return Ok(Exit::Done);
    }
    if arguments.check {
        check::files(&settings)?;
        holding(&settings).await?;
        let load = settings.for_rules(settings.listens_locally(), environment());
        return Ok(check::check(&load, &mut io::stdout())?);
    }
    let (decisions, _last_lines) = telemetry::init(&settings.log).map_err(io::Error::other)?;
    open_files::raise();
    let signals = Signals::install()?;
    App::bind(origin, settings, decisions).await?.serve(signals).await
}

/// The variables that header values can name.
fn environment() -> Environment {
    let text = |text: OsString| text.into_string().ok();
    env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect()
}

/// Tries out what holds commands in.
async fn holding(settings: &Settings) -> Result<Arc<Holding>, StartError> {
    let commands = settings.commands.clone();
    let tried = tokio::task::spawn_blocking(move || Holding::new(&commands, env::temp_dir())).await;
    Ok(Arc::new(tried.map_err(io::Error::other)??))
}
