//! Runs one scenario of the conformance suite with our hub. See `baton_lab::mcp::client`.

use std::process::ExitCode;
use std::time::Duration;

use baton_lab::mcp::client::{Wanted, run};

/// The suite kills at 30 s, and then its own report is lost.
const ALL_MAX: Duration = Duration::from_secs(25);

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(std::env::var("BATON_LOG").unwrap_or_else(|_| "warn".into())).init();
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let Some(address) = std::env::args().next_back().filter(|last| last.starts_with("http")) else {
        eprintln!("mcp_client: the last argument is the server's address");
        return ExitCode::from(2);
    };
    let context = env("MCP_CONFORMANCE_CONTEXT").map(|text| serde_json::from_str(&text)).transpose();
    let context = match context {
        Ok(context) => context.unwrap_or_default(),
        Err(error) => {
            eprintln!("mcp_client: MCP_CONFORMANCE_CONTEXT: {error}");
            return ExitCode::from(2);
        }
    };
    let scenario = env("MCP_CONFORMANCE_SCENARIO").unwrap_or_else(|| "initialize".into());
    // The current revision is negotiated as usual; an earlier one has to be forced.
    let revision = env("MCP_CONFORMANCE_PROTOCOL_VERSION").filter(|revision| revision.as_str() < "2026");
    let wanted = Wanted { scenario, address, revision, context };
    match tokio::time::timeout(ALL_MAX, run(&wanted)).await {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(why)) => {
            eprintln!("mcp_client: {}: {why}", wanted.scenario);
            ExitCode::FAILURE
        }
        Err(_) => {
            eprintln!("mcp_client: {}: not done within {} s", wanted.scenario, ALL_MAX.as_secs());
            ExitCode::FAILURE
        }
    }
}
