//! The door: sockets, connections, the layers that every gRPC call passes, and the admin HTTP side.

pub mod connection;
pub mod http;
pub mod layers;
pub mod listener;
