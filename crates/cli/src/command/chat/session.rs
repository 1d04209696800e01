//! The loop of a session. Store, engine, model and tools are kept between messages; only a change of model or documents creates them again.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, RunState};
use flows::input::ModelProfile;
use graph::{Outcome, RunId, ThreadId};
use serde_json::{Map, Value};
use service::config::Config;
use service::global_args::GlobalArgs;
use service::hub;
use service::model_options::ModelOptions;
use service::run_request::{self, AskOptions};
use service::wiring;
use store::Store;
use terminal::remark;
use terminal::{BOLD, DIM, count, one_line, paint, tail};

use super::slash::{self, SlashCommand};
use crate::answer::Answer;
use crate::editor::{self, Editor, LineInput, Words};
use crate::exit::{self, Exit, Result, ServiceError};
use crate::follow::{self, Interrupts, OnInterrupt};
use crate::settings_table;

pub(super) fn run(options: AskOptions, globals: &GlobalArgs) -> Result<Exit> {
    let flow = run_request::flow(options.flow.as_deref(), globals)?;
    if options.approve {
        run_request::check_can_approve(&flow, &globals.flows)?;
    }
    let thread = options.thread()?;
    let settings = BTreeMap::from([(flow.clone(), options.settings(&flow, globals)?)]);
    wiring::block_on(async {
        let store = globals.open_or_make().await?;
        let (engine, profile) = wiring::engine_over(store.clone(), globals, &options.model_options, false).await?;
        let thread = thread.unwrap_or_else(new_thread);
        let mut session = Session { globals, store, engine, profile, flow, thread, options, settings, last: None, exit: Exit::Well };
        session.run_loop().await
    })
}

struct Session<'a> {
    globals: &'a GlobalArgs,
    store: Arc<dyn Store>,
    engine: Engine,
    profile: ModelProfile,
    flow: String,
    thread: ThreadId,
    /// The current options.
    options: AskOptions,
    /// Settings of each flow, from `--set` or `/set`; used while that flow answers.
    settings: BTreeMap<String, Map<String, Value>>,
    last: Option<Answer>,
    /// The exit code of the first message that failed.
    exit: Exit,
}

/// Source of messages.
enum Source {
    Terminal(Box<Editor>),
    Pipe,
}

/// Time for effects in flight when the model is changed.
const GRACE: Duration = Duration::from_secs(3);
const PROMPT: &str = "› ";

