//! hookd-client
