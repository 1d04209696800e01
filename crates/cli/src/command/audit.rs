use std::io::Write as _;

use audit::{Head, Line, time_of};
use serde_json::json;

use crate::exit::{Exit, Result, ServiceError};
use service::audited;
use service::global_args::GlobalArgs;
use terminal::{BOLD, DIM, now_ms, one_line, paint};

/// Show the audit log, and verify that it was not changed
#[derive(clap::Subcommand)]
#[command(after_help = "Examples:
  baton audit show --since 7d
  baton audit show --user ada --json
  baton audit verify                      prints the number and hash of the last line; keep them elsewhere
  baton audit verify --kept 120:9f86d0…   and compare them later: nothing up to that line was changed or cut off

Recorded are sign-ins, tokens, answers to questions about tool calls, permissions, imports, tools and servers that are switched, tool calls that may
change something, deletions, exports and backups. Arguments are never in it, only their SHA-256. What cannot be recorded is not done.
[audit] in the configuration sets its size: file_bytes_max (8388608) and files_max (64); the oldest file is removed when there are more.")]
pub(crate) enum Audit {
    /// Print the log, oldest line first
    Show {
        /// Only actions of this user
        #[arg(long)]
        user: Option<String>,
        /// Only entries since: 30m, 12h, 7d, or a day such as 2026-11-16
        #[arg(long, value_parser = since, value_name = "TIME")]
        since: Option<Since>,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Check every line and the hash chain; exits with 1 and names the first broken line
    Verify {
        /// A last line that was reported earlier, as NUMBER:HASH
        #[arg(long, value_parser = head, value_name = "NUMBER:HASH")]
        kept: Option<Head>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    Ago(i64),
    At(i64),
}

impl Since {
    fn ms(self) -> i64 {
        match self {
            Since::Ago(ms) => now_ms() - ms,
            Since::At(ms) => ms,
        }
    }
}

impl Audit {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        match self {
            Audit::Show { user, since, json } => show(globals, user.as_deref(), since.map(Since::ms), json),
            Audit::Verify { kept, json } => verify(globals, kept.as_ref(), json),
        }
    }
}

fn show(globals: &GlobalArgs, user: Option<&str>, since_ms: Option<i64>, as_json: bool) -> Result<Exit> {
    let log = audited::log(globals)?;
    let mut out = anstream::stdout().lock();
    let mut wrong: Option<ServiceError> = None;
    audit::read(log.folder(), |found| {
        let shown = match found.entry {
            Ok((line, _)) => {
                let is_wanted = user.is_none_or(|user| line.user == user) && since_ms.is_none_or(|ms| line.at_ms >= ms);
                if is_wanted { print(&mut out, &line, as_json) } else { Ok(()) }
            }
            Err(why) => Err(ServiceError::Failed(format!("{}: line {} is broken: {why}", found.file.display(), found.line))),
        };
        wrong = shown.err();
        wrong.is_none()
    })?;
    wrong.map_or(Ok(Exit::Well), Err)
}

fn print(out: &mut impl std::io::Write, line: &Line, as_json: bool) -> Result<()> {
    if as_json {
        return Ok(writeln!(out, "{}", serde_json::to_string(line)?)?);
    }
    let time = paint(DIM, time_of(line.at_ms));
    let about =
        [line.tool.as_deref(), line.detail.as_deref(), line.from.as_deref(), line.run.as_deref()].map(|text| text.map(|text| one_line(text, 80)));
    let about: Vec<String> = about.into_iter().flatten().collect();
    Ok(writeln!(out, "{time}  {}  {}  {}", one_line(&line.user, 40), paint(BOLD, line.what.as_str()), about.join(", "))?)
}

fn verify(globals: &GlobalArgs, kept: Option<&Head>, as_json: bool) -> Result<Exit> {
    let log = audited::log(globals)?;
    let mut out = anstream::stdout();
    let verified = match audit::verify(log.folder(), kept)? {
        Ok(verified) => verified,
        Err(broken) if as_json => {
            writeln!(out, "{}", json!({ "ok": false, "file": broken.file, "line": broken.line, "why": broken.why }))?;
            return Ok(Exit::Failed);
        }
        Err(broken) => return Err(ServiceError::Failed(broken.to_string())),
    };
    if let Some(kept) = kept {
        let why = match verified.has_kept {
            Some(true) => None,
            Some(false) => Some(format!("line {} has a different hash than the one given; the log was rewritten", kept.seq)),
            None if kept.seq < verified.first => Some(format!("line {} was removed with the oldest files", kept.seq)),
            None => Some(format!("line {} is missing: the end of the log was cut off", kept.seq)),
        };
        if let Some(why) = why {
            return Err(ServiceError::Failed(why));
        }
    }
    let head = verified.head.as_ref();
    match (as_json, head) {
        (true, _) => {
            let head = head.map(|head| json!({ "seq": head.seq, "hash": head.hash }));
            writeln!(out, "{}", json!({ "ok": true, "lines": verified.lines, "first": verified.first, "head": head }))?;
        }
        (false, None) => writeln!(out, "the log is empty")?,
        (false, Some(head)) => writeln!(out, "{} lines are whole; the last is {}:{}", verified.lines, head.seq, head.hash)?,
    }
    Ok(Exit::Well)
}

fn head(text: &str) -> std::result::Result<Head, String> {
    let parts = text.split_once(':').and_then(|(seq, hash)| Some((seq.parse().ok()?, hash)));
    let is_hash = |hash: &str| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    match parts.filter(|(_, hash)| is_hash(hash)) {
        Some((seq, hash)) => Ok(Head { seq, hash: hash.to_ascii_lowercase() }),
        None => Err("write it as `baton audit verify` printed it: 120:HASH, with 64 hexadecimal digits".to_owned()),
    }
}

const DAY_MS: i64 = 86_400_000;

fn since(text: &str) -> std::result::Result<Since, String> {
    let wrong = || "write 30m, 12h, 7d, or a day such as 2026-11-16".to_owned();
    let unit = |unit: char| match unit {
        'm' => Some(60_000),
        'h' => Some(3_600_000),
        'd' => Some(DAY_MS),
        _ => None,
    };
    if let Some(ms) = text.chars().last().and_then(unit) {
        let count: u32 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
        return Ok(Since::Ago(i64::from(count).saturating_mul(ms)));
    }
    let parts: Vec<i64> = text.split('-').map(str::parse).collect::<std::result::Result<_, _>>().map_err(|_| wrong())?;
    match parts[..] {
        [year @ 1970..=9999, month @ 1..=12, day @ 1..=31] => Ok(Since::At(days_since_1970(year, month, day) * DAY_MS)),
        _ => Err(wrong()),
    }
}

/// Gregorian calendar, with years that begin in March so that the leap day is their last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ago_or_days() {
        assert_eq!((since("30m"), since("7d")), (Ok(Since::Ago(1_800_000)), Ok(Since::Ago(7 * DAY_MS))));
        for (day, expected) in
            [("1970-01-01", "1970-01-01"), ("2024-02-29", "2024-02-29"), ("2026-11-16", "2026-11-16"), ("2000-03-01", "2000-03-01")]
        {
            let Ok(Since::At(ms)) = since(day) else { panic!("{day}") };
            assert!(time_of(ms).starts_with(&format!("{expected} 00:00:00")), "{day}: {}", time_of(ms));
        }
        for wrong in ["", "d", "yesterday", "2026-13-01", "2026-1", "-5h"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }
}
