//! Generated files are committed, so that building the product needs no generator. This test writes the current version, and fails if the
//! committed one was stale.

use std::path::{Path, PathBuf};

use tonic_prost_build::Builder;

const KSERVE: &str = "crates/models/src/triton/kserve.proto";

#[test]
fn the_kserve_client_and_messages_match_the_proto() {
    let client = |builder: Builder| builder.build_server(false);
    renew(KSERVE, "inference", client, "crates/models/src/triton/kserve.rs");
}

#[test]
fn the_kserve_server_of_the_tests_matches_the_proto() {
    let server = |builder: Builder| builder.build_client(false).extern_path(".inference", "::models::triton::kserve");
    renew(KSERVE, "inference", server, "lab/tests/models/kserve_server.rs");
}

#[test]
fn the_messages_of_a2a_over_grpc_match_the_proto() {
    let messages = |builder: Builder| builder.build_client(false).build_server(false);
    renew("crates/wire/src/a2a/a2a.proto", "lf.a2a.v1", messages, "crates/wire/src/a2a/proto.rs");
}

/// `cargo run -p baton-lab --bin train_router` reports their accuracy.
#[test]
fn the_weights_of_the_router_are_those_of_its_training_set() {
    const BYTES_MAX: usize = 300_000;
    let set = baton_lab::router::TrainingSet::read().expect("the training set");
    let bytes = set.train().to_bytes();
    assert!(bytes.len() <= BYTES_MAX, "{} bytes of weights are too many", bytes.len());
    let path = baton_lab::router::root().join(baton_lab::router::WEIGHTS);
    if std::fs::read(&path).unwrap_or_default() != bytes {
        std::fs::write(&path, bytes).expect("it can be written");
        panic!("{} was stale and has been renewed; measure it with `baton eval routes --rules-only` and commit it", path.display());
    }
}

/// One diagram each, as GitHub and others draw them.
#[test]
fn every_flow_is_drawn_in_the_guide() {
    const BEGIN: &str = "<!-- drawn: lab/tests/generated.rs -->\n";
    const END: &str = "<!-- end -->\n";
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let path = root.join("guide/src/flow-graphs.md");
    let text = std::fs::read_to_string(&path).expect("guide/src/flow-graphs.md");
    let (before, rest) = text.split_once(BEGIN).expect("the place where drawings begin");
    let (_, after) = rest.split_once(END).expect("the place where they end");
    let mut flows = flows::all().expect("the flows");
    flows.sort_by_key(|flow| flow.name().to_owned());
    let drawn: String = flows.iter().map(|flow| format!("\n### {}\n\n```mermaid\n{}\n```\n", flow.name(), flow.mermaid().trim_end())).collect();
    keep(&path, format!("{before}{BEGIN}{drawn}\n{END}{after}"));
}

/// Compares the code of a package of protobuf with the file that has it.
fn renew(proto: &str, package: &str, set: impl Fn(Builder) -> Builder, path: &str) {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let proto = root.join(proto);
    let includes: PathBuf = proto.parent().expect("it is in a folder").to_owned();
    let files = protox::compile([&proto], [&includes]).expect("the proto compiles");
    let out = tempfile::tempdir().expect("a directory");
    // Comments would be parsed as Markdown by rustdoc.
    let builder = tonic_prost_build::configure().build_transport(false).disable_comments(["."]).btree_map(".").out_dir(out.path());
    set(builder).compile_fds(files).expect("code is generated");
    let code = std::fs::read_to_string(out.path().join(format!("{package}.rs"))).expect("the code");
    keep(&root.join(path), code);
}

fn keep(path: &Path, wanted: String) {
    let there = std::fs::read_to_string(path).unwrap_or_default();
    if there != wanted {
        std::fs::write(path, wanted).expect("it can be written");
        panic!("{} was stale and has been renewed; look at it and commit it", path.display());
    }
}
