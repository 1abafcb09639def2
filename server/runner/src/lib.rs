//! hookd-runner
