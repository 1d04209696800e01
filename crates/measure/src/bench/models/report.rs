//! The report: numbers side by side, with requirements.

use std::io::Write as _;

use anstyle::Style;
use serde_json::{Value, json};
use service::Result;
use terminal::{DIM, GREEN, RED, Table, paint};

use super::ours::Computed;
use super::{Round, median};

/// For the default weights.
const PEAK_RSS_MB_MAX: f64 = 2_500.0;
/// Relative to the peer, on processors with AVX2 or better.
const GEN_RATIO_MIN: f64 = 1.0;
const PROMPT_RATIO_MIN: f64 = 1.5;
const PLAN_RATIO_MIN: f64 = 1.5;

/// The best of all rounds; invalid plans are counted over all of them.
#[derive(Default)]
pub(crate) struct Numbers {
    pub(crate) load_ms: f64,
    pub(crate) peak_rss_mb: f64,
    prompt_tok_s: f64,
    gen_tok_s: f64,
    gen_tokens: usize,
    prefix_hit_ms: f64,
    plan_ms_p50: f64,
    plan_ms_p90: f64,
    plan_tokens: usize,
    plan_tokens_forced: usize,
    asked: usize,
    invalid: Vec<String>,
}

impl Numbers {
    pub(super) fn keep_best(&mut self, round: &Round) {
        let less = |kept: f64, found: f64| if kept == 0.0 { found } else { kept.min(found) };
        self.prompt_tok_s = self.prompt_tok_s.max(round.prompt_tok_s);
        self.gen_tok_s = self.gen_tok_s.max(round.gen_tok_s);
        self.gen_tokens = round.gen_tokens;
        self.prefix_hit_ms = less(self.prefix_hit_ms, round.prefix_hit_ms);
        self.plan_ms_p50 = less(self.plan_ms_p50, median(round.plan_ms.clone()));
        let mut sorted = round.plan_ms.clone();
        sorted.sort_by(f64::total_cmp);
        self.plan_ms_p90 = less(self.plan_ms_p90, sorted.get(sorted.len() * 9 / 10).copied().unwrap_or(0.0));
        (self.plan_tokens, self.plan_tokens_forced) = (round.plan_tokens, round.plan_tokens_forced);
        self.asked += round.asked;
        self.invalid.extend(round.invalid.iter().cloned());
    }

    fn valid_pct(&self) -> f64 {
        if self.asked == 0 { 0.0 } else { 100.0 * self.asked.saturating_sub(self.invalid.len()) as f64 / self.asked as f64 }
    }

    fn json(&self) -> Value {
        let round = |number: f64| (number * 10.0).round() / 10.0;
        json!({
            "prompt_tok_s": round(self.prompt_tok_s),
            "gen_tok_s": round(self.gen_tok_s),
            "gen_tokens": self.gen_tokens,
            "plan_ms_p50": self.plan_ms_p50.round(),
            "plan_ms_p90": self.plan_ms_p90.round(),
            "plan_tokens": self.plan_tokens,
            "plan_tokens_forced": self.plan_tokens_forced,
            "valid_pct": round(self.valid_pct()),
            "prefix_hit_ms": self.prefix_hit_ms.round(),
            "peak_rss_mb": self.peak_rss_mb.round(),
            "load_ms": self.load_ms.round(),
        })
    }
}

pub(crate) struct Report {
    pub(crate) ours: Numbers,
    /// The peer's name with its version, and its numbers.
    pub(crate) theirs: Option<(String, Numbers)>,
    pub(crate) computed: Computed,
    pub(crate) threads: usize,
    pub(crate) plans: usize,
    pub(crate) rounds: u32,
    pub(crate) load_before: f64,
    pub(crate) load_after: f64,
}

impl Report {
    /// Requirements on every machine. Speed relative to a peer is a target: it depends on the load.
    pub(crate) fn is_well(&self) -> bool {
        self.ours.valid_pct() >= 100.0 && self.ours.peak_rss_mb <= PEAK_RSS_MB_MAX
    }

