//! Logs, the audit trail, trace context, and what goes to an OpenTelemetry collector.

pub mod audit;
pub mod call;
mod causes;
mod decisions;
mod lines;
pub mod otlp;
mod secrets;
pub mod trace;

use std::io::IsTerminal as _;

use tracing_subscriber::{EnvFilter, Registry, layer::SubscriberExt as _, util::SubscriberInitExt as _};

pub use causes::{all_causes, causes};
pub use decisions::{DecisionLog, Field};
pub use lines::LastLines;
pub use secrets::{Secrets, within_quotes};

use crate::settings::{LogFormat, LogSettings};
use lines::{Fate, Lines};

/// Sends logs to stderr from now on, for the whole process: for people on a terminal, as JSON otherwise. Decisions are
/// logged by what is given back; the second part is to be kept to the end of the process.
///
/// # Errors
/// Where the filter cannot be parsed, or logs already go somewhere.
pub fn init(settings: &LogSettings) -> anyhow::Result<(DecisionLog, LastLines)> {
    let human = match settings.format {
        LogFormat::Auto => std::io::stderr().is_terminal(),
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let (writer, last_lines) = Lines::to("log", std::io::stderr(), |fate| match fate {
        // Nobody is left to be told that the log cannot be written.
        Fate::Written | Fate::Failed(_) => {}
        Fate::Dropped(count) => tracing::warn!(count, "log lines were dropped: they were not read fast enough"),
    })?;
    let is_coloured = human && std::io::stderr().is_terminal();
    let decisions = DecisionLog::to(writer.clone(), human.then_some(is_coloured));
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    let registry = Registry::default().with(EnvFilter::try_new(&settings.filter)?);
    if human {
        registry.with(lines.with_ansi(is_coloured).with_target(false)).try_init()?;
    } else {
        registry.with(lines.json().flatten_event(true).with_current_span(false).with_span_list(false)).try_init()?;
    }
    Ok((decisions, last_lines))
}
