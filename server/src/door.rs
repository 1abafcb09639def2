//! The door: sockets, TLS, connections, the layers that every gRPC call passes, plain HTTP, and the admin HTTP side.

pub mod arrived;
pub mod calls;
pub mod connection;
pub mod http;
pub mod identity;
pub mod layers;
pub mod leaving;
pub mod listener;
pub mod places;
pub mod plain;
pub mod room;
pub mod services;
pub mod tls;