    fn host(&self) -> Value {
        json!({
            "cores": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            "load_before": self.load_before,
            "load_after": self.load_after,
            "build": if cfg!(debug_assertions) { "debug" } else { "release" },
            "version": env!("CARGO_PKG_VERSION"),
        })
    }

    /// The kernels, the speed of reading weights and multiplying, and the measured maximum of this machine.
    fn speeds(&self) -> Value {
        let Computed { kernels, token_bytes, token_products, memory_gb_s, products_g_s } = &self.computed;
        let digits = |number: f64| (number * 10.0).round() / 10.0;
        let billions = |per_token: Option<usize>, tokens_s: f64| per_token.map(|per_token| digits(per_token as f64 * tokens_s / 1e9));
        json!({
            "kernels": kernels,
            "gen_gb_s": billions(*token_bytes, self.ours.gen_tok_s),
            "memory_gb_s": memory_gb_s.map(digits),
            "prompt_products_g_s": billions(*token_products, self.ours.prompt_tok_s),
            "products_g_s": products_g_s.map(digits),
        })
    }

    pub(crate) fn print_json(&self) -> Result<()> {
        let mut object = match &self.theirs {
            None => self.ours.json(),
            Some((peer, theirs)) => {
                let ratio = json!({
                    "prompt": ratio(self.ours.prompt_tok_s, theirs.prompt_tok_s),
                    "gen": ratio(self.ours.gen_tok_s, theirs.gen_tok_s),
                    "plan": ratio(theirs.plan_ms_p50, self.ours.plan_ms_p50),
                });
                json!({"baton": self.ours.json(), "llamacpp": theirs.json(), "ratio": ratio, "peer": peer})
            }
        };
        object["speeds"] = self.speeds();
        object["threads"] = json!(self.threads);
        object["plans"] = json!(self.plans);
        object["rounds"] = json!(self.rounds);
        object["host"] = self.host();
        if !self.ours.invalid.is_empty() {
            object["invalid"] = json!(self.ours.invalid);
        }
        Ok(writeln!(std::io::stdout(), "{object}")?)
    }

    pub(crate) fn print(&self) -> Result<()> {
        let mut head = vec!["", "baton", "aim", ""];
        if let Some((peer, _)) = &self.theirs {
            head.extend([peer.as_str(), "ratio"]);
        }
        let mut table = Table::new(&head);
        for row in ROWS {
            let ours = (row.number)(&self.ours);
            let theirs = self.theirs.as_ref().map(|(_, theirs)| (row.number)(theirs));
            let ratio = theirs.map(|theirs| if row.is_speed { ratio(ours, theirs) } else { ratio(theirs, ours) });
            let verdict = match &row.aim {
                Goal::None => None,
                Goal::AtMost(max) => Some(ours <= *max),
                Goal::AtLeast(min) => Some(ours >= *min),
                Goal::Ratio(min) => ratio.map(|ratio| ratio >= *min),
            };
            let aim = match &row.aim {
                Goal::AtMost(max) => format!("≤ {max} {}", row.unit),
                Goal::AtLeast(min) => format!("≥ {min} {}", row.unit),
                Goal::Ratio(min) if theirs.is_some() => format!("≥ {min} ×"),
                Goal::None | Goal::Ratio(_) => String::new(),
            };
            let (style, mark) = match verdict {
                Some(true) => (GREEN, "✓"),
                Some(false) => (RED, "✗"),
                None => (Style::new(), ""),
            };
            let mut cells = vec![(Style::new(), row.what.to_owned()), (style, shown(ours, row.unit)), (DIM, aim), (style, mark.to_owned())];
            if let (Some(theirs), Some(ratio)) = (theirs, ratio) {
                cells.extend([(Style::new(), shown(theirs, row.unit)), (style, format!("{ratio} ×"))]);
            }
            table.row(cells);
        }
        let mut out = anstream::stdout().lock();
        table.write(&mut out)?;
        let Numbers { plan_tokens, plan_tokens_forced, .. } = self.ours;
        writeln!(out, "\n{} plans of a round have {plan_tokens} tokens, {plan_tokens_forced} of them forced by the schema", self.plans)?;
        for why in &self.ours.invalid {
            writeln!(out, "{}", paint(RED, why))?;
        }
        if let Some((peer, theirs)) = &self.theirs {
            writeln!(out, "{peer}: its plans have {} tokens; its wheel uses no instructions beyond AVX2", theirs.plan_tokens)?;
            for why in &theirs.invalid {
                writeln!(out, "{}", paint(DIM, format!("{peer}, {why}")))?;
            }
        }
        let speeds = self.speeds();
        writeln!(out, "{}", words_of(&speeds))?;
        let host = self.host();
        let words = format!(
            "best of {} rounds; {} threads of {} cores, load {} → {}; {} build",
            self.rounds,
            self.threads,
            host["cores"],
            self.load_before,
            self.load_after,
            host["build"].as_str().unwrap_or_default()
        );
        Ok(writeln!(out, "{}", paint(DIM, words))?)
    }
}

