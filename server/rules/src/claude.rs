//! Claude Code's files.

mod foreign;
mod javascript;
mod matcher;
mod placeholder;
mod tools;

pub(crate) use self::tools::names_of;
pub use self::placeholder::plugin_root;

#[cfg(test)]
pub(crate) use self::matcher::read as read_matcher;
