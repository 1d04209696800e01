//! The loop of a session. Store, engine, model and tools stay as they are between messages; only another model or other documents make them anew.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::{At, Engine};
use flows::input::ModelProfile;
use graph::{Outcome, RunId, ThreadId};
use serde_json::{Map, Value};
use service::asking::{self, AskOptions};
use service::config::Config;
use service::hub;
use service::mind::Thinking;
use service::place::Place;
use service::wiring;
use store::{SqliteStore, Store as _};
use terminal::remark;
use terminal::{BOLD, DIM, count, one_line, paint, tail};

use super::slash::{self, Slash};
use crate::answer::Answer;
use crate::editor::{self, Editor, Typed, Words};
use crate::exit::{self, Exit, Result, Trouble};
use crate::follow::{self, Interrupts, OnInterrupt};
use crate::settings_table;

pub(super) fn run(options: AskOptions, place: &Place) -> Result<Exit> {
    let flow = asking::flow(options.flow.as_deref(), place)?;
    if options.approve {
        asking::must_plan(&flow, &place.flows)?;
    }
    let thread = options.thread()?;
    let settings = BTreeMap::from([(flow.clone(), options.settings(&flow, place)?)]);
    wiring::block_on(async {
        let store = Arc::new(place.open_or_make()?);
        let (engine, mind) = wiring::engine_over(store.clone(), place, &options.thinking, false).await?;
        let thread = thread.unwrap_or_else(new_thread);
        let mut session = Session { place, store, engine, mind, flow, thread, options, settings, last: None, exit: Exit::Well };
        session.talk().await
    })
}

struct Session<'a> {
    place: &'a Place,
    store: Arc<SqliteStore>,
    engine: Engine,
    mind: ModelProfile,
    flow: String,
    thread: ThreadId,
    /// As they are by now.
    options: AskOptions,
    /// What was set for each flow, with `--set` or `/set`; it counts while that flow answers.
    settings: BTreeMap<String, Map<String, Value>>,
    last: Option<Answer>,
    /// That of the first message that did not go well.
    exit: Exit,
}

/// Where messages come from.
enum Source {
    Terminal(Box<Editor>),
    Pipe,
}

/// How long what is in flight may take when the model is changed.
const GRACE: Duration = Duration::from_secs(3);
const PROMPT: &str = "› ";

