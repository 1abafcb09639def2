//! hookd
