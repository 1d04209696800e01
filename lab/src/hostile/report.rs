//! What came of it, and how it is judged.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

pub struct Report {
    pub order: String,
    pub warm_errors: Vec<String>,
    pub before: Phase,
    pub under: Phase,
    pub memory_kib_max: u64,
    pub exited: Option<String>,
}

/// What the other users observed in one part of the time, and the state of the server.
pub struct Phase {
    pub seconds: f64,
    pub latencies: Vec<Duration>,
    pub by_route: BTreeMap<String, Vec<Duration>>,
    pub errors: Vec<String>,
    pub errors_count: u64,
    pub leaks: Vec<String>,
    pub attacks: u64,
    /// Attacks at which the server failed instead of refusing them.
    pub server_errors: Vec<String>,
    pub memory_kib: Vec<u64>,
    pub peak_kib: u64,
}

impl Phase {
    pub fn latency(&self, share: f64) -> Duration {
        latency(&self.latencies, share)
    }

    /// The mean of a quarter of the samples.
    fn quarter(&self, first: bool) -> u64 {
        let count = (self.memory_kib.len() / 4).max(1);
        let part: Vec<u64> =
            if first { self.memory_kib.iter().take(count).copied().collect() } else { self.memory_kib.iter().rev().take(count).copied().collect() };
        part.iter().sum::<u64>() / part.len().max(1) as u64
    }
}

/// The latency that this share of the answers does not exceed.
fn latency(all: &[Duration], share: f64) -> Duration {
    let mut all = all.to_vec();
    all.sort_unstable();
    let at = ((all.len() as f64 * share) as usize).min(all.len().saturating_sub(1));
    all.get(at).copied().unwrap_or_default()
}

/// By how much the last quarter may be above the second: caches fill up for some time.
const GROWTH_MAX: f64 = 1.25;
const GROWTH_KIB_MIN: u64 = 64 << 10;

impl Report {
    /// `judges_time`: also whether users waited longer, which only counts on a machine that does nothing else.
    pub fn troubles(&self, judges_time: bool) -> Vec<String> {
        let mut all = Vec::new();
        all.extend(self.exited.iter().map(|how| format!("the server exited: {how}")));
        all.extend(self.warm_errors.iter().map(|error| format!("at the start: {error}")));
        for (name, phase) in [("calm", &self.before), ("attacked", &self.under)] {
            all.extend(phase.leaks.iter().map(|leak| format!("{name}: text of another user: {leak}")));
            if phase.errors_count > 0 {
                all.push(format!("{name}: {} errors, such as {:?}", phase.errors_count, phase.errors));
            }
            if phase.latencies.is_empty() {
                all.push(format!("{name}: no request was answered"));
            }
        }
        all.extend(self.under.server_errors.iter().map(|error| format!("the server failed at an attack: {error}")));
        if self.under.peak_kib > self.memory_kib_max {
            all.push(format!("memory: {} KiB of {}", self.under.peak_kib, self.memory_kib_max));
        }
        let half = Phase { memory_kib: self.under.memory_kib.iter().skip(self.under.memory_kib.len() / 4).copied().collect(), ..empty() };
        let (first, last) = (half.quarter(true), half.quarter(false));
        if last > first + GROWTH_KIB_MIN && last as f64 > first as f64 * GROWTH_MAX {
            all.push(format!("memory grows: {first} KiB, then {last} KiB"));
        }
        let (calm, attacked) = (self.before.latency(0.99), self.under.latency(0.99));
        if judges_time && attacked > calm * 2 {
            all.push(format!("p99: {attacked:?} under attack, {calm:?} before"));
        }
        all
    }
}

fn empty() -> Phase {
    Phase {
        seconds: 0.0,
        latencies: Vec::new(),
        by_route: BTreeMap::new(),
        errors: Vec::new(),
        errors_count: 0,
        leaks: Vec::new(),
        attacks: 0,
        server_errors: Vec::new(),
        memory_kib: Vec::new(),
        peak_kib: 0,
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.order)?;
        writeln!(f, "part        s   answers  errors  p50 ms  p99 ms  max ms   attacks  memory MiB (first, last, peak)")?;
        for (name, phase) in [("calm", &self.before), ("attacked", &self.under)] {
            let ms = |share: f64| phase.latency(share).as_secs_f64() * 1e3;
            let (first, last) = (phase.quarter(true) >> 10, phase.quarter(false) >> 10);
            writeln!(
                f,
                "{name:<8} {:>4.0} {:>9} {:>7} {:>7.1} {:>7.1} {:>7.1} {:>9}  {first}, {last}, {}",
                phase.seconds,
                phase.latencies.len(),
                phase.errors_count,
                ms(0.5),
                ms(0.99),
                ms(1.0),
                phase.attacks,
                phase.peak_kib >> 10
            )?;
        }
        writeln!(f, "\nroute                               calm: answers  p50 ms  p99 ms   attacked: answers  p50 ms  p99 ms  max ms")?;
        for (route, attacked) in &self.under.by_route {
            let calm = self.before.by_route.get(route).map(Vec::as_slice).unwrap_or_default();
            let ms = |all: &[Duration], share: f64| latency(all, share).as_secs_f64() * 1e3;
            writeln!(
                f,
                "{route:<34} {:>14} {:>7.1} {:>7.1} {:>19} {:>7.1} {:>7.1} {:>7.1}",
                calm.len(),
                ms(calm, 0.5),
                ms(calm, 0.99),
                attacked.len(),
                ms(attacked, 0.5),
                ms(attacked, 0.99),
                ms(attacked, 1.0)
            )?;
        }
        Ok(())
    }
}
