use std::io::Write as _;

use anstyle::Style;
use flows::context::{PREFERENCES, Preference};
use graph::UserId;
use serde_json::{Value, json};
use service::global_args::GlobalArgs;
use service::wiring;
use store::{NoteFilter, NoteRow, Store};
use terminal::{BOLD, DIM, Table, age, now_ms, one_line, paint, tail};

use crate::exit::{Exit, Result, ServiceError};

/// Show and delete remembered notes, and set preferences
#[derive(clap::Subcommand)]
#[command(after_help = AFTER_HELP)]
pub(crate) enum Memory {
    /// List remembered notes, newest first, and your preferences
    List {
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Delete one note by its number, or all of them
    #[command(group = clap::ArgGroup::new("which").required(true))]
    Forget {
        /// Its number in `baton memory list`
        #[arg(group = "which")]
        note: Option<u64>,
        #[arg(long, group = "which")]
        all: bool,
    },
    /// Set a preference, used where the request does not decide; without a choice it is removed
    Prefer {
        /// way or strict
        name: String,
        /// For way: direct or agentic. For strict: yes or no
        choice: Option<String>,
    },
}

const AFTER_HELP: &str = "\
Runs leave notes for later ones of the same flow: reason keeps plans that worked, what it thought of a request and what reflection found,
and uses them for similar requests; chat keeps what it searched in a thread for a day. Nothing is kept of a run that may have changed anything.
Notes are dropped after 30 days ([memory] days in the configuration; 0 keeps none), and go when the thread goes in which they were made.

Examples:
  baton memory list
  baton memory forget 12
  baton memory forget --all
  baton memory prefer way agentic         plan and look things up where nothing else decides
  baton memory prefer strict yes          as --strict, always
  baton memory prefer strict              as before";

impl Memory {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        wiring::block_on(async {
            let user = UserId::default();
            match self {
                Memory::List { limit, json } => list(&*globals.open().await?, user, limit, json).await,
                Memory::Forget { note, all: _ } => {
                    let count = globals.open().await?.forget(&user, note).await?;
                    match (note, count) {
                        (Some(note), 0) => Err(ServiceError::Usage(format!("there is no note {note}; `baton memory list` shows those there are"))),
                        (_, 1) => print_line("forgot 1 note"),
                        (_, count) => print_line(&format!("forgot {count} notes")),
                    }
                }
                Memory::Prefer { name, choice } => {
                    let (preference, value) = checked(&name, choice.as_deref())?;
                    // Setting a preference may be a user's first command.
                    globals.open_or_make().await?.prefer(&user, preference.name, value).await?;
                    print_line(&match choice {
                        Some(choice) => format!("{name} is {choice} from now on"),
                        None => format!("{name} is no longer set"),
                    })
                }
            }
        })
    }
}

fn checked(name: &str, choice: Option<&str>) -> Result<(&'static Preference, Option<Value>)> {
    let Some(preference) = Preference::named(name) else {
        let known: Vec<String> = PREFERENCES.iter().map(|one| format!("  {} ({}): {}", one.name, one.choices.join(" or "), one.about)).collect();
        return Err(ServiceError::Usage(format!("there is no preference {name:?}; there are:\n{}", known.join("\n"))));
    };
    let Some(choice) = choice else { return Ok((preference, None)) };
    match preference.value(choice) {
        Some(value) => Ok((preference, Some(value))),
        None => Err(ServiceError::Usage(format!("{name} is {}, not {choice:?}", preference.choices.join(" or ")))),
    }
}

async fn list(store: &dyn Store, user: UserId, limit: usize, as_json: bool) -> Result<Exit> {
    let liked = store.preferences(&user).await?;
    let notes = store.notes(NoteFilter { user, flow: None, thread: None, now_ms: now_ms(), limit }).await?;
    let mut table = Table::new(&["note", "flow", "kind", "learnt", "run", "asked"]);
    for note in &notes {
        table.row(cells(store, note).await?.map(|cell| (Style::new(), cell)));
    }
    let mut out = anstream::stdout().lock();
    if as_json {
        for (name, value) in liked {
            writeln!(out, "{}", json!({ "preference": name, "value": value }))?;
        }
        for note in notes {
            writeln!(out, "{}", serde_json::to_string(&note)?)?;
        }
        return Ok(Exit::Well);
    }
    for (name, value) in &liked {
        writeln!(out, "{} {value}", paint(BOLD, name))?;
    }
    if notes.is_empty() {
        writeln!(out, "{}", paint(DIM, "no notes; `baton ask … --flow reason` makes some when it plans"))?;
        return Ok(Exit::Well);
    }
    table.write(&mut out)?;
    Ok(Exit::Well)
}

/// A note's key is internal to its flow, so the question it came from is shown.
async fn cells(store: &dyn Store, note: &NoteRow) -> Result<[String; 6]> {
    let asked = store.run(&note.run).await?.map_or_else(String::new, |run| one_line(&run.title, 60));
    Ok([note.note.to_string(), note.flow.clone(), note.kind.clone(), age(note.created_ms, now_ms()), tail(&note.run).to_owned(), asked])
}

fn print_line(words: &str) -> Result<Exit> {
    writeln!(anstream::stdout(), "{words}")?;
    Ok(Exit::Well)
}
