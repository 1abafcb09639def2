//! The crate from outside.

#[cfg(test)]
mod functions;
#[cfg(test)]
mod language;
#[cfg(test)]
mod support;
