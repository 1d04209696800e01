//! Baton's service as a library: what `baton serve` runs, for a program of your own.
//!
//! ```no_run
//! use baton_service::{Bind, GlobalArgs, Service, ModelOptions};
//!
//! # async fn start() -> baton_service::Result<()> {
//! // The database, the configuration file and the flows.
//! let globals = GlobalArgs::new("baton.db".into(), "baton.toml".into());
//! // The address and who may call; `Bind::default()` is a free port of 127.0.0.1 for this account.
//! let bound = Bind::default().bind(&globals).await?;
//! println!("http://{}", bound.address);
//! let service = Service::build(&globals, &mut ModelOptions::default(), bound.guard.clone(), bound.store.clone(), true).await?;
//! // Serves until the future is ready, then stops the engine; unfinished runs go on at the next start.
//! service.serve(bound.listener, async { tokio::signal::ctrl_c().await.unwrap_or_default() }).await
//! # }
//! ```
//!
//! - [`GlobalArgs`] has where everything is, [`Config`] is the configuration file, [`ModelOptions`] chooses models and tools.
//! - [`Service`] is the engine, the API, the page, the tool registry and LangServe's routes in one.
//! - [`notices`] receives what a person may want to know meanwhile. This crate prints nothing.
//!
//! The modules that are hidden here are used by Baton's own programs; their interfaces change without notice.

#![warn(missing_docs)]

#[doc(hidden)]
pub mod access;
#[doc(hidden)]
pub mod audited;
mod backend;
mod budget;
#[doc(hidden)]
pub mod caches;
mod chosen_sources;
#[doc(hidden)]
pub mod config;
mod error;
mod excerpt;
#[doc(hidden)]
pub mod export;
pub mod global_args;
#[doc(hidden)]
pub mod hub;
mod keys;
#[doc(hidden)]
pub mod langserve_flows;
mod library;
#[doc(hidden)]
pub mod model_options;
mod model_test;
pub mod notices;
mod owner;
mod performing;
#[doc(hidden)]
pub mod private;
#[doc(hidden)]
pub mod pull;
mod rank;
#[doc(hidden)]
pub mod reader;
#[doc(hidden)]
pub mod restate;
#[doc(hidden)]
pub mod run_request;
mod sample;
pub mod selected_model;
mod server_section;
mod service;
#[doc(hidden)]
pub mod settings;
mod shared_outbox;
mod shared_tools;
mod shared_uploads;
mod shared_work;
pub mod signals;
#[doc(hidden)]
pub mod store_at;
#[doc(hidden)]
pub mod text_model;
#[doc(hidden)]
pub mod thread_files;
mod tool_access;
#[doc(hidden)]
pub mod typed_answer;
#[doc(hidden)]
pub mod uploads;
mod user_tool_filter;
#[doc(hidden)]
pub mod waiting;
#[doc(hidden)]
pub mod wiring;

#[cfg(test)]
mod tests;

pub use access::{Bind, BoundServer, TlsFiles};
pub use config::Config;
pub use error::{Result, ServiceError};
pub use global_args::GlobalArgs;
pub use model_options::ModelOptions;
pub use service::Service;