impl Session<'_> {
    async fn talk(&mut self) -> Result<Exit> {
        let mut interrupts = Interrupts::listen()?;
        let mut source = self.source()?;
        if let Source::Terminal(_) = source {
            let thread = self.about_thread().await?;
            remark(&paint(DIM, format!("{thread}; flow {}. /help lists the commands, Ctrl-D ends", self.flow)));
        }
        loop {
            let typed = match source.read(&mut interrupts).await? {
                Typed::Line(line) => line,
                Typed::Interrupted => continue,
                Typed::End => break,
                Typed::Leave(exit) => return Ok(exit),
            };
            let done = match (typed.trim(), slash::parse(typed.trim())) {
                ("", _) => continue,
                (_, Some(Ok(Slash::Quit))) => break,
                (_, Some(Ok(slash))) => self.command(slash).await,
                (_, Some(Err(why))) => Err(Trouble::Usage(why)),
                (message, None) => self.message(message).await,
            };
            // Signals that came meanwhile were for the run.
            interrupts = Interrupts::listen()?;
            match done {
                Ok(exit @ Exit::Terminated) => return Ok(exit),
                Ok(exit) => self.note(exit),
                // Nobody reads what would be answered.
                Err(trouble @ Trouble::Output(_)) => return Err(trouble),
                Err(trouble) => {
                    let exit = exit::tell(&trouble);
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
        let order = self.options.request(&self.flow, question, Some(self.thread.clone()), self.place, &set)?.order(self.mind)?;
        let (run, exit) = follow::drive(&self.engine, order, false, OnInterrupt::Cancel).await?;
        if let Some(answer) = answered(&self.engine, &run).await? {
            self.last = Some(answer);
        }
        Ok(exit)
    }

    async fn command(&mut self, slash: Slash<'_>) -> Result<Exit> {
        match slash {
            Slash::Flow(None) => {
                let listed = self.place.flows.iter().filter(|flow| flow.visibility == flows::Visibility::Listed);
                let known: Vec<&str> = listed.map(|flow| flow.name).collect();
                say(&format!("{}; there are: {}", self.flow, known.join(", ")))?;
            }
            Slash::Flow(Some(named)) => {
                let flow = asking::flow(Some(named), self.place)?;
                if self.options.approve {
                    asking::must_plan(&flow, &self.place.flows)?;
                }
                self.flow = flow;
                remark(&format!("flow {}", self.flow));
            }
            Slash::Model(None) => say(self.options.thinking.model.as_deref().unwrap_or("the one `baton doctor` names"))?,
            Slash::Model(Some(named)) => self.change(|thinking| thinking.model = Some(named.to_owned())).await?,
            Slash::Docs(None) => {
                let folders: Vec<String> = self.options.thinking.servers.docs.iter().map(|folder| folder.display().to_string()).collect();
                say(if folders.is_empty() { "none".to_owned() } else { folders.join("\n") }.as_str())?;
            }
            Slash::Docs(Some("-")) => self.change(|thinking| thinking.servers.docs.clear()).await?,
            Slash::Docs(Some(named)) => {
                let folder = folder(named);
                if !folder.is_dir() {
                    return Err(Trouble::Usage(format!("{} is no folder", folder.display())));
                }
                self.change(|thinking| thinking.servers.docs = vec![folder.clone()]).await?;
                remark(&format!("documents of {}", folder.display()));
            }
            Slash::Sources => match &self.last {
                Some(answer) => say(&answer.details())?,
                None => say("nothing was answered yet")?,
            },
            Slash::Thread(None) => say(&self.about_thread().await?)?,
            Slash::Thread(Some(named)) => {
                self.thread = asking::thread(named)?;
                remark(&self.about_thread().await?);
            }
            Slash::New => {
                self.thread = new_thread();
                remark(&self.about_thread().await?);
            }
            Slash::Strict => {
                self.options.strict = !self.options.strict;
                remark(if self.options.strict { "what nothing supports is removed" } else { "what nothing supports is marked" });
            }
            Slash::Set(None) => say(&self.settings_table()?)?,
            Slash::Set(Some(pair)) => self.set(pair)?,
            Slash::Help => say(&slash::help())?,
            // The loop ends with it.
            Slash::Quit => {}
        }
        Ok(Exit::Well)
    }

    /// `KEY=VALUE` sets, `KEY` takes back.
    fn set(&mut self, pair: &str) -> Result<()> {
        let set = self.settings.entry(self.flow.clone()).or_default();
        if !pair.contains('=') && set.remove(pair).is_some() {
            remark(&format!("{pair} is not set any more"));
            return Ok(());
        }
        let (key, value) = self.place.flows.parse_setting(&self.flow, pair).map_err(|error| Trouble::Usage(error.to_string()))?;
        remark(&format!("{key} = {}", settings_table::value_text(&value)));
        set.insert(key, value);
        Ok(())
    }

    fn settings_table(&self) -> Result<String> {
        let all = Config::for_run(self.place)?.settings.list(&self.flow);
        if all.is_empty() {
            return Ok(format!("the flow {} has no settings", self.flow));
        }
        let set = self.settings.get(&self.flow).into_iter().flatten();
        let set: Vec<String> = set.map(|(key, value)| format!("\n{key} = {}", settings_table::value_text(value))).collect();
        Ok(format!("{}{}", settings_table::table(&all), set.concat()))
    }

    /// Makes the world anew; if that fails, everything stays as it was.
    async fn change(&mut self, change: impl FnOnce(&mut Thinking)) -> Result<()> {
        let thinking = &mut self.options.thinking;
        let before = (thinking.model.clone(), thinking.servers.docs.clone());
        change(thinking);
        match wiring::engine_over(self.store.clone(), self.place, thinking, false).await {
            Ok((engine, mind)) => {
                let old = std::mem::replace(&mut self.engine, engine);
                self.mind = mind;
                old.stop(GRACE).await;
                Ok(())
            }
            Err(trouble) => {
                (thinking.model, thinking.servers.docs) = before;
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
        let flows: Vec<String> = self.place.flows.names().into_iter().map(str::to_owned).collect();
        let words = Words {
            first: slash::ALL.iter().map(|(name, _, _)| (*name).to_owned()).collect(),
            after: vec![("/flow".to_owned(), flows)],
            files_after: vec!["/docs".to_owned()],
            ..Words::default()
        };
        let history = hub::folder(self.place)?.join("chat.history");
        Ok(Source::Terminal(Box::new(Editor::remembering(words, &history)?)))
    }
}

impl Source {
    async fn read(&mut self, interrupts: &mut Interrupts) -> Result<Typed> {
        match self {
            Source::Terminal(editor) => editor.read(PROMPT, interrupts).await,
            Source::Pipe => tokio::select! {
                line = piped() => line,
                exit = interrupts.next() => Ok(Typed::Leave(exit)),
            },
        }
    }
}

/// The next message of a pipe: a line, or several that end in a backslash.
async fn piped() -> Result<Typed> {
    let read = tokio::task::spawn_blocking(|| {
        let mut message = String::new();
        loop {
            let bytes = std::io::stdin().read_line(&mut message)?;
            let line = message.trim_end_matches(['\r', '\n']);
            match bytes {
                0 if line.is_empty() => return Ok::<_, std::io::Error>(Typed::End),
                0 => return Ok(Typed::Line(editor::joined(line))),
                _ if !editor::goes_on(line) => return Ok(Typed::Line(editor::joined(line))),
                _ => {}
            }
        }
    });
    Ok(read.await.map_err(std::io::Error::other)??)
}

/// What the run answered, if it did.
async fn answered(engine: &Engine, run: &RunId) -> Result<Option<Answer>> {
    Ok(match engine.at(run).await? {
        At::Over(closing) => match &closing.outcome {
            Outcome::Done { output } => Some(Answer::of(output, None)),
            Outcome::Failed { .. } | Outcome::Cancelled { .. } => None,
        },
        At::Going | At::Parked(_) | At::Lost(_) => None,
    })
}

/// Short enough to be typed again.
fn new_thread() -> ThreadId {
    ThreadId::from(format!("chat-{}", tail(&engine::fresh())))
}

/// As a shell would read it.
fn folder(named: &str) -> PathBuf {
    let named = named.replace("\\ ", " ");
    match (named.strip_prefix('~').map(|rest| rest.trim_start_matches('/')), dirs::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(named),
    }
}

fn say(words: &str) -> Result<()> {
    Ok(writeln!(anstream::stdout(), "{words}")?)
}
