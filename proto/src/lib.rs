//! The wire contract of hookd, generated from `proto/hookd/v1/`. The contract itself, with units, limits and what
//! absence means, is written in the `.proto` files.

/// Messages, clients and service traits of package `hookd.v1`.
#[allow(clippy::all, clippy::restriction, missing_docs, unreachable_pub, reason = "generated code")]
pub mod v1 {
    tonic::include_proto!("hookd.v1");
}

/// Encoded `FileDescriptorSet` of the package and what it imports, for gRPC reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hookd_descriptors.bin"));
