//! The fixture server: `mcp_server --stdio`, or `mcp_server --port 0`, which prints the address. See `baton_lab::mcp::server`.

use std::net::SocketAddr;
use std::process::ExitCode;

use baton_lab::mcp::server::Fixture;
use rmcp::ServiceExt as _;
use server::guard::Guard;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(std::env::var("BATON_LOG").unwrap_or_else(|_| "warn".into())).init();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let served = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--stdio"] => stdio().await,
        ["--port", port] => match port.parse() {
            Ok(port) => http(port).await,
            Err(_) => Err(format!("{port:?} is no port")),
        },
        _ => Err("usage: mcp_server --stdio | --port N".into()),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("mcp_server: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn stdio() -> Result<(), String> {
    let service = Fixture::default().serve(rmcp::transport::stdio()).await.map_err(|error| error.to_string())?;
    service.waiting().await.map(drop).map_err(|error| error.to_string())
}

async fn http(port: u16) -> Result<(), String> {
    let guard = Guard::new(None);
    let listener = guard.bind(SocketAddr::from(([127, 0, 0, 1], port))).await.map_err(|error| error.to_string())?;
    println!("http://{}/mcp", listener.local_addr().map_err(|error| error.to_string())?);
    let fixture = Fixture::default();
    server::serve(listener, server::mcp::router(move || fixture.clone(), &guard)).await.map_err(|error| error.to_string())
}
