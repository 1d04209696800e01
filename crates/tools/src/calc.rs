//! Calculator: exact fractions, units and dates in fend's notation. No randomness, no clock, and no exchange rates except those given, so
//! that the same expression always has the same result.
//!
//! A calculation runs on its own thread with a large stack, because expressions nest. It is interrupted at its time limit or when the
//! caller is gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evidence::Trust;
use fend_core::{Context, ExchangeRateFnV2, ExchangeRateFnV2Options, Interrupt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, oneshot};

use crate::time::days_since_1970;
use crate::{Builtin, Hints, Kind, Passage, Settings, Tool, ToolError, ToolOutput, Toolset};

/// The server `calc`: arithmetic, units and dates.
pub const KIND: Kind =
    Kind { name: "calc", about: "Calculates exactly, with fractions, units, percentages and dates", port: 8005, trust: Trust::Computed, make };

const EXPRESSION_BYTES_MAX: usize = 2_000;
/// Limit of nested brackets. Signs and powers nest too, but the length limit bounds them.
const NESTING_MAX: usize = 200;
const RESULT_BYTES_MAX: usize = 4_000;
const TIME_MAX: Duration = Duration::from_secs(2);
const STACK_BYTES: usize = 64 << 20;
const AT_ONCE_MAX: usize = 4;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CalcArguments {
    /// What to calculate, such as `(3 + 4/5) * 12`, `65 mph to km/h`, `15% of 240`, `sqrt 2 to 10 dp`, `@2026-11-15 + 90 days`.
    expression: String,
    /// For money only: how much of each currency one unit of a common base buys, such as {"USD": 1, "EUR": 0.92}.
    #[serde(default)]
    rates: Option<BTreeMap<String, f64>>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CalcOutput {
    expression: String,
    result: String,
    /// Whether the result is exact; otherwise digits were cut off.
    exact: bool,
    passages: Vec<Passage>,
}

fn make(kind: &Kind, _: &Settings) -> Result<Builtin, String> {
    let turns = Arc::new(Semaphore::new(AT_ONCE_MAX));
    let calculate = Tool::new(
        "calculate",
        "Calculate an expression exactly: arithmetic, fractions, powers, roots, percentages, units and their conversion (`to`), dates \
         (`@2026-01-31 + 30 days`, `@2026-03-01 - @2026-01-01 to weeks`). Use it for every number you would otherwise work out in your head.",
        Hints::READS,
        move |takes: CalcArguments, _| {
            let turns = Arc::clone(&turns);
            async move { calculate(takes, turns).await }
        },
    );
    Ok(kind.around(Toolset::new(kind.name, kind.about, [calculate])))
}

async fn calculate(takes: CalcArguments, turns: Arc<Semaphore>) -> Result<ToolOutput<CalcOutput>, ToolError> {
    let expression = takes.expression.trim().to_owned();
    check(&expression)?;
    let turn = turns.acquire_owned().await.map_err(|_| ToolError("the calculator is closing".into()))?;
    let stop = Stop { over: Arc::new(AtomicBool::new(false)), end: Instant::now() + TIME_MAX };
    let _gone = StopOnDrop(Arc::clone(&stop.over));
    let (sender, receiver) = oneshot::channel();
    let (input, rates) = (with_days(&with_marked_dates(&with_operators(&expression)))?, takes.rates.unwrap_or_default());
    let work = move || {
        let end = evaluate(&input, rates, &stop);
        drop(turn);
        // The caller may be gone.
        let _ = sender.send(end);
    };
    let spawned = std::thread::Builder::new().name("calc".into()).stack_size(STACK_BYTES).spawn(work);
    spawned.map_err(|error| ToolError(format!("no thread to calculate on: {error}; try again")))?;
    let end = match tokio::time::timeout(TIME_MAX + Duration::from_millis(500), receiver).await {
        Ok(Ok(end)) => end,
        Ok(Err(_)) => Err("the calculator stumbled over this expression; write it in another way".to_owned()),
        Err(_) => Err("interrupted".to_owned()),
    };
    let result = end.map_err(|why| explain(&expression, &why))?;
    if result.len() > RESULT_BYTES_MAX {
        return Err(ToolError(format!(
            "the result has {} characters, more than the {RESULT_BYTES_MAX} that are given; ask for a few digits of it, as in `({expression}) to 20 sf`",
            result.len()
        )));
    }
    let (exact, result) = match result.strip_prefix("approx. ") {
        Some(rest) => (false, rest.to_owned()),
        None => (true, result),
    };
    let text = format!("{expression} {} {result}", if exact { "=" } else { "≈" });
    let passages = vec![Passage { text: text.clone(), title: Some("calculation".into()), ..Passage::default() }];
    Ok(ToolOutput { text, data: CalcOutput { expression, result, exact, passages } })
}

fn check(expression: &str) -> Result<(), ToolError> {
    if expression.is_empty() {
        return Err("`expression` is empty; give something like `12.5% of 80`".into());
    }
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(ToolError(format!(
            "the expression has {} bytes; {EXPRESSION_BYTES_MAX} are allowed, so calculate it in parts",
            expression.len()
        )));
    }
    let mut depth = 0_usize;
    for c in expression.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > NESTING_MAX {
            return Err(ToolError(format!("the expression nests deeper than {NESTING_MAX} brackets; calculate it in parts")));
        }
    }
    Ok(())
}

