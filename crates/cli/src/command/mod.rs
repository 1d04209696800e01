//! The commands. Each is a file with its arguments and what it does; this list names them all.

mod agent;
mod ask;
mod audit;
mod backup;
mod chat;
mod completions;
mod doctor;
mod flows;
mod index;
mod mcp;
mod memory;
mod models;
mod new;
mod registry;
mod runs;
mod serve;
mod threads;
mod tokens;
mod tools;
mod up;
mod users;

use clap::Subcommand;
use service::place::Place;

use crate::exit::{Exit, Result};

#[derive(Subcommand)]
pub(crate) enum Command {
    Ask(ask::Ask),
    Chat(chat::Chat),
    Serve(serve::Serve),
    #[command(subcommand)]
    Tokens(tokens::Tokens),
    #[command(subcommand)]
    Users(users::Users),
    #[command(subcommand)]
    Audit(audit::Audit),
    Backup(backup::Backup),
    Restore(backup::Restore),
    #[command(subcommand)]
    Runs(runs::Runs),
    #[command(subcommand)]
    Threads(threads::Threads),
    #[command(subcommand)]
    Memory(memory::Memory),
    Flows(flows::Flows),
    #[command(subcommand)]
    New(new::New),
    Mcp(mcp::Mcp),
    #[command(subcommand)]
    Models(models::Models),
    Doctor(doctor::Doctor),
    #[command(subcommand)]
    Tools(tools::Tools),
    Registry(registry::Registry),
    Agent(agent::Agent),
    Up(up::Up),
    #[command(subcommand)]
    Bench(measure::Bench),
    Index(index::Index),
    #[command(subcommand)]
    Eval(measure::Eval),
    #[command(hide = true)]
    EvalServer(measure::EvalServer),
    Completions(completions::Completions),
}

impl Command {
    pub(crate) fn run(self, place: &Place) -> Result<Exit> {
        match self {
            Command::Ask(ask) => ask.run(place),
            Command::Chat(chat) => chat.run(place),
            Command::Serve(serve) => serve.run(place),
            Command::Tokens(tokens) => tokens.run(place),
            Command::Users(users) => users.run(place),
            Command::Audit(audit) => audit.run(place),
            Command::Backup(backup) => backup.run(place),
            Command::Restore(restore) => restore.run(place),
            Command::Runs(runs) => runs.run(place),
            Command::Threads(threads) => threads.run(place),
            Command::Memory(memory) => memory.run(place),
            Command::Flows(flows) => flows.run(place),
            Command::New(new) => new.run(),
            Command::Models(models) => models.run(place),
            Command::Doctor(doctor) => doctor.run(place),
            Command::Mcp(mcp) => mcp.run(place),
            Command::Tools(tools) => tools.run(place),
            Command::Registry(registry) => registry.run(place),
            Command::Agent(agent) => agent.run(place),
            Command::Up(up) => up.run(place),
            Command::Bench(bench) => bench.run().map(|()| Exit::Well),
            Command::Index(index) => index.run(),
            Command::Eval(eval) => eval.run(place).map(Exit::from),
            Command::EvalServer(server) => server.run().map(|()| Exit::Well),
            Command::Completions(completions) => completions.run(),
        }
    }
}
