//! S2: one registry, many Batons. The registry is a separate process, and others use its tools by name.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::Child;

use serde_json::{Value, json};

use crate::models::bare;
use crate::{CommandOutput, Home};

/// Stopped with the test.
struct Registry {
    process: Child,
    address: String,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A file with one server, which is this program.
fn servers(home: &Home, file: &str, name: &str, kind: &str) -> PathBuf {
    let path = home.folder.path().join(file);
    let server = json!({ "command": env!("CARGO_BIN_EXE_baton"), "args": ["mcp", kind, "--stdio"] });
    std::fs::write(&path, json!({ "mcpServers": { name: server } }).to_string()).unwrap();
    path
}

/// A registry of the built-in servers and of one called `tales`.
fn registry(home: &Home, args: &[&str]) -> Registry {
    let file = servers(home, "registry.json", "tales", "stories");
    let mut command = bare(home, &["registry", "--port", "0", "--json", "--mcp", file.to_str().unwrap()]);
    let mut process = command.args(args).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let announced: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
    Registry { process, address: announced["listening"].as_str().unwrap().to_owned() }
}

fn tools(home: &Home, args: &[&str]) -> CommandOutput {
    let output = CommandOutput::of(bare(home, args).env_remove("BATON_REGISTRY_URL").output().unwrap());
    assert_eq!(output.code, Some(0), "{args:?}: {output:?}");
    output
}

/// The tools of a server, as they are listed.
fn of_server(listed: &CommandOutput, server: &str) -> Vec<Value> {
    listed.lines().into_iter().filter(|tool| tool["server"] == server).collect()
}

#[test]
fn s2_the_tools_of_a_registry_are_used_by_name_and_none_is_listed_twice() {
    let (theirs, ours) = (Home::new(), Home::new());
    let registry = registry(&theirs, &[]);
    let url = format!("http://{}", registry.address);
    let listed = tools(&ours, &["tools", "list", "--json", "--registry", &url]);
    let tales = of_server(&listed, "tales");
    assert!(tales.iter().any(|tool| tool["name"] == "tales.search_stories"), "{listed:?}");
    assert!(tales.iter().all(|tool| tool["read_only"].is_null()), "its annotations do not count: {tales:?}");
    assert_eq!(of_server(&listed, "calc").len(), 1, "built in on both sides");
    let mut names: Vec<String> = listed.lines().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all);
    let called = tools(&ours, &["tools", "call", "tales.search_stories", r#"{"query": "upstream"}"#, "--registry", &url]);
    assert!(called.out.contains("upstream"), "{called:?}");

    // A local server of that name takes precedence.
    let own = servers(&ours, "own.json", "tales", "calc");
    let listed = tools(&ours, &["tools", "list", "--json", "--registry", &url, "--mcp", own.to_str().unwrap()]);
    let names: Vec<Value> = of_server(&listed, "tales").iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, [json!("tales.calculate")]);

    // Disabled here, as a whole server; the registry's own list is not changed.
    tools(&ours, &["tools", "disable", "tales", "--registry", &url]);
    let listed = tools(&ours, &["tools", "list", "--json", "--registry", &url]);
    assert!(of_server(&listed, "tales").iter().all(|tool| tool["enabled"] == false), "{listed:?}");
    let third = Home::new();
    let listed = tools(&third, &["tools", "list", "--json", "--registry", &url]);
    assert!(of_server(&listed, "tales").iter().all(|tool| tool["enabled"] == true), "{listed:?}");
}

#[test]
fn s2_a_registry_is_configured_trusted_or_found_and_does_without() {
    let (theirs, ours) = (Home::new(), Home::new());
    let registry = registry(&theirs, &["--token", "sesame"]);
    let url = format!("http://{}", registry.address);
    let config = ours.folder.path().join("baton.toml");
    let with = |text: &str| {
        std::fs::write(&config, text).unwrap();
        let mut command = bare(&ours, &["tools", "list", "--json", "--config", config.to_str().unwrap()]);
        CommandOutput::of(command.env_remove("BATON_REGISTRY_URL").env("THEIR_TOKEN", "sesame").output().unwrap())
    };
    let trusted = with(&format!("[tools]\nregistry = \"{url}\"\nregistry_trusted = true\nregistry_token_env = \"THEIR_TOKEN\"\n"));
    let tales = of_server(&trusted, "tales");
    assert!(!tales.is_empty() && tales.iter().all(|tool| tool["read_only"] == true), "{trusted:?}");
    with("[tools]\nregistry = \"somewhere\"\n").complains(2, &["not the address of a registry", "http://host:8021"]);
    with("[tools]\nregistry_token_env = \"NOT_SET\"\nregistry = \"http://127.0.0.1:1\"\n").complains(2, &["NOT_SET"]);

    // Down: the local tools still work, with one warning. Nothing listens on this port; one that was free a moment ago may be another test's by now.
    drop(registry);
    let url = "http://127.0.0.1:1";
    let without = with(&format!("[tools]\nregistry = \"{url}\"\n"));
    assert_eq!((without.code, of_server(&without, "calc").len(), of_server(&without, "tales").len()), (Some(0), 1, 0), "{without:?}");
    let warning = format!("the registry {url} cannot be reached, so only the tools here are used");
    assert!(without.err.contains(&warning) && without.err.lines().count() == 1, "{}", without.err);

    // It is found on its default port, which the configuration can change, unless that is disabled.
    let registry = self::registry(&theirs, &[]);
    let port = registry.address.rsplit_once(':').unwrap().1;
    let found = with(&format!("[team]\nregistry_port = {port}\n"));
    assert!(!of_server(&found, "tales").is_empty(), "{found:?}");
    let off = with(&format!("[team]\nregistry_port = {port}\n[tools]\nregistry = \"off\"\n"));
    assert!(of_server(&off, "tales").is_empty() && !of_server(&off, "calc").is_empty(), "{off:?}");
}

#[test]
fn s2_a_registry_takes_no_tools_from_a_registry() {
    let (first, second, ours) = (Home::new(), Home::new(), Home::new());
    let source = registry(&first, &[]);
    let url = format!("http://{}", source.address);
    let mut command = bare(&second, &["registry", "--port", "0", "--json", "--registry", &url]);
    let mut process = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = serde_json::from_str::<Value>(&line).unwrap()["listening"].as_str().unwrap().to_owned();
    let _chained = Registry { process, address: address.clone() };
    let listed = tools(&ours, &["tools", "list", "--json", "--registry", &format!("http://{address}")]);
    assert!(of_server(&listed, "tales").is_empty() && !of_server(&listed, "calc").is_empty(), "{listed:?}");
}

#[test]
fn s2_the_registry_listens_on_its_documented_port_unless_another_is_given() {
    let help = Home::new().well(&["registry", "--help"]).out;
    assert!(help.contains("[default: 8021]"), "{help}");
}
