use std::io;

use hookd_rules::Severity;

use super::Exit;
use crate::{
    catalog::ReloadReport,
    door::{listener::BindError, tls::TlsError},
    record::NoAudit,
    run::{HoldingError, PoolError},
    settings::SettingsError,
    telemetry::{audit::AuditError, otlp::OtlpError},
};

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("{}", .0.lines(Severity::Error).collect::<Vec<_>>().join("\n"))]
    Rules(Box<ReloadReport>),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("{0}: {1}")]
    Bind(&'static str, BindError),
    #[error(transparent)]
    Audit(#[from] NoAudit),
    #[error(transparent)]
    Otlp(#[from] OtlpError),
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(transparent)]
    Holding(#[from] HoldingError),
    #[error("cannot serve reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    #[error("{0}")]
    Identity(String),
    #[error("{0}")]
    Other(#[from] io::Error),
}

impl StartError {
    /// Whether the settings, or files that they name, cannot be used; or the machine has not what they ask for just now.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Settings(_)
            | Self::Rules(_)
            | Self::Tls(_)
            | Self::Identity(_)
            | Self::Holding(_)
            | Self::Otlp(_)
            | Self::Audit(NoAudit::Key { .. } | NoAudit::Trail(AuditError::Otlp(_)))
            | Self::Pool(PoolError::Http(_)) => Exit::Unusable,
            Self::Bind(..)
            | Self::Audit(NoAudit::Trail(AuditError::File { .. } | AuditError::Stdout(_) | AuditError::Thread(_)))
            | Self::Pool(PoolError::NoRuntime(_))
            | Self::Reflection(_)
            | Self::Other(_) => Exit::Failed,
        }
    }
}
