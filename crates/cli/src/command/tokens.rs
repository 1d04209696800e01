use std::io::Write as _;

use anstyle::Style;
use graph::UserId;
use serde_json::json;
use server::guard;
use service::access::{self, Running};
use service::place::Place;
use service::wiring;
use store::{NewToken, Store as _};
use terminal::{BOLD, Table, age, now_ms, paint};

use crate::exit::{Exit, Result, Trouble};

/// Say who may use the server: each token belongs to a user, who sees their own threads and nobody else's
#[derive(clap::Subcommand)]
#[command(after_help = "Examples:
  baton tokens add ada            prints a token, once; give it to Ada
  baton tokens list
  baton tokens link               a link that opens the page of a running server in any browser of this machine
  baton tokens remove 3           it works no longer, and neither do the pages that were opened with it

As soon as there is a token, `baton serve` lets in nobody without one. Those it had before, on this machine alone, are the user `local`;
`baton tokens add local` makes a token that opens them.")]
pub(crate) enum Tokens {
    /// Make a token for a user and print it; it is not kept, only its hash is
    Add {
        user: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the tokens there are
    List {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Print the link and the token file of servers of yours that run now
    Link {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Take a token back
    Remove {
        /// Its number in `baton tokens list`
        token: u64,
    },
}

const USER_CHARS_MAX: usize = 64;

impl Tokens {
    pub(crate) fn run(self, place: &Place) -> Result<Exit> {
        wiring::block_on(async {
            let mut out = anstream::stdout();
            match self {
                Tokens::Add { user, json } => {
                    let user = named(&user)?;
                    let token = guard::secret().map_err(|problem| Trouble::Failed(problem.message))?;
                    let new = NewToken { digest: guard::digest(&token), user: user.clone(), made_with: None, created_ms: now_ms(), until_ms: None };
                    let number = place.open_or_make()?.keep_token(new).await?;
                    match json {
                        true => writeln!(out, "{}", json!({ "number": number, "user": user, "token": token }))?,
                        false => writeln!(
                            out,
                            "{}\nfor {user}; it is shown this once, and `baton tokens remove {number}` takes it back",
                            paint(BOLD, &token)
                        )?,
                    }
                }
                Tokens::List { json } => {
                    let rows = place.open()?.tokens().await?;
                    let mut table = Table::new(&["token", "user", "made"]);
                    for row in &rows {
                        match json {
                            true => writeln!(out, "{}", json!({ "number": row.token, "user": row.user, "created_ms": row.created_ms }))?,
                            false => table
                                .row([row.token.to_string(), row.user.to_string(), age(row.created_ms, now_ms())].map(|cell| (Style::new(), cell))),
                        }
                    }
                    if !json && rows.is_empty() {
                        writeln!(out, "no tokens; `baton tokens add USER` makes one")?;
                    } else if !json {
                        table.write(&mut out)?;
                    }
                }
                Tokens::Link { json } => {
                    let running = access::running(place)?;
                    for Running { link, file } in &running {
                        match json {
                            true => writeln!(out, "{}", json!({ "link": link, "token_file": file }))?,
                            false => writeln!(out, "{}\n  or: Authorization: Bearer $(cat {})", paint(BOLD, link), file.display())?,
                        }
                    }
                    if running.is_empty() {
                        return Err(Trouble::Usage("no server of this account runs with this database; `baton serve` starts one".to_owned()));
                    }
                }
                Tokens::Remove { token } => match place.open()?.drop_token(token).await? {
                    true => writeln!(out, "token {token} works no longer")?,
                    false => return Err(Trouble::Usage(format!("there is no token {token}; `baton tokens list` shows those there are"))),
                },
            }
            Ok(Exit::Well)
        })
    }
}

/// A name that can also be a folder's.
fn named(user: &str) -> Result<UserId> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | '+');
    let is_fine = !user.is_empty() && user.len() <= USER_CHARS_MAX && user.chars().all(is_plain) && !user.starts_with('.');
    match is_fine {
        true => Ok(UserId::from(user)),
        false => Err(Trouble::Usage(format!("a user is 1 to {USER_CHARS_MAX} letters, digits and - _ . @ +, such as ada or ada@example.org"))),
    }
}
