//! What goes on, in numbers, as Prometheus reads them: counters and gauges that are a few atomics, written out by hand.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::HealthNow;

/// Upper bounds of the buckets that times are counted in, in seconds.
const BOUNDS_S: [f64; 9] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0];

/// Methods that mean something; all others are anybody's words.
const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "other"];
const STATUSES: usize = 600;

/// Counters of the server in the format of Prometheus.
pub struct Metrics {
    /// Requests by method and status: a counter for each combination, so that counting needs no lock.
    requests: Vec<AtomicU64>,
    /// How long until the headers of an answer.
    buckets: [AtomicU64; BOUNDS_S.len()],
    took_us: AtomicU64,
    count: AtomicU64,
    runs: Mutex<BTreeMap<String, u64>>,
    streams: AtomicI64,
}

/// Values that are read from other parts when metrics are requested.
pub(crate) struct Gauges {
    pub(crate) runs_followed: usize,
    pub(crate) runs_going: usize,
    pub(crate) tasks: usize,
    pub(crate) health: HealthNow,
    pub(crate) disk_free_bytes: Option<u64>,
}

/// An open stream; it is counted until this goes.
pub struct OpenStream(Arc<Metrics>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// All counters at zero.
    pub fn new() -> Arc<Self> {
        let requests = std::iter::repeat_with(AtomicU64::default).take(METHODS.len() * STATUSES).collect();
        Arc::new(Metrics {
            requests,
            buckets: Default::default(),
            took_us: AtomicU64::new(0),
            count: AtomicU64::new(0),
            runs: Mutex::default(),
            streams: AtomicI64::new(0),
        })
    }

    pub(crate) fn request(&self, method: &str, status: u16, took: Duration) {
        let method = METHODS.iter().position(|known| *known == method).unwrap_or(METHODS.len() - 1);
        if let Some(counter) = self.requests.get(method * STATUSES + usize::from(status).min(STATUSES - 1)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(at) = BOUNDS_S.iter().position(|bound| took.as_secs_f64() <= *bound) {
            self.buckets[at].fetch_add(1, Ordering::Relaxed);
        }
        self.took_us.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn run_started(&self, flow: &str) {
        *self.runs.lock().unwrap_or_else(PoisonError::into_inner).entry(flow.to_owned()).or_default() += 1;
    }

    pub(crate) fn stream_opened(self: &Arc<Self>) -> OpenStream {
        self.streams.fetch_add(1, Ordering::Relaxed);
        OpenStream(self.clone())
    }

    pub(crate) fn text(&self, now: &Gauges) -> String {
        let mut text = String::new();
        let mut line = |words: std::fmt::Arguments<'_>| text.push_str(&format!("{words}\n"));
        line(format_args!("# HELP baton_http_requests_total Requests that were answered."));
        line(format_args!("# TYPE baton_http_requests_total counter"));
        for (at, counter) in self.requests.iter().enumerate() {
            let (method, status, count) = (METHODS[at / STATUSES], at % STATUSES, counter.load(Ordering::Relaxed));
            if count > 0 {
                line(format_args!("baton_http_requests_total{{method=\"{method}\",status=\"{status}\"}} {count}"));
            }
        }
        line(format_args!("# HELP baton_http_request_seconds Time until the headers of an answer."));
        line(format_args!("# TYPE baton_http_request_seconds histogram"));
        let mut sum = 0;
        for (bound, bucket) in BOUNDS_S.iter().zip(&self.buckets) {
            sum += bucket.load(Ordering::Relaxed);
            line(format_args!("baton_http_request_seconds_bucket{{le=\"{bound}\"}} {sum}"));
        }
        let count = self.count.load(Ordering::Relaxed);
        line(format_args!("baton_http_request_seconds_bucket{{le=\"+Inf\"}} {count}"));
        line(format_args!("baton_http_request_seconds_sum {}", self.took_us.load(Ordering::Relaxed) as f64 / 1e6));
        line(format_args!("baton_http_request_seconds_count {count}"));
        line(format_args!("# HELP baton_runs_started_total Runs that were started over HTTP."));
        line(format_args!("# TYPE baton_runs_started_total counter"));
        for (flow, count) in &*self.runs.lock().unwrap_or_else(PoisonError::into_inner) {
            line(format_args!("baton_runs_started_total{{flow=\"{flow}\"}} {count}"));
        }
        line(format_args!("# HELP baton_streams Open event streams."));
        line(format_args!("# TYPE baton_streams gauge"));
        line(format_args!("baton_streams {}", self.streams.load(Ordering::Relaxed)));
        line(format_args!("# HELP baton_runs_followed Runs with at least one watcher."));
        line(format_args!("# TYPE baton_runs_followed gauge"));
        line(format_args!("baton_runs_followed {}", now.runs_followed));
        line(format_args!("# HELP baton_runs_going Runs that are in memory and driven here."));
        line(format_args!("# TYPE baton_runs_going gauge"));
        line(format_args!("baton_runs_going {}", now.runs_going));
        line(format_args!("# HELP baton_tasks Tasks of the runtime that are alive; what grows here while nothing goes on is a leak."));
        line(format_args!("# TYPE baton_tasks gauge"));
        line(format_args!("baton_tasks {}", now.tasks));
        let HealthNow { is_store_up, store_failures, taken_over, given_up } = now.health;
        line(format_args!("# HELP baton_store_up Whether the last read and the last write of the store succeeded."));
        line(format_args!("# TYPE baton_store_up gauge"));
        line(format_args!("baton_store_up {}", u8::from(is_store_up)));
        line(format_args!("# HELP baton_store_failures_total Reads and writes that failed because of the store."));
        line(format_args!("# TYPE baton_store_failures_total counter"));
        line(format_args!("baton_store_failures_total {store_failures}"));
        line(format_args!("# HELP baton_runs_taken_over_total Runs of processes that ended, continued here."));
        line(format_args!("# TYPE baton_runs_taken_over_total counter"));
        line(format_args!("baton_runs_taken_over_total {taken_over}"));
        line(format_args!("# HELP baton_runs_given_up_total Runs that were ended because they ended their process again and again."));
        line(format_args!("# TYPE baton_runs_given_up_total counter"));
        line(format_args!("baton_runs_given_up_total {given_up}"));
        if let Some(bytes) = now.disk_free_bytes {
            line(format_args!("# HELP baton_disk_free_bytes Bytes that are free where files are kept."));
            line(format_args!("# TYPE baton_disk_free_bytes gauge"));
            line(format_args!("baton_disk_free_bytes {bytes}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_add_up() {
        let metrics = Metrics::new();
        metrics.request("GET", 200, Duration::from_millis(3));
        metrics.request("BREW", 405, Duration::from_secs(60));
        metrics.run_started("direct");
        let open = metrics.stream_opened();
        let health = HealthNow { is_store_up: false, store_failures: 5, taken_over: 6, given_up: 7 };
        let now = |runs_followed| Gauges { runs_followed, runs_going: 3, tasks: 4, health, disk_free_bytes: Some(8) };
        let text = metrics.text(&now(2));
        for line in [
            "baton_http_requests_total{method=\"GET\",status=\"200\"} 1",
            "baton_http_requests_total{method=\"other\",status=\"405\"} 1",
            "baton_http_request_seconds_bucket{le=\"0.0025\"} 0",
            "baton_http_request_seconds_bucket{le=\"0.005\"} 1",
            "baton_http_request_seconds_bucket{le=\"+Inf\"} 2",
            "baton_runs_started_total{flow=\"direct\"} 1",
            "baton_streams 1",
            "baton_runs_followed 2",
            "baton_runs_going 3",
            "baton_tasks 4",
            "baton_store_up 0",
            "baton_store_failures_total 5",
            "baton_runs_taken_over_total 6",
            "baton_runs_given_up_total 7",
            "baton_disk_free_bytes 8",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in {text}");
        }
        drop(open);
        assert!(metrics.text(&now(0)).contains("\nbaton_streams 0\n"));
    }
}