impl Session<'_> {
    async fn run_loop(&mut self) -> Result<Exit> {
        let mut interrupts = Interrupts::listen()?;
        let mut source = self.source()?;
        if let Source::Terminal(_) = source {
            let thread = self.about_thread().await?;
            remark(&paint(DIM, format!("{thread}; flow {}. /help lists the commands, Ctrl-D ends", self.flow)));
        }
        loop {
            let typed = match source.read(&mut interrupts).await? {
                LineInput::Line(line) => line,
                LineInput::Interrupted => continue,
                LineInput::End => break,
                LineInput::Leave(exit) => return Ok(exit),
            };
            let done = match (typed.trim(), slash::parse(typed.trim())) {
                ("", _) => continue,
                (_, Some(Ok(SlashCommand::Quit))) => break,
                (_, Some(Ok(slash))) => self.command(slash).await,
                (_, Some(Err(why))) => Err(ServiceError::Usage(why)),
                (message, None) => self.message(message).await,
            };
            // Signals received in the meantime were meant for the run.
            interrupts = Interrupts::listen()?;
            match done {
                Ok(exit @ Exit::Terminated) => return Ok(exit),
                Ok(exit) => self.note(exit),
                // Nothing can read the answer.
                Err(trouble @ ServiceError::Output(_)) => return Err(trouble),
                Err(trouble) => {
                    let exit = exit::print_error(&trouble);
                    self.note(exit);
                }
            }
        }
        if self.store.thread(&self.thread).await?.is_some() {
            remark(&format!("go on with: {}", paint(BOLD, format!("baton chat --thread {}", self.thread))));
        }
        Ok(if matches!(source, Source::Pipe) { self.exit } else { Exit::Well })
    }

    fn note(&mut self, exit: Exit) {
        if self.exit == Exit::Well {
            self.exit = exit;
        }
    }

    async fn message(&mut self, question: &str) -> Result<Exit> {
        let set = self.settings.get(&self.flow).cloned().unwrap_or_default();
        let order = self.options.request(&self.flow, question, Some(self.thread.clone()), self.globals, &set)?.order(self.profile)?;
        let (run, exit) = follow::drive(&self.engine, order, false, OnInterrupt::Cancel).await?;
        if let Some(answer) = answered(&self.engine, &run).await? {
            self.last = Some(answer);
        }
        Ok(exit)
    }

    async fn command(&mut self, slash: SlashCommand<'_>) -> Result<Exit> {
        match slash {
            SlashCommand::Flow(None) => {
                let listed = self.globals.flows.iter().filter(|flow| flow.visibility == flows::Visibility::Listed);
                let known: Vec<&str> = listed.map(|flow| flow.name).collect();
                print_line(&format!("{}; there are: {}", self.flow, known.join(", ")))?;
            }
            SlashCommand::Flow(Some(named)) => {
                let flow = run_request::flow(Some(named), self.globals)?;
                if self.options.approve {
                    run_request::check_can_approve(&flow, &self.globals.flows)?;
                }
                self.flow = flow;
                remark(&format!("flow {}", self.flow));
            }
            SlashCommand::Model(None) => print_line(self.options.model_options.model.as_deref().unwrap_or("the one `baton doctor` names"))?,
            SlashCommand::Model(Some(named)) => self.change(|model_options| model_options.model = Some(named.to_owned())).await?,
            SlashCommand::Docs(None) => {
                let folders: Vec<String> = self.options.model_options.servers.docs.iter().map(|folder| folder.display().to_string()).collect();
                print_line(if folders.is_empty() { "none".to_owned() } else { folders.join("\n") }.as_str())?;
            }
            SlashCommand::Docs(Some("-")) => self.change(|model_options| model_options.servers.docs.clear()).await?,
            SlashCommand::Docs(Some(named)) => {
                let folder = folder(named);
                if !folder.is_dir() {
                    return Err(ServiceError::Usage(format!("{} is no folder", folder.display())));
                }
                self.change(|model_options| model_options.servers.docs = vec![folder.clone()]).await?;
                remark(&format!("documents of {}", folder.display()));
            }
            SlashCommand::Sources => match &self.last {
                Some(answer) => print_line(&answer.details())?,
                None => print_line("nothing was answered yet")?,
            },
            SlashCommand::Thread(None) => print_line(&self.about_thread().await?)?,
            SlashCommand::Thread(Some(named)) => {
                self.thread = run_request::thread(named)?;
                remark(&self.about_thread().await?);
            }
            SlashCommand::New => {
                self.thread = new_thread();
                remark(&self.about_thread().await?);
            }
            SlashCommand::Strict => {
                self.options.strict = !self.options.strict;
                remark(if self.options.strict { "what nothing supports is removed" } else { "what nothing supports is marked" });
            }
            SlashCommand::Set(None) => print_line(&self.settings_table()?)?,
            SlashCommand::Set(Some(pair)) => self.set(pair)?,
            SlashCommand::Help => print_line(&slash::help())?,
            // Ends the loop.
            SlashCommand::Quit => {}
        }
        Ok(Exit::Well)
    }

    /// `KEY=VALUE` sets, `KEY` resets.
    fn set(&mut self, pair: &str) -> Result<()> {
        let set = self.settings.entry(self.flow.clone()).or_default();
        if !pair.contains('=') && set.remove(pair).is_some() {
            remark(&format!("{pair} is not set any more"));
            return Ok(());
        }
        let (key, value) = self.globals.flows.parse_setting(&self.flow, pair).map_err(|error| ServiceError::Usage(error.to_string()))?;
        remark(&format!("{key} = {}", settings_table::value_text(&value)));
        set.insert(key, value);
        Ok(())
    }

    fn settings_table(&self) -> Result<String> {
        let all = Config::for_run(self.globals)?.settings.list(&self.flow);
        if all.is_empty() {
            return Ok(format!("the flow {} has no settings", self.flow));
        }
        let set = self.settings.get(&self.flow).into_iter().flatten();
        let set: Vec<String> = set.map(|(key, value)| format!("\n{key} = {}", settings_table::value_text(value))).collect();
        Ok(format!("{}{}", settings_table::table(&all), set.concat()))
    }

    /// Creates model and tools again; on failure the previous ones are kept.
    async fn change(&mut self, change: impl FnOnce(&mut ModelOptions)) -> Result<()> {
        let model_options = &mut self.options.model_options;
        let before = (model_options.model.clone(), model_options.servers.docs.clone());
        change(model_options);
        match wiring::engine_over(self.store.clone(), self.globals, model_options, false).await {
            Ok((engine, profile)) => {
                let old = std::mem::replace(&mut self.engine, engine);
                self.profile = profile;
                old.stop(GRACE).await;
                Ok(())
            }
            Err(trouble) => {
                (model_options.model, model_options.servers.docs) = before;
                Err(trouble)
            }
        }
    }

    async fn about_thread(&self) -> Result<String> {
        let row = self.store.thread(&self.thread).await?;
        let about = row.map(|row| format!(", {}: {}", count(row.messages, "message", "messages"), one_line(&row.title, 60)));
        Ok(format!("thread {}{}", self.thread, about.unwrap_or_else(|| ", new".to_owned())))
    }

    fn source(&self) -> Result<Source> {
        if !std::io::stdin().is_terminal() {
            return Ok(Source::Pipe);
        }
        let flows: Vec<String> = self.globals.flows.names().into_iter().map(str::to_owned).collect();
        let words = Words {
            first: slash::ALL.iter().map(|(name, _, _)| (*name).to_owned()).collect(),
            after: vec![("/flow".to_owned(), flows)],
            files_after: vec!["/docs".to_owned()],
            ..Words::default()
        };
        let history = hub::folder(self.globals)?.join("chat.history");
        Ok(Source::Terminal(Box::new(Editor::remembering(words, &history)?)))
    }
}

