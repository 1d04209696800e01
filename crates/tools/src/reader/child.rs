//! The reader process: limits itself ([`crate::confine`]), then handles jobs from its standard input.

use std::io;

use super::{frame, job};
use crate::confine::confine_reader;

/// Runs as a reader and never returns. `arguments` are those after [`super::READER_COMMAND`]. Call it before anything else is set up: no
/// runtime, no threads.
pub fn reader_main(arguments: &[String]) -> ! {
    enter(arguments, serve)
}

/// Drops all rights and limits itself, then runs `body` and exits.
pub fn enter(arguments: &[String], body: impl FnOnce() -> io::Result<()>) -> ! {
    let limits = match arguments {
        [limits] => serde_json::from_str(limits).map_err(|error| error.to_string()),
        _ => Err("a reader is started by Baton itself, with its limits".into()),
    };
    // Documents are read in the background; whoever waits for an answer goes first.
    turns::give_way();
    let ended = limits.and_then(|limits| confine_reader(&limits)).and_then(|()| body().map_err(|error| error.to_string()));
    match ended {
        Ok(()) => std::process::exit(0),
        Err(why) => {
            eprintln!("{why}");
            std::process::exit(super::worker::FAILED);
        }
    }
}

fn serve() -> io::Result<()> {
    let (mut from, mut to) = (io::stdin().lock(), io::stdout().lock());
    while let Some(job) = frame::read(&mut from)? {
        let bytes = frame::read(&mut from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let result = job::perform(serde_json::from_slice(&job)?, &bytes);
        drop(bytes);
        frame::write(&mut to, &serde_json::to_vec(&result)?)?;
    }
    Ok(())
}
