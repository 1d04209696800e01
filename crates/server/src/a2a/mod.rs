//! A2A 1.0: the flows as skills of one agent, and each flow as an agent of its own.
//!
//! ```text
//! GET  /.well-known/agent-card.json · /a2a/{flow}/.well-known/agent-card.json     the cards, without a token
//! POST /a2a · /a2a/{flow}                                                         JSON-RPC
//! /a2a/v1/message:send, …/tasks… · /a2a/v1/{flow}/…                               HTTP+JSON
//! POST /lf.a2a.v1.A2AService/{method}, over HTTP/2; the tenant names a flow        gRPC
//! ```
//!
//! | A2A | here |
//! |---|---|
//! | a context | a thread |
//! | a task | a run of this user that no other run started; its id is the run's |
//! | `messageId` | the idempotency key: a message that is sent again is the same task |
//! | `TASK_STATE_INPUT_REQUIRED` | a question to a person; the next message in the task answers it |
//! | artifacts `answer`, `sources` | the result |
//!
//! A request is read by [`rpc`], [`rest`] or [`grpc`], which know nothing of runs; [`send`], [`task`], [`stream`] and [`push`] know nothing of bindings. What clients say beside runs is in
//! [`history`].

pub(crate) mod card;
mod grpc;
mod history;
mod push;
mod rest;
mod rpc;
mod send;
mod stream;
mod task;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Router;
use axum::http::HeaderMap;
use axum::response::Response;
use store::Store;
use wire::a2a::error::{self, ErrorKind};
use wire::a2a::{VERSION, VERSION_HEADER};

use crate::api::Api;
use crate::guard::Identity;
use crate::problem::{Problem, StatusCode};
use crate::turn::TurnHeaders;

/// The flow that answers where nobody names one.
const DEFAULT_FLOW: &str = "auto";

/// Cheap to clone.
#[derive(Clone)]
struct A2a(Arc<Inner>);

struct Inner {
    api: Api,
    push: push::Push,
}

/// Every kind of document that is kept for users.
pub(crate) const RECORD_KINDS: [&str; 3] = [history::KIND, push::OPEN, push::DONE];

/// All routes but the cards', and the task that sends push notifications for as long as they are served.
pub(crate) fn routes(api: &Api) -> Router {
    let a2a = A2a(Arc::new(Inner { api: api.clone(), push: push::Push::new() }));
    push::spawn(&a2a);
    rpc::routes().merge(rest::routes()).merge(grpc::routes()).with_state(a2a)
}

/// Routes of HTTP+JSON and gRPC are made with the others.
pub(crate) fn no_more_routes(_: &Api) -> Router {
    Router::new()
}

/// A refusal before the request was read, in the form of JSON-RPC.
pub(crate) fn rpc_error(problem: &Problem) -> Response {
    rpc::refused(problem)
}

/// The same in the form of HTTP+JSON.
pub(crate) fn rest_error(problem: &Problem) -> Response {
    rest::refused(problem)
}

/// The same in the form of gRPC.
pub(crate) fn grpc_error(problem: &Problem) -> Response {
    grpc::refused(problem)
}

impl A2a {
    fn api(&self) -> &Api {
        &self.0.api
    }

    fn store(&self) -> &dyn Store {
        &**self.0.api.0.engine.store()
    }
}

/// The caller, the terms of the request, and the flow that the address names.
struct Caller {
    who: Identity,
    terms: TurnHeaders,
    flow: Option<String>,
}

impl Caller {
    fn of(who: Identity, headers: &HeaderMap, query: Option<&str>, flow: Option<String>) -> Result<Caller, Problem> {
        check_version(headers, query)?;
        Ok(Caller { who, terms: TurnHeaders::of(headers)?, flow })
    }
}

/// A client of another major version means something else. One that names none uses this one, or its methods do not exist.
fn check_version(headers: &HeaderMap, query: Option<&str>) -> Result<(), Problem> {
    let of_header = headers.get(VERSION_HEADER).and_then(|version| version.to_str().ok());
    let of_query = || {
        query?.split('&').find_map(|pair| pair.split_once('=').filter(|(name, _)| name.eq_ignore_ascii_case(VERSION_HEADER))).map(|(_, value)| value)
    };
    let version = of_header.or_else(of_query).unwrap_or_default().trim();
    match version.is_empty() || version == "1" || version.starts_with("1.") {
        true => Ok(()),
        false => {
            let shown: String = version.chars().take(20).collect();
            Err(refusal(error::VERSION_NOT_SUPPORTED, format!("{VERSION_HEADER} {shown} is not supported; send {VERSION}")))
        }
    }
}

fn refusal(kind: ErrorKind, message: impl Into<String>) -> Problem {
    let status = StatusCode::from_u16(kind.http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Problem::new(status, kind.reason, message)
}

fn wrong(message: impl Into<String>) -> Problem {
    refusal(error::INVALID_PARAMS, message)
}

/// The task that a request is about.
fn named(task: &str) -> Result<&str, Problem> {
    if task.is_empty() { Err(wrong("the id of the task is missing")) } else { Ok(task) }
}

fn no_task(id: &str) -> Problem {
    let shown: String = id.chars().take(100).collect();
    refusal(error::TASK_NOT_FOUND, format!("there is no task {shown:?}"))
}

/// What kind of error of A2A a problem is.
fn kind_of(problem: &Problem) -> ErrorKind {
    ErrorKind::named(problem.kind).unwrap_or_else(|| ErrorKind::of_status(problem.status.as_u16()))
}
