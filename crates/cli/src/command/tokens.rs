use std::io::Write as _;

use anstyle::Style;
use audit::EventKind;
use graph::UserId;
use serde_json::json;
use server::guard;
use service::access::{self, Running};
use service::audited;
use service::global_args::GlobalArgs;
use service::wiring;
use store::{NewToken, Store};
use terminal::{BOLD, Table, age, now_ms, paint};

use crate::exit::{Exit, Result, ServiceError};

/// Manage access tokens of the server: each belongs to a user, who sees only their own threads
#[derive(clap::Subcommand)]
#[command(after_help = "Examples:
  baton tokens add ada            prints a token, once; give it to Ada
  baton tokens add ada --days 30 --scope read
  baton tokens rotate 3           a new token for the same user; the old one works for another day
  baton tokens list
  baton tokens link               a link that opens the page of a running server in any browser of this machine
  baton tokens remove 3           it works no longer, and neither do the pages that were opened with it

As soon as there is a token, `baton serve` lets in nobody without one. Those it had before, on this machine alone, are the user `local`;
`baton tokens add local` makes a token that opens them.")]
pub(crate) enum Tokens {
    /// Create a token for a user and print it; only its hash is stored
    Add {
        user: String,
        /// Days until it expires [default: never]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_500))]
        days: Option<u32>,
        /// What it allows: everything the user may do, or only reading
        #[arg(long, value_enum, default_value_t)]
        scope: TokenScope,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Create a new token for the user of another one, which expires after some hours
    Rotate {
        /// Its number in `baton tokens list`
        token: u64,
        /// Hours until the old one expires
        #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(0..=8_760))]
        hours: u32,
        /// Days until the new one expires [default: never]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_500))]
        days: Option<u32>,
        /// What the new one allows [default: what the old one allows]
        #[arg(long, value_enum)]
        scope: Option<TokenScope>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List all tokens
    List {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Print the link and the token file of your running servers
    Link {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token
    Remove {
        /// Its number in `baton tokens list`
        token: u64,
    },
}

impl Tokens {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        wiring::block_on(async {
            let mut out = anstream::stdout();
            match self {
                Tokens::Add { user, days, scope, json } => {
                    let user = named(&user)?;
                    let CreatedToken { number, token } = make(globals, &*globals.open_or_make().await?, &user, days, scope).await?;
                    match json {
                        true => writeln!(out, "{}", json!({ "number": number, "user": user, "token": token }))?,
                        false => writeln!(
                            out,
                            "{}\nfor {user}; it is shown this once, and `baton tokens remove {number}` takes it back",
                            paint(BOLD, &token)
                        )?,
                    }
                }
                Tokens::Rotate { token: old, hours, days, scope, json } => {
                    let store = globals.open().await?;
                    let all = store.tokens().await?;
                    let row = all.iter().find(|row| row.token == old).ok_or_else(|| absent(old))?;
                    let scope = scope.or_else(|| row.scope.as_deref().and_then(TokenScope::read)).ok_or_else(|| {
                        ServiceError::Usage(format!(
                            "what token {old} allows was not recorded when it was made; name it with --scope all or --scope read"
                        ))
                    })?;
                    let CreatedToken { number, token } = make(globals, &*store, &row.user, days, scope).await?;
                    let until_ms = now_ms() + i64::from(hours) * HOUR_MS;
                    // An earlier expiry is kept.
                    store.expire_token(old, row.until_ms.map_or(until_ms, |until| until.min(until_ms))).await?;
                    audited::record(globals, EventKind::TokenRemoved, |event| {
                        event.detail(format!("{old}, replaced by {number}, in {hours} hours"))
                    })?;
                    match json {
                        true => writeln!(out, "{}", json!({ "number": number, "user": row.user, "token": token, "replaces": old }))?,
                        false => writeln!(out, "{}\nfor {}; token {old} works for {hours} more hours", paint(BOLD, &token), row.user)?,
                    }
                }
                Tokens::List { json } => {
                    let rows = globals.open().await?.tokens().await?;
                    let mut table = Table::new(&["token", "user", "scope", "made", "works until"]);
                    for row in &rows {
                        let until = match row.until_ms {
                            None => "it is removed".to_owned(),
                            Some(until_ms) if until_ms <= now_ms() => "expired".to_owned(),
                            Some(until_ms) => audit::time_of(until_ms),
                        };
                        match json {
                            true => {
                                let created = json!({
                                    "number": row.token, "user": row.user, "scope": row.scope, "created_ms": row.created_ms, "until_ms": row.until_ms
                                });
                                writeln!(out, "{created}")?;
                            }
                            false => {
                                let scope = row.scope.clone().unwrap_or_else(|| "not recorded".to_owned());
                                let cells = [row.token.to_string(), row.user.to_string(), scope, age(row.created_ms, now_ms()), until];
                                table.row(cells.map(|cell| (Style::new(), cell)));
                            }
                        }
                    }
                    if !json && rows.is_empty() {
                        writeln!(out, "no tokens; `baton tokens add USER` makes one")?;
                    } else if !json {
                        table.write(&mut out)?;
                    }
                }
                Tokens::Link { json } => {
                    let running = access::running(globals)?;
                    for Running { link, file } in &running {
                        match json {
                            true => writeln!(out, "{}", json!({ "link": link, "token_file": file }))?,
                            false => writeln!(out, "{}\n  or: Authorization: Bearer $(cat {})", paint(BOLD, link), file.display())?,
                        }
                    }
                    if running.is_empty() {
                        return Err(ServiceError::Usage("no server of this account runs with this database; `baton serve` starts one".to_owned()));
                    }
                }
                Tokens::Remove { token } => match globals.open().await?.drop_token(token).await? {
                    true => {
                        audited::record(globals, EventKind::TokenRemoved, |event| event.detail(token.to_string()))?;
                        writeln!(out, "token {token} works no longer")?;
                    }
                    false => return Err(absent(token)),
                },
            }
            Ok(Exit::Well)
        })
    }
}

#[derive(Clone, Copy, Default, clap::ValueEnum)]
pub(crate) enum TokenScope {
    #[default]
    All,
    Read,
}

impl TokenScope {
    /// As it is stored and listed.
    fn as_str(self) -> &'static str {
        match self {
            TokenScope::All => "all",
            TokenScope::Read => "read",
        }
    }

    fn read(word: &str) -> Option<TokenScope> {
        [TokenScope::All, TokenScope::Read].into_iter().find(|scope| scope.as_str() == word)
    }
}

struct CreatedToken {
    number: u64,
    token: String,
}

const HOUR_MS: i64 = 3_600_000;

/// Creates a token; only its digest is stored.
async fn make(globals: &GlobalArgs, store: &dyn Store, user: &UserId, days: Option<u32>, scope: TokenScope) -> Result<CreatedToken> {
    let kept = Some(scope.as_str().to_owned());
    let scope = match scope {
        TokenScope::All => guard::Scope::All,
        TokenScope::Read => guard::Scope::Read,
    };
    let token = guard::secret_for(scope).map_err(|problem| ServiceError::Failed(problem.message))?;
    let until_ms = days.map(|days| now_ms() + i64::from(days) * 24 * HOUR_MS);
    let new = NewToken { digest: guard::digest(&token), user: user.clone(), made_with: None, created_ms: now_ms(), until_ms, scope: kept };
    let number = store.keep_token(new).await?;
    audited::record(globals, EventKind::TokenAdded, |event| event.detail(format!("{number} for {user}")))?;
    Ok(CreatedToken { number, token })
}

fn absent(token: u64) -> ServiceError {
    ServiceError::Usage(format!("there is no token {token}; `baton tokens list` shows those there are"))
}

fn named(user: &str) -> Result<UserId> {
    server::name::user(user).map_err(ServiceError::Usage)
}
