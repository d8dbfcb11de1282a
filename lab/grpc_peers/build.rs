//! Generates the service `gannet.v1.Cache` with the two calls that are measured.

use prost::Message;

fn main() {
    let path = "../../proto/schemas.binpb";
    println!("cargo:rerun-if-changed={path}");
    let bytes = std::fs::read(path).expect("the schemas exist");
    let mut schemas = prost_types::FileDescriptorSet::decode(&bytes[..]).expect("the schemas are valid");
    schemas.file.retain(|file| file.name() == "gannet/v1/cache.proto");
    for service in schemas.file.iter_mut().flat_map(|file| &mut file.service) {
        service.method.retain(|method| matches!(method.name(), "Get" | "Set"));
    }
    let build = tonic_prost_build::configure().build_client(false).bytes(".");
    build.compile_fds(schemas).expect("the schemas can be compiled");
}
