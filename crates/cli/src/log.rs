//! Logging to stderr: text for people, or with `BATON_LOG_FORMAT=json` one object per line.
//!
//! The JSON lines are written by hand, because the corresponding feature of tracing-subscriber changes the features of many of our
//! dependencies.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{EnvFilter, LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, layer as fmt_layer};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::trace::Traces;

/// Logs, and passes spans to the trace exporter. Spans have their own target, which is not logged.
pub(crate) fn to_stderr(traces: &Traces) {
    let log = fmt_layer().with_writer(|| Stderr).with_ansi(io::stderr().is_terminal());
    // Libraries that handle keys are never logged, whatever the filter. Filters are regular expressions, and most starts need none.
    let filter = std::env::var("BATON_LOG")
        .ok()
        .map(|filter| EnvFilter::new(format!("{filter},{},{}=off", models::remote::LOG_FILTER, engine::trace::TARGET)));
    // The hub reports failed connections; the library's own report would repeat them.
    let usual = |level: LevelFilter| Targets::new().with_default(level).with_target("rmcp", LevelFilter::OFF);
    let is_json = std::env::var("BATON_LOG_FORMAT").is_ok_and(|format| format == "json");
    let log = match (filter, is_json) {
        (Some(filter), true) => log.event_format(Lines).with_filter(filter).boxed(),
        (None, true) => log.event_format(Lines).with_filter(usual(LevelFilter::INFO)).boxed(),
        (Some(filter), false) => log.without_time().with_filter(filter).boxed(),
        (None, false) => log.without_time().with_filter(usual(LevelFilter::WARN)).boxed(),
    };
    tracing_subscriber::registry().with(log).with(traces.layer()).init();
    traces.log_errors();
}

/// While one exists, log lines are buffered, because they would break the progress tree. They are written when the last one is dropped.
pub(crate) struct Hold(());

impl Hold {
    pub(crate) fn new() -> Hold {
        waiting().holders += 1;
        Hold(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut waiting = waiting();
        waiting.holders -= 1;
        if waiting.holders == 0 {
            let bytes = std::mem::take(&mut waiting.bytes);
            // There is nowhere else to report to.
            let _ = io::stderr().write_all(&bytes);
        }
    }
}

struct Waiting {
    holders: usize,
    bytes: Vec<u8>,
}

/// Further lines are written immediately.
const WAITING_BYTES_MAX: usize = 1 << 20;

static WAITING: Mutex<Waiting> = Mutex::new(Waiting { holders: 0, bytes: Vec::new() });

fn waiting() -> MutexGuard<'static, Waiting> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Stderr;

impl io::Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut waiting = waiting();
        if waiting.holders == 0 || waiting.bytes.len() + bytes.len() > WAITING_BYTES_MAX {
            return io::stderr().write(bytes);
        }
        waiting.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let about = event.metadata();
        let at_ms = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as u64);
        let mut fields = Fields(Map::new());
        fields.0.insert("at_ms".into(), json!(at_ms));
        fields.0.insert("level".into(), json!(about.level().as_str().to_lowercase()));
        fields.0.insert("from".into(), json!(about.target()));
        event.record(&mut fields);
        writeln!(writer, "{}", Value::Object(fields.0))
    }
}

struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), json!(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), json!(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wait_while_a_tree_is_drawn() {
        let (first, second) = (Hold::new(), Hold::new());
        Stderr.write_all(b"a line\n").unwrap();
        drop(first);
        assert!(waiting().bytes.ends_with(b"a line\n"));
        drop(second);
    }
}
