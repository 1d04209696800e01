//! How the program ends: an exit code for scripts, and for people what went wrong with what to do about it.

use std::io::Write as _;
use std::process::ExitCode;

use engine::EngineError;
use store::StoreError;

pub(crate) type Result<T> = std::result::Result<T, Trouble>;

/// The codes `baton --help` promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Well,
    Failed,
    Usage,
    Store,
    Asking,
    Interrupted,
    Terminated,
}

/// What they mean, for `--help`.
const CODES: &str = "\
Exit codes:
    0  it went well
    1  the run failed or was cancelled, a check found a difference, or something outside did not work
    2  wrong usage: an unknown option, run, thread, flow or model, or a wrong configuration
    3  the database cannot be used
    4  the run waits for a person; the way to answer was printed
  130  interrupted; an unfinished run can be resumed (143 when terminated)";

/// A help text that ends with them.
pub(crate) fn with_codes(help: &str) -> String {
    format!("{help}\n\n{CODES}")
}

impl Exit {
    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Exit::Well => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Store => 3,
            Exit::Asking => 4,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
        })
    }
}

/// What stopped a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("{0}")]
    Usage(String),
    /// A check found something, or something outside did not work.
    #[error("{0}")]
    Failed(String),
    /// The place of the database, before there is a store.
    #[error("{0}")]
    Place(String),
    /// Somebody pressed Ctrl-C before there was a run.
    #[error("{1}")]
    Stopped(Exit, String),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("writing failed: {0}")]
    Output(#[from] std::io::Error),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Trouble::Engine(error.into())
    }
}

impl From<serde_json::Error> for Trouble {
    fn from(error: serde_json::Error) -> Self {
        Trouble::Output(error.into())
    }
}

impl Trouble {
    pub(crate) fn tell(&self) -> Exit {
        // Whoever read our output had enough of it, as `head` does.
        if matches!(self, Trouble::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe) {
            return Exit::Well;
        }
        let red = anstyle::AnsiColor::Red.on_default().bold();
        // Nowhere is left to complain to.
        let _ = writeln!(anstream::stderr(), "{red}baton:{red:#} {self}{}", self.hint().map(|hint| format!("\n{hint}")).unwrap_or_default());
        self.exit()
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Trouble::Usage(_) => Exit::Usage,
            Trouble::Failed(_) | Trouble::Output(_) => Exit::Failed,
            Trouble::Place(_) => Exit::Store,
            Trouble::Stopped(exit, _) => *exit,
            Trouble::Engine(error) => exit_of(error),
        }
    }

    /// The next step, where the error itself does not say.
    fn hint(&self) -> Option<String> {
        match self {
            Trouble::Engine(EngineError::Store(StoreError::Held { thread, .. })) => {
                Some(format!("`baton runs watch` shows what it does; `baton threads show {thread}` shows the thread"))
            }
            Trouble::Engine(EngineError::Store(StoreError::Open { .. })) => {
                Some("check the path and its rights, or name another file with --db".into())
            }
            Trouble::Engine(EngineError::NoStep { run, .. }) => Some(format!("`baton runs show {run}` shows its steps")),
            Trouble::Engine(EngineError::Crashed { run, .. }) => Some(format!("`baton runs replay {run}` tries it again without touching anything")),
            Trouble::Usage(_) | Trouble::Failed(_) | Trouble::Place(_) | Trouble::Stopped(..) | Trouble::Engine(_) | Trouble::Output(_) => None,
        }
    }
}

fn exit_of(error: &EngineError) -> Exit {
    match error {
        EngineError::NoFlow { .. } | EngineError::Over { .. } | EngineError::NoStep { .. } | EngineError::Feed(_) => Exit::Usage,
        EngineError::Run(graph::RunError::Input { .. } | graph::RunError::Edit { .. }) => Exit::Usage,
        EngineError::Store(StoreError::NoRun { .. } | StoreError::NoThread { .. } | StoreError::NotYours { .. } | StoreError::Exists { .. }) => {
            Exit::Usage
        }
        EngineError::Store(StoreError::Held { .. } | StoreError::Fenced { .. } | StoreError::OutOfOrder { .. }) => Exit::Failed,
        EngineError::Store(_) | EngineError::Entry { .. } => Exit::Store,
        EngineError::Busy { .. } | EngineError::Stopping | EngineError::Restless { .. } | EngineError::Crashed { .. } | EngineError::Run(_) => {
            Exit::Failed
        }
    }
}
