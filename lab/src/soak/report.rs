//! The report, as a table or as JSON, and its criteria.
//!
//! It passes if there was no unexpected status, the server did not exit, and in the idle state afterwards there are as many open files and
//! tasks as before (and at most four more), no run and no stream; and if the median memory over the last quarter is at most a tenth above
//! that of the second quarter. The first quarter does not count, because caches fill then.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::tally::Kind;
use super::{FILES_MORE_MAX, Sample, TASKS_MORE_MAX};

/// Allowed growth of memory from the second to the last quarter, in percent.
const MEMORY_MORE_PCT: u64 = 10;
/// With fewer samples a quarter is not meaningful.
const SAMPLES_MIN: usize = 8;
const SHOWN_MAX: usize = 5;

#[derive(Debug, Serialize)]
pub struct Report {
    pub minutes: f64,
    pub clients: u64,
    pub seed: u64,
    /// Before the load, after every act was done once.
    pub start: Sample,
    pub samples: Vec<Sample>,
    /// After all clients have left.
    pub end: Option<Sample>,
    #[serde(rename = "died")]
    pub exited: Option<String>,
    pub kinds: BTreeMap<&'static str, Kind>,
    pub wrong: Vec<String>,
    /// The server's log.
    pub warned: Vec<String>,
}

impl Report {
    /// Why it failed; empty if it passed.
    pub fn troubles(&self) -> Vec<String> {
        let mut troubles = Vec::new();
        if let Some(how) = &self.exited {
            troubles.push(format!("the server exited: {how}"));
        }
        let wrong: u64 = self.kinds.values().map(|kind| kind.wrong).sum();
        if wrong > 0 {
            troubles.push(format!("{wrong} answers were not as they should be"));
        }
        match &self.end {
            Some(end) => troubles.extend(leaks(&self.start, end)),
            None if self.exited.is_none() => troubles.push("it could not be looked at after all had left".into()),
            None => {}
        }
        troubles.extend(growth(&self.samples));
        troubles
    }
}