/// Replaces operators written as words.
fn with_operators(expression: &str) -> String {
    const PAIRS: [(&str, &str, &str); 2] = [("multiplied", "by", "*"), ("divided", "by", "/")];
    const WORDS: [(&str, &str); 3] = [("times", "*"), ("plus", "+"), ("minus", "-")];
    let words: Vec<&str> = expression.split_whitespace().collect();
    let mut text: Vec<&str> = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let is = |wanted: &str| word.eq_ignore_ascii_case(wanted);
        let pair = PAIRS.iter().find(|(first, second, _)| is(first) && words.get(at + 1).is_some_and(|next| next.eq_ignore_ascii_case(second)));
        let operator = pair.map(|(_, _, sign)| *sign).or_else(|| WORDS.iter().find(|(name, _)| is(name)).map(|(_, sign)| *sign));
        text.push(operator.unwrap_or(word));
        at += if pair.is_some() { 2 } else { 1 };
    }
    text.join(" ")
}

/// Adds an `@` to dates such as `2026-03-01`; without it fend would subtract the month and the day from the year.
fn with_marked_dates(expression: &str) -> String {
    const LENGTH: usize = "2026-03-01".len();
    let is_date = |text: &str| {
        let shape = text.bytes().enumerate().all(|(at, byte)| if at == 4 || at == 7 { byte == b'-' } else { byte.is_ascii_digit() });
        shape && days_since_1970(text).is_some()
    };
    let joins = |c: char| c.is_alphanumeric() || c == '.' || c == '_';
    let mut text = String::with_capacity(expression.len());
    let mut rest = expression;
    while let Some(next) = rest.chars().next() {
        let date = rest.get(..LENGTH).filter(|date| is_date(date));
        let stands_alone = |_: &&str| !text.ends_with(joins) && !rest[LENGTH..].starts_with(|c: char| joins(c) || c == '-');
        let taken = match date.filter(stands_alone) {
            Some(date) => {
                text.push_str(if text.ends_with('@') { "" } else { "@" });
                text.push_str(date);
                LENGTH
            }
            None => {
                text.push(next);
                next.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    text
}

/// fend adds days to dates but does not subtract dates; a difference of two dates is replaced by its days.
fn with_days(expression: &str) -> Result<String, ToolError> {
    let mut text = String::new();
    let mut rest = expression;
    while let Some(at) = rest.find('@') {
        text.push_str(&rest[..at]);
        let (first, after) = date(&rest[at..]);
        let second = after.trim_start().strip_prefix('-').map(str::trim_start).filter(|second| second.starts_with('@')).map(date);
        match (first, second) {
            (Some(first), Some((Some(second), after))) => {
                let days =
                    |date: &str| days_since_1970(date).ok_or_else(|| ToolError(format!("`@{date}` is not a day of the calendar; write @2026-02-28")));
                text.push_str(&format!("(({}) days)", days(first)? - days(second)?));
                rest = after;
            }
            _ => {
                text.push_str(&rest[at..rest.len() - after.len()]);
                rest = after;
            }
        }
    }
    text.push_str(rest);
    Ok(text)
}

/// The date after an `@`, and the rest.
fn date(text: &str) -> (Option<&str>, &str) {
    let digits = text[1..].bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'-').count();
    let is_date = digits >= 10 && text.as_bytes()[5] == b'-' && text.as_bytes()[8] == b'-';
    if is_date { (Some(&text[1..11]), &text[11..]) } else { (None, &text[1..]) }
}

fn evaluate(input: &str, rates: BTreeMap<String, f64>, stop: &Stop) -> Result<String, String> {
    let mut context = Context::new();
    if !rates.is_empty() {
        context.set_exchange_rate_handler_v2(Rates(rates));
    }
    let result = fend_core::evaluate_with_interrupt(input, &mut context, stop)?;
    let text = result.get_main_result().trim().to_owned();
    if text.is_empty() { Err("it has no result".to_owned()) } else { Ok(text) }
}

fn explain(expression: &str, why: &str) -> ToolError {
    let lower = why.to_lowercase();
    let hint = if lower.contains("interrupted") {
        return ToolError(format!(
            "`{expression}` takes longer than {} s; ask for something smaller, or for an estimate by logarithms",
            TIME_MAX.as_secs()
        ));
    } else if lower.contains("exchange rate") {
        "give the exchange rates in `rates`, found with another tool"
    } else if lower.contains("random") {
        "chance is not allowed here: the same expression must always give the same result"
    } else if lower.contains("unknown identifier") {
        "use digits, the operators + - * / ^, units and functions such as sqrt, ln, sin; give values instead of names"
    } else if lower.contains("current date") || lower.contains("current time") {
        "this calculator has no clock: write the date as @2026-11-15"
    } else {
        "correct the expression; examples: `2^10`, `65 mph to km/h`, `15% of 240`, `@2026-01-31 + 30 days`"
    };
    ToolError(format!("`{expression}` cannot be calculated: {why}; {hint}"))
}

struct Stop {
    over: Arc<AtomicBool>,
    end: Instant,
}

impl Interrupt for Stop {
    fn should_interrupt(&self) -> bool {
        self.over.load(Ordering::Relaxed) || Instant::now() >= self.end
    }
}

struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Rates(BTreeMap<String, f64>);

impl ExchangeRateFnV2 for Rates {
    fn relative_to_base_currency(
        &self,
        currency: &str,
        _: &ExchangeRateFnV2Options,
    ) -> Result<f64, Box<dyn std::error::Error + Send + Sync + 'static>> {
        let found = self.0.iter().find(|(name, _)| name.eq_ignore_ascii_case(currency));
        found.map(|(_, rate)| *rate).ok_or_else(|| format!("no exchange rate for {currency} was given").into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{Reply, session};

    #[tokio::test]
    async fn what_comes_out() {
        let calc = session("calc").await;
        let rows = [
            ("2 + 3 * 4", "14", true),
            ("1/3 + 1/6", "0.5", true),
            ("0.1 + 0.2 == 0.3", "true", true),
            ("2^100", "1267650600228229401496703205376", true),
            ("15% of 240", "36", true),
            ("65 mph to km/h", "104.60736 km / h", true),
            ("5 ft + 4 inches to cm", "162.56 cm", true),
            ("@2026-03-01 - @2026-01-01", "59 days", true),
            ("@2024-03-01 - @2024-02-28 to hours", "48 hours", true),
            ("@2026-01-01 - @2026-01-08 to weeks", "-1 weeks", true),
            ("(2026-11-15 - 2026-03-01) / 1", "259 days", true),
            ("2026-11-15 + 90 days", "Saturday, 13 February 2027", true),
            ("2026 - 11 - 15", "2000", true),
            ("2026-11-15-1", "1999", true),
            ("2026-13-15", "1998", true),
            ("1/3", "0.3333333333", false),
            ("sqrt 2 to 10 dp", "1.4142135624", false),
            ("@2026-11-15 + 90 days", "Saturday, 13 February 2027", true),
            ("3 kg * 9.81 m/s^2 to N", "29.43 N", true),
            ("20!", "2432902008176640000", true),
            ("4 bits to bytes", "0.5 bytes", true),
            ("6 times 7 plus 1/2", "42.5", true),
            ("9 divided by 3 minus 1", "2", true),
            ("3 Multiplied by (4 + 1)", "15", true),
        ];
        let mut wrong = Vec::new();
        for (expression, result, exact) in rows {
            let reply = calc.call_any("calculate", json!({"expression": expression})).await;
            if (reply.data["result"].as_str(), reply.data["exact"].as_bool()) != (Some(result), Some(exact)) {
                wrong.push(reply.text);
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[tokio::test]
    async fn money_only_at_given_rates() {
        let calc = session("calc").await;
        calc.refuses("calculate", json!({"expression": "100 USD to EUR"}), &["`rates`"]).await;
        let reply = calc.call("calculate", json!({"expression": "100 USD to EUR", "rates": {"USD": 1, "EUR": 0.5}})).await;
        assert_eq!(reply.data["result"], "50 EUR", "{}", reply.text);
    }

    #[tokio::test]
    async fn errors_name_the_next_step() {
        let calc = session("calc").await;
        let rows = [
            (json!({"expression": ""}), "empty"),
            (json!({"expression": "2 +"}), "correct the expression"),
            (json!({"expression": "wibble * 2"}), "instead of names"),
            (json!({"expression": "roll d6"}), "chance"),
            (json!({"expression": "today"}), "@2026"),
            (json!({"expression": "1/0"}), "zero"),
            (json!({"expression": "@2026-02-30 - @2026-01-01"}), "calendar"),
            (json!({"expression": "3 kg + 2 m"}), "cannot be calculated"),
            (json!({"expr": "1"}), "expression (string, required)"),
            (json!({"expression": 5}), "expression (string, required)"),
        ];
        for (arguments, part) in rows {
            calc.refuses("calculate", arguments, &[part]).await;
        }
    }

    /// None of these may crash the process or exhaust its memory; an error and a result are both fine.
    #[tokio::test]
    async fn hostile_expressions_end() {
        let calc = session("calc").await;
        let long = |unit: &str| unit.repeat(1_990 / unit.len());
        let rows = [
            "9^9^9^9".to_owned(),
            "9^9^9".to_owned(),
            "2^(2^40)".to_owned(),
            "100000000!".to_owned(),
            "((((9!)!)!)!)!".to_owned(),
            "(10^100)!".to_owned(),
            format!("{}1{}", "(".repeat(990), ")".repeat(990)),
            format!("{}1{}", "(".repeat(199), ")".repeat(199)),
            long("-") + "1",
            long("("),
            long("1^"),
            long("2^-"),
            long("sin "),
            long("\\x."),
            long("x:"),
            long("1 to "),
            long("9"),
            long("1/3 + ") + "1",
            long("π^"),
            long("√"),
            "a = 5; ".repeat(200) + "a",
            "fib 100000000".to_owned(),
            "1e1000000000".to_owned(),
            "1e-1000000000".to_owned(),
            "sqrt(2)^(sqrt(3)^sqrt(5)^99)".to_owned(),
            "10^1000000 to words".to_owned(),
            "9^9^9 to roman".to_owned(),
            "0x".to_owned() + &long("f"),
            "\u{0}\u{202e}1+1".to_owned(),
            "'".to_owned() + &long("a"),
            "mean(roll 999999999d999999999)".to_owned(),
            "@9999999999-01-01 + 99999999999999999999 days".to_owned(),
            "5 days to 9999999999999 base".to_owned(),
            "@ - @".to_owned(),
            "@2026-01-01 - @".to_owned(),
            "@é2026-01-01 - @2026é01-01".to_owned(),
            long("@"),
        ];
        for expression in rows {
            let reply: Reply = calc.call_any("calculate", json!({"expression": expression})).await;
            assert!(!reply.text.is_empty() && reply.text.len() < 9_000, "{expression}");
        }
        // It still works afterwards.
        assert_eq!(calc.call("calculate", json!({"expression": "1 + 1"})).await.data["result"], "2");
    }
}
