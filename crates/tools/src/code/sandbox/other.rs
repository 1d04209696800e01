//! Without a sandbox, no worker runs.

use super::{Limits, Restrictions};

const REASON: &str = "running Python needs a sandbox of Linux (namespaces, Landlock, seccomp), which this system does not have";
pub(super) const UNSUPPORTED: Option<&str> = Some(REASON);

/// Exits with the reason.
pub fn enter(_arguments: &[String], _body: impl FnOnce(&Limits, &Restrictions)) -> ! {
    eprintln!("sandbox: {REASON}");
    std::process::exit(70);
}