/// Leaked resources.
pub(super) fn leaks(start: &Sample, end: &Sample) -> Vec<String> {
    let more = |what: &str, before: u64, after: u64, max: u64| {
        (after > before + max).then(|| format!("{after} {what} after all had left, and {before} before they came; {max} more would be well"))
    };
    [
        more("open files", start.files, end.files, FILES_MORE_MAX),
        more("tasks", start.tasks, end.tasks, TASKS_MORE_MAX),
        more("runs in memory", 0, end.runs, 0),
        more("open streams", 0, end.streams, 0),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Whether memory grows.
fn growth(samples: &[Sample]) -> Option<String> {
    if samples.len() < SAMPLES_MIN {
        return None;
    }
    let quarter = samples.len() / 4;
    let (second, last) = (median(&samples[quarter..2 * quarter]), median(&samples[samples.len() - quarter..]));
    (last * 100 > second * (100 + MEMORY_MORE_PCT)).then(|| {
        format!("memory grew from {} MiB in the second quarter to {} MiB in the last, more than {MEMORY_MORE_PCT} %", second / 1024, last / 1024)
    })
}

fn median(samples: &[Sample]) -> u64 {
    let mut all: Vec<u64> = samples.iter().map(|sample| sample.memory_kib).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or_default()
}

/// A line of progress.
pub(super) fn line(sample: &Sample, requests: u64) -> String {
    let Sample { at_s, memory_kib, files, threads, tasks, runs, streams } = sample;
    format!(
        "{at_s:7.0} s  {:6.1} MiB  {files:4} files  {threads:3} threads  {tasks:4} tasks  {runs:3} runs  {streams:3} streams  {requests} requests",
        *memory_kib as f64 / 1024.0
    )
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} clients for {} minutes (seed {})\n", self.clients, self.minutes, self.seed)?;
        let at = |part: f64| self.samples.get(((self.samples.len() as f64 * part) as usize).min(self.samples.len().saturating_sub(1)));
        let columns = [
            ("start", Some(&self.start)),
            ("warm", at(0.1)),
            ("1/4", at(0.25)),
            ("1/2", at(0.5)),
            ("3/4", at(0.75)),
            ("end", self.samples.last()),
            ("quiet", self.end.as_ref()),
        ];
        write!(f, "{:<16}", "")?;
        for (name, _) in columns {
            write!(f, "{name:>9}")?;
        }
        writeln!(f)?;
        type SampleField = fn(&Sample) -> f64;
        let rows: [(&str, usize, SampleField); 6] = [
            ("memory, MiB", 1, |sample| sample.memory_kib as f64 / 1024.0),
            ("open files", 0, |sample| sample.files as f64),
            ("threads", 0, |sample| sample.threads as f64),
            ("tasks", 0, |sample| sample.tasks as f64),
            ("runs in memory", 0, |sample| sample.runs as f64),
            ("streams", 0, |sample| sample.streams as f64),
        ];
        for (name, digits, of) in rows {
            write!(f, "{name:<16}")?;
            for (_, sample) in columns {
                match sample {
                    Some(sample) => write!(f, "{:>9.digits$}", of(sample))?,
                    None => write!(f, "{:>9}", "-")?,
                }
            }
            writeln!(f)?;
        }
        writeln!(f, "\n{:<20}{:>10}{:>10}{:>10}", "", "requests", "slowed", "wrong")?;
        let mut sum = Kind::default();
        for (name, kind) in &self.kinds {
            writeln!(f, "{name:<20}{:>10}{:>10}{:>10}", kind.requests, kind.slowed, kind.wrong)?;
            sum = Kind { requests: sum.requests + kind.requests, slowed: sum.slowed + kind.slowed, wrong: sum.wrong + kind.wrong };
        }
        writeln!(f, "{:<20}{:>10}{:>10}{:>10}", "all", sum.requests, sum.slowed, sum.wrong)?;
        if !self.wrong.is_empty() {
            writeln!(f, "\nnot as it should be, the first of them:")?;
        }
        for wrong in &self.wrong {
            writeln!(f, "  {wrong}")?;
        }
        if !self.warned.is_empty() {
            writeln!(f, "\nthe server logged {} lines:", self.warned.len())?;
        }
        for warned in self.warned.iter().take(SHOWN_MAX) {
            writeln!(f, "  {warned}")?;
        }
        let troubles = self.troubles();
        writeln!(f, "\n{}", if troubles.is_empty() { "well".to_owned() } else { format!("not well:\n  {}", troubles.join("\n  ")) })?;
        if self.samples.len() < SAMPLES_MIN {
            writeln!(f, "too short to say whether memory grows")?;
        }
        writeln!(
            f,
            "judged by: no unexpected status; the server keeps running; at the end at most {FILES_MORE_MAX} files and {TASKS_MORE_MAX} tasks more than at the start, no run, no \
             stream; the median of memory in the last quarter at most {MEMORY_MORE_PCT} % above that of the second"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(memory_mib: &[u64], change: impl Fn(&mut Report)) -> Vec<String> {
        let sample = |memory: &u64| Sample { memory_kib: memory * 1024, files: 30, tasks: 12, threads: 5, ..Sample::default() };
        let still = sample(&50);
        let mut report = Report {
            minutes: 1.0,
            clients: 1,
            seed: 1,
            start: still.clone(),
            samples: memory_mib.iter().map(sample).collect(),
            end: Some(still),
            exited: None,
            kinds: BTreeMap::from([("ask", Kind { requests: 9, slowed: 1, wrong: 0 })]),
            wrong: Vec::new(),
            warned: Vec::new(),
        };
        change(&mut report);
        assert!(report.to_string().contains(if report.troubles().is_empty() { "\nwell\n" } else { "\nnot well:" }));
        report.troubles()
    }

    #[test]
    fn it_is_well_only_if_nothing_is_left_and_nothing_grows() {
        let flat = [40, 60, 100, 101, 99, 104, 107, 109];
        let nothing = |_: &mut Report| {};
        type Change = fn(&mut Report);
        for (memory, change, words) in [
            (&flat[..], nothing as Change, ""),
            (&[40, 60, 100, 100, 110, 110, 112, 112], nothing, "memory grew from 100 MiB"),
            (&[10, 20, 40, 80], nothing, ""),
            (&flat, |report| report.exited = Some("signal 11".into()), "the server exited: signal 11"),
            (&flat, |report| report.end = None, "could not be looked at"),
            (&flat, |report| report.kinds.entry("ask").or_default().wrong = 2, "2 answers"),
            (&flat, |report| report.end.as_mut().unwrap().files += 4, ""),
            (&flat, |report| report.end.as_mut().unwrap().files += 5, "35 open files after all had left, and 30 before"),
            (&flat, |report| report.end.as_mut().unwrap().tasks += 5, "17 tasks"),
            (&flat, |report| report.end.as_mut().unwrap().runs = 1, "1 runs in memory"),
            (&flat, |report| report.end.as_mut().unwrap().streams = 1, "1 open streams"),
        ] {
            let troubles = report(memory, change).join("; ");
            assert_eq!(troubles.is_empty(), words.is_empty(), "{troubles}");
            assert!(troubles.contains(words), "no {words:?} in {troubles}");
        }
    }
}
