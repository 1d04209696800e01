//! The colour of a run's status.

use anstyle::Style;
use store::Status;
use terminal::{CYAN, DIM, GREEN, RED, YELLOW};

pub(crate) fn status(status: Status) -> Style {
    match status {
        Status::Running => CYAN,
        Status::Asking | Status::Waiting => YELLOW,
        Status::Done => GREEN,
        Status::Failed => RED,
        Status::Cancelled => DIM,
    }
}