fn words_of(speeds: &Value) -> String {
    let kernels = speeds["kernels"].as_str().unwrap_or_default();
    if speeds["gen_gb_s"].is_null() {
        return format!("computed by the {kernels} kernels");
    }
    format!(
        "computed by the {kernels} kernels: writing reads {} GB/s of weights, memory gives {} GB/s; \
         reading a prompt makes {} · 10⁹ products a second, the kernels {} out of the cache",
        speeds["gen_gb_s"], speeds["memory_gb_s"], speeds["prompt_products_g_s"], speeds["products_g_s"]
    )
}

enum Goal {
    None,
    AtMost(f64),
    AtLeast(f64),
    /// Relative to the peer; more is better for us.
    Ratio(f64),
}

struct Row {
    what: &'static str,
    unit: &'static str,
    number: fn(&Numbers) -> f64,
    /// More is better.
    is_speed: bool,
    aim: Goal,
}

const ROWS: [Row; 8] = [
    Row { what: "reading a prompt", unit: "tok/s", number: |n| n.prompt_tok_s, is_speed: true, aim: Goal::Ratio(PROMPT_RATIO_MIN) },
    Row { what: "writing free text", unit: "tok/s", number: |n| n.gen_tok_s, is_speed: true, aim: Goal::Ratio(GEN_RATIO_MIN) },
    Row { what: "a plan by a schema, half of them within", unit: "ms", number: |n| n.plan_ms_p50, is_speed: false, aim: Goal::Ratio(PLAN_RATIO_MIN) },
    Row { what: "… nine of ten within", unit: "ms", number: |n| n.plan_ms_p90, is_speed: false, aim: Goal::None },
    Row { what: "valid plans", unit: "%", number: Numbers::valid_pct, is_speed: true, aim: Goal::AtLeast(100.0) },
    Row { what: "first token after a known beginning", unit: "ms", number: |n| n.prefix_hit_ms, is_speed: false, aim: Goal::None },
    Row { what: "most memory ever held", unit: "MB", number: |n| n.peak_rss_mb, is_speed: false, aim: Goal::AtMost(PEAK_RSS_MB_MAX) },
    Row { what: "loading", unit: "ms", number: |n| n.load_ms, is_speed: false, aim: Goal::None },
];

/// Such a measurement has two significant digits.
fn ratio(above: f64, below: f64) -> f64 {
    if below == 0.0 { 0.0 } else { (above / below * 100.0).round() / 100.0 }
}

fn shown(number: f64, unit: &str) -> String {
    match number {
        100.0.. => format!("{number:.0} {unit}"),
        _ => format!("{number:.1} {unit}"),
    }
}
