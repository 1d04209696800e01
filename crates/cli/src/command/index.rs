use std::io::{IsTerminal, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use index::{Error, Folders, Limits, Model, Progress, State, Step};
use serde_json::json;
use service::caches;
use service::reader;
use terminal::{BOLD, DIM, YELLOW, paint};

use crate::exit::{Exit, Result, ServiceError};

/// Maximum number of skipped files that are named.
const SKIPPED_SHOWN: usize = 10;

/// Make a folder searchable: Markdown, text, HTML, PDF, DOCX and source code
#[derive(clap::Args)]
#[command(
    after_help = "Full text is searchable when this returns. Vectors are filled in by the process that has the folder open; --wait does it now.\n\n\
                        Examples:\n  baton index ~/notes\n  baton index . --wait\n  baton index . --json --no-vectors"
)]
pub(crate) struct Index {
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Also compute the vectors, however long it takes
    #[arg(long)]
    wait: bool,
    /// Only full text and links
    #[arg(long, conflicts_with = "wait")]
    no_vectors: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Index {
    pub(crate) fn run(self) -> Result<Exit> {
        let began = Instant::now();
        let model = if self.wait && !self.no_vectors { Model::builtin() } else { Model::none() };
        let home = caches::index_folder(&self.folder)?;
        let folders = Folders::open(std::slice::from_ref(&self.folder), &home, &model, Limits::default()).map_err(|error| service_error(&error))?;
        let folders = folders.with_reader(reader::for_index()?);
        let mut line = ProgressLine::new(self.json);
        let report = folders.refresh(&mut |step| line.step(step)).map_err(|error| service_error(&error))?;
        line.clear();
        let searchable_seconds = began.elapsed().as_secs_f64();
        let mut progress = folders.progress();
        if self.wait {
            progress = wait(&folders, &mut line)?;
        }
        let mut out = anstream::stdout().lock();
        if self.json {
            let skipped: serde_json::Map<String, serde_json::Value> =
                report.skipped.iter().map(|(file, why)| (file.clone(), why.to_string().into())).collect();
            let object = json!({
                "files": report.files, "passages": report.passages, "added": report.added, "changed": report.changed, "removed": report.removed,
                "unchanged": report.unchanged, "skipped": skipped, "searchable_seconds": searchable_seconds, "links_worth": folders.links_worth(),
                "vectors": {"done": progress.done, "total": progress.total, "per_second": progress.per_second}, "home": home,
            });
            writeln!(out, "{object}")?;
            return Ok(Exit::Well);
        }
        writeln!(
            out,
            "{} {} passages of {} files, searchable after {searchable_seconds:.1} s",
            paint(BOLD, "Indexed"),
            report.passages,
            report.files
        )?;
        writeln!(out, "  {} added, {} changed, {} removed, {} unchanged", report.added, report.changed, report.removed, report.unchanged)?;
        for (why, count) in report.reasons() {
            writeln!(out, "  {} {count} left out: {why}", paint(YELLOW, "!"))?;
        }
        for (file, why) in report.skipped.iter().take(SKIPPED_SHOWN) {
            writeln!(out, "    {}", paint(DIM, format!("{file}: {why}")))?;
        }
        if report.skipped.len() > SKIPPED_SHOWN {
            writeln!(out, "    {}", paint(DIM, format!("and {} more; --json names them all", report.skipped.len() - SKIPPED_SHOWN)))?;
        }
        if let Some(per_second) = progress.per_second {
            writeln!(out, "  vectors of {} passages, {per_second:.0} a second", progress.done)?;
        }
        Ok(Exit::Well)
    }
}

fn wait(folders: &Folders, line: &mut ProgressLine) -> Result<Progress> {
    loop {
        let progress = folders.wait(Duration::from_millis(500));
        match &progress.state {
            State::Off | State::Ready => {
                line.clear();
                return Ok(progress);
            }
            State::Failed(why) => {
                line.clear();
                return Err(ServiceError::Failed(format!("full text is searchable, but {why}")));
            }
            State::Loading => line.show("loading the weights"),
            State::Filling => {
                line.show(&format!("vectors {} of {}, {:.0} a second", progress.done, progress.total, progress.per_second.unwrap_or_default()));
            }
        }
    }
}

fn service_error(error: &Error) -> ServiceError {
    match error {
        Error::Folder { .. } => ServiceError::Usage(error.to_string()),
        error => ServiceError::Failed(error.to_string()),
    }
}

/// One line that is overwritten on a terminal; nothing otherwise.
struct ProgressLine {
    is_shown: bool,
    last: Option<Instant>,
}

impl ProgressLine {
    fn new(is_quiet: bool) -> Self {
        ProgressLine { is_shown: !is_quiet && std::io::stderr().is_terminal(), last: None }
    }

    fn step(&mut self, step: Step<'_>) {
        if self.last.is_some_and(|last| last.elapsed() < Duration::from_millis(100)) {
            return;
        }
        match step {
            Step::Looking { files } => self.show(&format!("{files} files")),
            Step::Reading { file, done, total } => self.show(&format!("{done} of {total} {file}")),
            Step::Writing => self.show("writing"),
        }
    }

    fn show(&mut self, text: &str) {
        if self.is_shown {
            let text: String = text.chars().take(100).collect();
            // Progress output may fail without consequence.
            let _ = write!(anstream::stderr(), "\r\x1b[2K{text}");
            self.last = Some(Instant::now());
        }
    }

    fn clear(&mut self) {
        if self.is_shown && self.last.is_some() {
            let _ = write!(anstream::stderr(), "\r\x1b[2K");
        }
    }
}
