//! Shows the notices of `service` at the terminal, and downloads as a bar.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use service::notices::{Download, Notices};
use terminal::{DIM, paint, remark};

#[derive(Default)]
pub(crate) struct TerminalNotices {
    /// The bar of the running download.
    bar: Mutex<Option<ProgressBar>>,
}

impl Notices for TerminalNotices {
    fn note(&self, text: &str) {
        remark(text);
    }

    fn detail(&self, text: &str) {
        remark(&paint(DIM, text));
    }

    fn download(&self, progress: Option<&Download>) {
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        match progress {
            Some(progress) => {
                let bar = bar.get_or_insert_with(|| new_bar(progress.total_bytes));
                bar.set_message(progress.source.clone());
                bar.set_position(progress.done_bytes);
            }
            None => {
                if let Some(bar) = bar.take() {
                    bar.finish_and_clear();
                }
            }
        }
    }
}

fn new_bar(total_bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30.cyan} {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}");
    let bar = ProgressBar::new(total_bytes);
    // The template is a constant; if it were invalid, the default bar is shown.
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
