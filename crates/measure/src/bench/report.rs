//! The numbers, with their meaning and targets.

use std::collections::BTreeMap;
use std::io::Write as _;

use anstyle::Style;
use engine::Replayed;
use serde_json::{Map, Value, json};

use service::Result;
use terminal::{DIM, GREEN, RED, Table, paint};

/// By key; a key that was not measured is missing.
pub(crate) type Numbers = BTreeMap<&'static str, f64>;

pub(crate) struct Number {
    pub(crate) key: &'static str,
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) aim: Goal,
}

/// The target, and so which of two numbers is better: the lower, unless it is a minimum.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    None,
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    fn better(self, one: f64, other: f64) -> f64 {
        match self {
            Goal::None | Goal::AtMost(_) => one.min(other),
            Goal::AtLeast(_) => one.max(other),
        }
    }

    fn is_reached(self, number: f64) -> Option<bool> {
        match self {
            Goal::None => None,
            Goal::AtMost(most) => Some(number <= most),
            Goal::AtLeast(least) => Some(number >= least),
        }
    }

    fn shown(self, unit: &str) -> String {
        match self {
            Goal::None => String::new(),
            Goal::AtMost(most) => format!("≤ {}", shown(most, unit)),
            Goal::AtLeast(least) => format!("≥ {}", shown(least, unit)),
        }
    }
}

/// All numbers of `bench engine`, in output order. The targets are those of the design, "Fast".
pub(crate) const ENGINE: [Number; 17] = [
    Number { key: "step_ns", what: "one no-op step, in memory", unit: "ns", aim: Goal::AtMost(1_000.0) },
    Number { key: "step_watched_ns", what: "… with every event delivered to a watcher", unit: "ns", aim: Goal::None },
    Number { key: "step_effect_us", what: "one step with an effect, in memory", unit: "µs", aim: Goal::None },
    Number { key: "fanout100_us", what: "100-way fan-out and join", unit: "µs", aim: Goal::AtMost(200.0) },
    Number { key: "fsync_us", what: "one page appended and forced to this disk", unit: "µs", aim: Goal::None },
    Number { key: "step_durable_us", what: "one durable step, 64 runs at once", unit: "µs", aim: Goal::AtMost(60.0) },
    Number { key: "step_durable_alone_us", what: "one durable step, alone", unit: "µs", aim: Goal::AtMost(400.0) },
    Number { key: "runs1000_ms", what: "1,000 runs × 10 steps × 50 ms, durable", unit: "ms", aim: Goal::AtMost(600.0) },
    Number { key: "runs1000_rss_mb", what: "… and the memory they took", unit: "MB", aim: Goal::AtMost(60.0) },
    Number { key: "journal500_bytes", what: "database of 500 steps with 200 B each", unit: "B", aim: Goal::AtMost(500_000.0) },
    Number { key: "open10000_ms", what: "opening a run of 10,000 steps", unit: "ms", aim: Goal::AtMost(50.0) },
    Number { key: "history10000_ms", what: "… and all its events from the journal", unit: "ms", aim: Goal::None },
    Number { key: "journal10000_ratio", what: "… and its database over its replies", unit: "×", aim: Goal::AtMost(3.0) },
    Number { key: "cold_start_ms", what: "cold start: a process, a new database, a step", unit: "ms", aim: Goal::AtMost(15.0) },
    Number { key: "cold_process_ms", what: "… and until that process is gone", unit: "ms", aim: Goal::None },
    Number { key: "cold_start_rss_mb", what: "… and the memory that took", unit: "MB", aim: Goal::AtMost(20.0) },
    Number { key: "step_memory_saver_ns", what: "one no-op step, with its memory checkpointer", unit: "ns", aim: Goal::None },
];

