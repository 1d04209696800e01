//! The commands, one file each; this list names them all.

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
mod report;
mod runs;
mod serve;
mod store;
mod threads;
mod tokens;
mod tools;
mod up;
mod users;
mod worker;

use clap::Subcommand;
use service::global_args::GlobalArgs;

use crate::exit::{Exit, Result};

#[derive(Subcommand)]
pub(crate) enum Command {
    Ask(ask::Ask),
    Chat(chat::Chat),
    Report(report::Report),
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
    Store(store::Store),
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
    Worker(worker::Worker),
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
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        match self {
            Command::Ask(ask) => ask.run(globals),
            Command::Chat(chat) => chat.run(globals),
            Command::Report(report) => report.run(globals),
            Command::Serve(serve) => serve.run(globals),
            Command::Tokens(tokens) => tokens.run(globals),
            Command::Users(users) => users.run(globals),
            Command::Audit(audit) => audit.run(globals),
            Command::Backup(backup) => backup.run(globals),
            Command::Restore(restore) => restore.run(globals),
            Command::Runs(runs) => runs.run(globals),
            Command::Threads(threads) => threads.run(globals),
            Command::Store(store) => store.run(globals),
            Command::Memory(memory) => memory.run(globals),
            Command::Flows(flows) => flows.run(globals),
            Command::New(new) => new.run(),
            Command::Models(models) => models.run(globals),
            Command::Doctor(doctor) => doctor.run(globals),
            Command::Mcp(mcp) => mcp.run(globals),
            Command::Tools(tools) => tools.run(globals),
            Command::Registry(registry) => registry.run(globals),
            Command::Agent(agent) => agent.run(globals),
            Command::Up(up) => up.run(globals),
            Command::Worker(worker) => worker.run(globals),
            Command::Bench(bench) => bench.run(globals).map(|()| Exit::Well),
            Command::Index(index) => index.run(),
            Command::Eval(eval) => eval.run(globals).map(Exit::from),
            Command::EvalServer(server) => server.run().map(|()| Exit::Well),
            Command::Completions(completions) => completions.run(),
        }
    }
}
