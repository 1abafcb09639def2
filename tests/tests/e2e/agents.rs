//! What has to hold for every agent, end to end: the real relay or endpoint, the real hookd, and rules of the
//! organisation.

mod cut_network;
mod encoding;
mod example;
mod hook_files;
mod shell_rule;
mod stop_loops;
