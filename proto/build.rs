//! Compiles the protos with `protox`, so that a build needs no `protoc`.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;

const PROTOS: [&str; 2] = ["hookd/v1/hook_service.proto", "hookd/v1/admin_service.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=hookd");
    let descriptors = protox::compile(PROTOS, ["."])?;
    let path = PathBuf::from(env::var("OUT_DIR")?).join("hookd_descriptors.bin");
    fs::write(path, descriptors.encode_to_vec())?;
    // Servers that serve only a part, which are those of tests, get `UNIMPLEMENTED` for the rest.
    tonic_prost_build::configure().build_transport(true).generate_default_stubs(true).compile_fds(descriptors)?;
    Ok(())
}
