use std::io::Write as _;

use flows::report::{self, SECTIONS_MAX, SECTIONS_MIN, estimate};
use graph::RunId;
use serde_json::json;
use service::global_args::GlobalArgs;
use service::run_request::AskOptions;
use service::wiring;
use terminal::{BOLD, paint, remark, tail};

use super::ask;
use crate::exit::{self, Exit, Result, ServiceError};
use crate::export::Target;
use crate::follow::{self, OnInterrupt};

/// Write a report: an outline that you approve, sections researched side by side, one checked document with a bibliography
#[derive(clap::Args)]
#[command(after_help = exit::with_codes(AFTER_HELP), mut_arg("flow", |arg| arg.hide(true)), mut_arg("approve", |arg| arg.hide(true)))]
#[command(mut_arg("yes", |arg| arg.help("Ask nothing: take the outline as it is planned and allow every tool call")))]
pub(crate) struct Report {
    /// What the report is about; `-` reads it from stdin
    #[arg(required = true, num_args = 1.., value_name = "REQUEST")]
    request: Vec<String>,
    /// Sections at most [default: 5, and 3 with a small model]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(i64::from(SECTIONS_MIN)..=i64::from(SECTIONS_MAX)))]
    sections: Option<u32>,
    /// Sections researched at the same time [default: 3]
    #[arg(long, value_name = "N")]
    parallel: Option<u32>,
    /// Write the document to this file as well: .md, .html, .docx or .pdf
    #[arg(long, short, value_name = "FILE", value_parser = Target::parse)]
    output: Option<Target>,
    /// Print what a report of so many sections may cost, and start nothing
    #[arg(long)]
    estimate: bool,
    #[command(flatten)]
    options: AskOptions,
    /// Print one JSON object per line: the events, then the result
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
The outline is shown with an estimate of the cost before anything is researched: y runs it, e changes it in $EDITOR, r has it revised, n declines it.
--set report.search.enabled_tools=docs and other settings: `baton flows show report`.

Examples:
  baton report \"Write a report on write-ahead logs\" --docs ~/notes
  baton report \"The market for heat pumps in Europe\" --sections 4 --budget usd=0.50 --output heat-pumps.pdf
  baton report \"…\" --yes --output report.docx      nobody is asked anything
  baton report \"…\" --estimate

Ctrl-C stops gracefully; `baton runs resume RUN` goes on where it was, and `baton runs export RUN FILE` writes the document.";

impl Report {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        let request = ask::words(&self.request, "what is the report about? e.g. baton report \"Heat pumps in Europe\"")?;
        let options = &self.options;
        if options.flow.as_deref().is_some_and(|flow| flow != report::NAME) {
            return Err(ServiceError::Usage("baton report runs the flow report; omit --flow, or use baton ask --flow NAME".into()));
        }
        let mut set = options.settings(report::NAME, globals)?;
        let own = [("sections", self.sections.map(|count| json!(count))), ("parallel", self.parallel.map(|count| json!(count)))];
        set.extend(own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        if options.yes {
            set.extend([("approve_outline".to_owned(), json!(false)), ("clarify".to_owned(), json!(false))]);
        }
        let order = options.request(report::NAME, &request, options.thread()?, globals, &set)?;
        wiring::block_on(async {
            let (engine, profile) = wiring::new_engine(globals, &options.model_options, self.json).await?;
            if self.estimate {
                let count = self.sections.unwrap_or(if profile.is_small { 3 } else { 5 });
                let estimate = estimate(count as usize, &profile);
                match self.json {
                    true => follow::print_json(&json!(estimate))?,
                    false => writeln!(std::io::stdout(), "{}", estimate.words())?,
                }
                return Ok(Exit::Well);
            }
            let order = order.order(profile)?;
            let (run, exit) = follow::drive(&engine, order, self.json, OnInterrupt::Stop).await?;
            match &self.output {
                Some(target) => self.write(&engine, &run, exit, target).await,
                None => Ok(exit),
            }
        })
    }

    async fn write(&self, engine: &engine::Engine, run: &RunId, exit: Exit, target: &Target) -> Result<Exit> {
        if exit != Exit::Well {
            let how = format!("baton runs export {} {}", tail(run), target.path().display());
            remark(&format!("{} was not written; when the run is done: {}", target.path().display(), paint(BOLD, how)));
            return Ok(exit);
        }
        let row = engine.store().run(run).await?.ok_or_else(|| store::StoreError::NoRun { run: run.clone() })?;
        target.write(&row).await?;
        remark(&format!("wrote {}", target.path().display()));
        Ok(exit)
    }
}
