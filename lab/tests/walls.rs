//! Dependencies between crates, as reported by cargo.

use std::collections::BTreeSet;
use std::process::Command;

const PREFIX: &str = "baton-";
/// Upper limit for all packages the engine needs, itself excluded.
const ENGINE_PACKAGES_MAX: usize = 90;

/// All packages that a crate needs in a normal build, down to this depth.
fn tree(name: &str, depth: &str) -> BTreeSet<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let package = format!("{PREFIX}{name}");
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--package", &package, "--edges", "normal,build", "--prefix", "none", "--depth", depth])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names: BTreeSet<String> =
        text.lines().filter_map(|line| line.split_whitespace().next()).filter(|found| *found != package).map(str::to_owned).collect();
    names
}

#[test]
fn pure_crates_pull_in_no_runtime_no_http_no_sql() {
    let banned = [
        "tokio",
        "async-std",
        "smol",
        "futures",
        "futures-core",
        "futures-util",
        "hyper",
        "reqwest",
        "axum",
        "tonic",
        "rusqlite",
        "libsqlite3-sys",
        "tokio-postgres",
    ];
    for name in ["encoder", "evidence", "graph", "flows", "wire", "verifier"] {
        let all = tree(name, "99");
        let found: Vec<&str> = banned.into_iter().filter(|crate_name| all.contains(*crate_name)).collect();
        assert!(found.is_empty(), "{name} pulls in {found:?}");
    }
}

/// The engine and its tests build without models, tools and HTTP.
#[test]
fn the_engine_stands_alone() {
    let all = tree("engine", "99");
    for heavy in [
        "hyper",
        "reqwest",
        "axum",
        "rmcp",
        "genai",
        "candle-core",
        "tokenizers",
        "tantivy",
        "baton-models",
        "baton-mcp-hub",
        "baton-wire",
        "tokio-postgres",
    ] {
        assert!(!all.contains(heavy), "engine pulls in {heavy}");
    }
    assert!(all.len() < ENGINE_PACKAGES_MAX, "engine pulls in {} packages", all.len());
}

#[test]
fn sql_is_in_store_and_http_in_the_crates_that_call_out() {
    for name in ["graph", "flows", "wire", "effects", "models", "mcp-hub", "agents", "server"] {
        assert!(!tree(name, "1").contains("rusqlite"), "{name} depends on SQL");
    }
    for name in ["graph", "flows", "wire", "store", "effects", "engine", "scripted", "structured"] {
        let direct = tree(name, "1");
        for http in ["hyper", "reqwest", "axum", "tonic"] {
            assert!(!direct.contains(http), "{name} depends on {http}");
        }
    }
}

#[test]
fn each_crate_depends_only_on_the_crates_listed_here() {
    let allowed: &[(&str, &[&str])] = &[
        ("audit", &[]),
        ("call-limits", &[]),
        ("turns", &[]),
        ("secret", &[]),
        ("evidence", &[]),
        ("encoder", &[]),
        ("verifier", &["encoder", "evidence"]),
        ("graph", &[]),
        ("download", &[]),
        ("index", &["download", "encoder", "turns"]),
        ("wire", &[]),
        ("effects", &["evidence", "graph"]),
        ("structured", &["effects"]),
        ("scripted", &["effects", "graph"]),
        ("flows", &["evidence", "graph"]),
        ("tools", &["evidence", "index", "secret", "turns"]),
        ("models", &["call-limits", "effects", "evidence", "graph", "secret", "structured"]),
        ("embedded-model", &["download", "effects", "evidence", "graph", "models"]),
        ("mcp-hub", &["effects", "evidence", "graph", "structured", "wire"]),
        ("agents", &["effects", "evidence", "graph", "structured", "wire"]),
        ("store", &["call-limits", "graph", "turns"]),
        ("store-postgres", &["call-limits", "graph", "store"]),
        ("engine", &["effects", "graph", "store", "turns"]),
        ("engine-restate", &["effects", "engine", "graph", "store"]),
        ("server", &["agents", "audit", "effects", "engine", "evidence", "graph", "mcp-hub", "secret", "store", "structured", "turns", "wire"]),
        ("terminal", &["evidence", "graph"]),
        ("service", SERVICE),
        ("measure", MEASURE),
        ("cli", CLI),
    ];
    for &(name, allowed) in allowed {
        let found: Vec<String> = tree(name, "1")
            .into_iter()
            .filter_map(|found| found.strip_prefix(PREFIX).map(str::to_owned))
            .filter(|found| !allowed.contains(&found.as_str()))
            .collect();
        assert!(found.is_empty(), "{name} may not depend on {found:?}");
    }
}

/// Dependencies allowed for `service`: every crate below it.
const SERVICE: &[&str] = &[
    "agents",
    "audit",
    "effects",
    "embedded-model",
    "encoder",
    "engine",
    "engine-restate",
    "evidence",
    "flows",
    "graph",
    "index",
    "mcp-hub",
    "models",
    "scripted",
    "server",
    "store",
    "store-postgres",
    "tools",
    "turns",
    "verifier",
    "wire",
];

/// Dependencies allowed for `measure`.
const MEASURE: &[&str] = &[
    "effects",
    "embedded-model",
    "engine",
    "engine-restate",
    "evidence",
    "flows",
    "graph",
    "index",
    "mcp-hub",
    "models",
    "server",
    "service",
    "store",
    "store-postgres",
    "structured",
    "terminal",
    "tools",
    "verifier",
    "wire",
];

/// Dependencies allowed for `cli`. It does no configuration and wiring itself, so it needs neither agents, scripts nor the verifier.
const CLI: &[&str] = &[
    "audit",
    "effects",
    "embedded-model",
    "engine",
    "evidence",
    "flows",
    "graph",
    "index",
    "mcp-hub",
    "measure",
    "models",
    "server",
    "service",
    "store",
    "terminal",
    "tools",
    "wire",
];