/// Other load only makes numbers worse, so the best of several rounds is closest to the truth.
pub(crate) fn keep_best(table: &[Number], best: &mut Numbers, found: impl IntoIterator<Item = (&'static str, f64)>) {
    for (key, number) in found {
        let aim = table.iter().find(|row| row.key == key).map_or(Goal::None, |row| row.aim);
        let kept = best.entry(key).or_insert(number);
        *kept = aim.better(*kept, number);
    }
}

pub(crate) struct Report {
    pub(crate) table: &'static [Number],
    pub(crate) ours: Numbers,
    /// The peer's name with its version, and its numbers.
    pub(crate) theirs: Option<(String, Numbers)>,
    pub(crate) replays: BTreeMap<&'static str, Replayed>,
    pub(crate) host: Value,
    pub(crate) rounds: u32,
}

impl Report {
    pub(crate) fn print(&self, is_json: bool) -> Result<()> {
        match is_json {
            true => self.print_json()?,
            false => self.print_tables()?,
        }
        Ok(())
    }

    fn print_json(&self) -> Result<()> {
        let replayed = json!({ "rows": self.replays, "difference": false });
        let object = match &self.theirs {
            None => {
                let mut object = rounded(&self.ours);
                object.extend([("rounds".into(), self.rounds.into()), ("replayed".into(), replayed), ("host".into(), self.host.clone())]);
                Value::Object(object)
            }
            Some((peer, theirs)) => {
                let ratio: Map<String, Value> =
                    theirs.iter().filter_map(|(key, their)| Some(((*key).into(), round(their / self.ours.get(key)?)))).collect();
                json!({
                    "baton": rounded(&self.ours), "langgraph": rounded(theirs), "ratio": ratio, "peer": peer, "rounds": self.rounds,
                    "replayed": replayed, "host": self.host,
                })
            }
        };
        Ok(writeln!(std::io::stdout(), "{object}")?)
    }

    fn print_tables(&self) -> Result<()> {
        let mut head = vec!["", "baton", "aim", ""];
        if let Some((peer, _)) = &self.theirs {
            head.extend([peer.as_str(), "ratio"]);
        }
        let mut table = Table::new(&head);
        for number in self.table {
            let ours = self.ours.get(number.key);
            let their = self.theirs.as_ref().and_then(|(_, theirs)| theirs.get(number.key));
            if ours.is_none() && their.is_none() {
                continue;
            }
            let (verdict, mark) = match ours.and_then(|ours| number.aim.is_reached(*ours)) {
                Some(true) => (GREEN, "✓"),
                Some(false) => (RED, "✗"),
                None => (DIM, ""),
            };
            let mut cells = vec![
                (Style::new(), number.what.to_owned()),
                (verdict, ours.map(|ours| shown(*ours, number.unit)).unwrap_or_default()),
                (DIM, number.aim.shown(number.unit)),
                (verdict, mark.to_owned()),
            ];
            if self.theirs.is_some() {
                let ratio = ours.zip(their).map(|(ours, their)| format!("{} ×", round(their / ours)));
                cells.extend([(Style::new(), their.map(|their| shown(*their, number.unit)).unwrap_or_default()), (GREEN, ratio.unwrap_or_default())]);
            }
            table.row(cells);
        }
        let mut out = anstream::stdout().lock();
        table.write(&mut out)?;
        let (entries, events) =
            self.replays.values().fold((0, 0), |(entries, events), replayed| (entries + replayed.entries, events + replayed.events));
        let runs = self.replays.len();
        writeln!(out, "\nreplayed a run of each of {runs} measurements: {entries} journal entries gave {events} events, no difference")?;
        if let Some((peer, _)) = &self.theirs {
            writeln!(out, "{peer} keeps nothing in these rows, as that is its fastest, except in the durable ones and the database")?;
        }
        let host = |key: &str| self.host[key].as_str().map_or_else(|| self.host[key].to_string(), str::to_owned);
        let (cores, before, after) = (host("cores"), host("load_before"), host("load_after"));
        let line = format!(
            "best of {} rounds; {} build, {} sizes; {cores} cores, load {before} → {after}; {}",
            self.rounds,
            host("build"),
            host("sizes"),
            host("dir")
        );
        writeln!(out, "{}", paint(DIM, line))?;
        Ok(())
    }
}

fn rounded(numbers: &Numbers) -> Map<String, Value> {
    numbers.iter().map(|(key, number)| ((*key).to_owned(), round(*number))).collect()
}

/// Rounded to the significant digits of a measurement.
fn round(number: f64) -> Value {
    match number.abs() {
        100.0.. => json!(number.round() as i64),
        _ => json!((number * 100.0).round() / 100.0),
    }
}

fn shown(number: f64, unit: &str) -> String {
    match (unit, number) {
        ("ns", 10_000.0..) => format!("{:.0} µs", number / 1e3),
        ("µs", 10_000.0..) => format!("{:.1} ms", number / 1e3),
        ("ms", 10_000.0..) => format!("{:.1} s", number / 1e3),
        ("B", 1_000_000.0..) => format!("{:.1} MB", number / 1e6),
        ("B", _) => format!("{:.0} kB", number / 1e3),
        ("", _) if number.fract() == 0.0 => format!("{number:.0}"),
        ("" | "×", _) => format!("{number:.2} {unit}").trim_end().to_owned(),
        (unit, 100.0..) => format!("{number:.0} {unit}"),
        (unit, _) => format!("{number:.1} {unit}"),
    }
}
