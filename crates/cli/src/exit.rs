//! Exit codes for scripts, and error messages with hints for people.

use std::io::Write as _;
use std::process::ExitCode;

use engine::EngineError;
use service::signals::StopSignal;
pub(crate) use service::{Result, ServiceError};
use store::StoreError;

/// The codes documented in `baton --help`.
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

/// Their descriptions, for `--help`.
const CODES: &str = "\
Exit codes:
    0  it went well
    1  a run failed or was cancelled, a check found a difference, or something else failed
    2  wrong usage: an unknown option, run, thread, flow or model, or a wrong configuration
    3  the database cannot be used
    4  the run waits for a person; the way to answer was printed
  130  interrupted; an unfinished run can be resumed (143 when terminated)";

/// Appends the codes to a help text.
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

impl From<measure::Verdict> for Exit {
    fn from(verdict: measure::Verdict) -> Self {
        match verdict {
            measure::Verdict::Passed => Exit::Well,
            measure::Verdict::Failed => Exit::Failed,
        }
    }
}

impl From<StopSignal> for Exit {
    fn from(signal: StopSignal) -> Self {
        match signal {
            StopSignal::Interrupt => Exit::Interrupted,
            StopSignal::Terminate => Exit::Terminated,
        }
    }
}

/// Prints an error with a hint.
pub(crate) fn print_error(trouble: &ServiceError) -> Exit {
    // The reader of the output closed it, as `head` does.
    if matches!(trouble, ServiceError::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe) {
        return Exit::Well;
    }
    let red = anstyle::AnsiColor::Red.on_default().bold();
    // stderr is the last place to report to.
    let _ = writeln!(anstream::stderr(), "{red}baton:{red:#} {trouble}{}", hint(trouble).map(|hint| format!("\n{hint}")).unwrap_or_default());
    code_of(trouble)
}

fn code_of(trouble: &ServiceError) -> Exit {
    match trouble {
        ServiceError::Usage(_) => Exit::Usage,
        ServiceError::Failed(_) | ServiceError::Output(_) => Exit::Failed,
        ServiceError::Folder(_) => Exit::Store,
        ServiceError::Stopped(signal, _) => Exit::from(*signal),
        ServiceError::Engine(error) => exit_of(error),
    }
}

/// The next step, if the error itself does not name one.
fn hint(trouble: &ServiceError) -> Option<String> {
    match trouble {
        ServiceError::Engine(EngineError::Store(StoreError::Held { thread, .. })) => {
            Some(format!("`baton runs watch` shows what it does; `baton threads show {thread}` shows the thread"))
        }
        ServiceError::Engine(EngineError::Store(StoreError::Open { path, .. })) if !path.starts_with("postgres") => {
            Some("check the path and its rights, or name another file with --db".into())
        }
        ServiceError::Engine(EngineError::NoStep { run, .. }) => Some(format!("`baton runs show {run}` shows its steps")),
        ServiceError::Engine(EngineError::Crashed { run, .. }) => Some(format!("`baton runs replay {run}` tries it again without touching anything")),
        ServiceError::Usage(_)
        | ServiceError::Failed(_)
        | ServiceError::Folder(_)
        | ServiceError::Stopped(..)
        | ServiceError::Engine(_)
        | ServiceError::Output(_) => None,
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
        EngineError::Busy { .. }
        | EngineError::Stopping
        | EngineError::Restless { .. }
        | EngineError::DrivenElsewhere { .. }
        | EngineError::Crashed { .. }
        | EngineError::Run(_) => Exit::Failed,
    }
}
