//! `--budget tokens=2000,usd=0.05,time=30s,calls=10`.

use graph::Budget;

pub(crate) fn parse(text: &str) -> Result<Budget, String> {
    let mut budget = Budget::default();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').ok_or_else(|| format!("{part:?} is not NAME=VALUE; {FORM}"))?;
        let whole = || value.parse::<u64>().map_err(|_| format!("{name} wants a whole number, not {value:?}"));
        match name.trim() {
            "tokens" => budget.tokens_max = Some(whole()?),
            "calls" => budget.calls_max = Some(whole()?),
            "usd" => budget.usd_micros_max = Some(usd_micros(value)?),
            "time" => budget.time_ms_max = Some(time_ms(value)?),
            other => return Err(format!("there is no limit {other:?}; {FORM}")),
        }
    }
    match budget == Budget::default() {
        true => Err(FORM.into()),
        false => Ok(budget),
    }
}

const FORM: &str = "write tokens=N, usd=X, time=30s, calls=N, with commas between them";

fn usd_micros(value: &str) -> Result<u64, String> {
    let usd: f64 = value.trim_start_matches('$').parse().map_err(|_| format!("usd wants an amount such as 0.05, not {value:?}"))?;
    match usd.is_finite() && usd >= 0.0 {
        true => Ok((usd * 1e6).round() as u64),
        false => Err(format!("usd wants an amount such as 0.05, not {value:?}")),
    }
}

fn time_ms(value: &str) -> Result<u64, String> {
    let digits = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let factor = match unit.trim() {
        "ms" => 1.0,
        "" | "s" => 1e3,
        "m" | "min" => 60e3,
        "h" => 3_600e3,
        other => return Err(format!("{other:?} is not a unit of time; use ms, s, m or h")),
    };
    let number: f64 = number.parse().map_err(|_| format!("time wants a length such as 30s or 2m, not {value:?}"))?;
    Ok((number * factor).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_with_their_units() {
        let all = parse("tokens=2000, usd=0.05,time=1.5m,calls=7").unwrap();
        let wanted =
            Budget { tokens_max: Some(2_000), usd_micros_max: Some(50_000), time_ms_max: Some(90_000), calls_max: Some(7), ..Budget::default() };
        assert_eq!(all, wanted);
        assert_eq!(parse("time=250ms").unwrap().time_ms_max, Some(250));
        assert_eq!(parse("time=30").unwrap().time_ms_max, Some(30_000));
        for wrong in ["", "tokens", "tokens=many", "usd=-1", "usd=nan", "time=3d", "time=s", "patience=1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