impl Source {
    async fn read(&mut self, interrupts: &mut Interrupts) -> Result<LineInput> {
        match self {
            Source::Terminal(editor) => editor.read(PROMPT, interrupts).await,
            Source::Pipe => tokio::select! {
                line = piped() => line,
                exit = interrupts.next() => Ok(LineInput::Leave(exit)),
            },
        }
    }
}

/// The next piped message: a line, or several joined by trailing backslashes.
async fn piped() -> Result<LineInput> {
    let read = tokio::task::spawn_blocking(|| {
        let mut message = String::new();
        loop {
            let bytes = std::io::stdin().read_line(&mut message)?;
            let line = message.trim_end_matches(['\r', '\n']);
            match bytes {
                0 if line.is_empty() => return Ok::<_, std::io::Error>(LineInput::End),
                0 => return Ok(LineInput::Line(editor::joined(line))),
                _ if !editor::is_continued(line) => return Ok(LineInput::Line(editor::joined(line))),
                _ => {}
            }
        }
    });
    Ok(read.await.map_err(std::io::Error::other)??)
}

/// The run's answer, if there is one.
async fn answered(engine: &Engine, run: &RunId) -> Result<Option<Answer>> {
    Ok(match engine.at(run).await? {
        RunState::Over(closing) => match &closing.outcome {
            Outcome::Done { output } => Some(Answer::of(output, None)),
            Outcome::Failed { .. } | Outcome::Cancelled { .. } => None,
        },
        RunState::Going | RunState::Parked(_) | RunState::Lost(_) => None,
    })
}

/// Short enough to type.
fn new_thread() -> ThreadId {
    ThreadId::from(format!("chat-{}", tail(&engine::new_run_id())))
}

/// Expands `~` like a shell.
fn folder(named: &str) -> PathBuf {
    let named = named.replace("\\ ", " ");
    match (named.strip_prefix('~').map(|rest| rest.trim_start_matches('/')), dirs::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(named),
    }
}

fn print_line(words: &str) -> Result<()> {
    Ok(writeln!(anstream::stdout(), "{words}")?)
}
