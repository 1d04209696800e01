//! One attempt to sign in, kept by the browser in a cookie between the two redirects. Nothing is kept here, so that any server behind a balancer can finish it
//! and nobody can fill a table.
//!
//! The cookie is a random secret. State, nonce and PKCE's verifier are digests of it, so each is bound to the browser that began: a browser without this cookie cannot
//! finish, and none of the three reveals the others.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use sha2::{Digest as _, Sha256};

use crate::problem::Problem;

/// Time for the sign-in at the provider.
pub(super) const AGE_MS_MAX: i64 = 10 * 60_000;
/// Where to return to; longer addresses become `/`.
const RETURN_BYTES_MAX: usize = 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    /// The value of the cookie.
    cookie: String,
    /// A path of this server.
    pub(super) return_to: String,
}

impl Attempt {
    pub(super) fn new(return_to: Option<&str>, now_ms: i64) -> Result<Attempt, Problem> {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes).map_err(|error| Problem::internal(&format!("no random bytes: {error}")))?;
        let return_to = return_to.filter(|path| is_own_path(path)).unwrap_or("/").to_owned();
        Ok(Attempt { cookie: format!("{}.{now_ms}.{}", BASE64.encode(bytes), BASE64.encode(&return_to)), return_to })
    }

    /// `None` if it is none of ours or too old.
    pub(super) fn of_cookie(cookie: &str, now_ms: i64) -> Option<Attempt> {
        let mut parts = cookie.split('.');
        let (secret, began_ms, return_to) = (parts.next()?, parts.next()?.parse::<i64>().ok()?, parts.next()?);
        let is_ours = parts.next().is_none() && BASE64.decode(secret).is_ok_and(|bytes| bytes.len() == 32);
        let is_fresh = (0..AGE_MS_MAX).contains(&now_ms.checked_sub(began_ms)?);
        let return_to = String::from_utf8(BASE64.decode(return_to).ok()?).ok().filter(|path| is_own_path(path))?;
        (is_ours && is_fresh).then(|| Attempt { cookie: cookie.to_owned(), return_to })
    }

    pub(super) fn cookie(&self) -> &str {
        &self.cookie
    }

    pub(super) fn state(&self) -> String {
        self.derive("state")
    }

    pub(super) fn nonce(&self) -> String {
        self.derive("nonce")
    }

    /// PKCE's secret, which only the provider's token endpoint receives.
    pub(super) fn verifier(&self) -> String {
        self.derive("verifier")
    }

    pub(super) fn challenge(&self) -> String {
        BASE64.encode(Sha256::digest(self.verifier()))
    }

    fn derive(&self, purpose: &str) -> String {
        BASE64.encode(Sha256::digest(format!("{purpose}\n{}", self.cookie)))
    }
}

/// Whether a browser stays on this server with it.
fn is_own_path(path: &str) -> bool {
    let is_plain = path.len() <= RETURN_BYTES_MAX && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    is_plain && path.starts_with('/') && !path.starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_read_back_from_its_cookie_while_it_is_fresh() {
        let attempt = Attempt::new(Some("/?thread=a#/threads/b"), 1_000_000).unwrap();
        assert_eq!(Attempt::of_cookie(attempt.cookie(), 1_000_001).as_ref(), Some(&attempt));
        for late in [1_000_000 + AGE_MS_MAX, 999_999, i64::MAX, i64::MIN] {
            assert_eq!(Attempt::of_cookie(attempt.cookie(), late), None, "{late}");
        }
        let other = Attempt::new(None, 1_000_000).unwrap();
        assert_ne!(attempt.state(), other.state());
        let all = [attempt.state(), attempt.nonce(), attempt.verifier(), attempt.challenge()];
        assert!(all.iter().enumerate().all(|(at, one)| one.len() == 43 && !all[at + 1..].contains(one)), "{all:?}");
    }

    #[test]
    fn cookies_of_others_are_none() {
        let good = Attempt::new(None, 5).unwrap();
        let parts: Vec<&str> = good.cookie().split('.').collect();
        let evil = BASE64.encode("//evil.example");
        for cookie in [
            "".to_owned(),
            "a.b.c".into(),
            format!("{}.5", parts[0]),
            format!("{}.5.{}.x", parts[0], parts[2]),
            format!("AAAA.5.{}", parts[2]),
            format!("{}.5.{evil}", parts[0]),
        ] {
            assert_eq!(Attempt::of_cookie(&cookie, 6), None, "{cookie}");
        }
    }

    #[test]
    fn nobody_is_sent_to_another_server() {
        for path in ["//evil.example", "/\\evil.example", "https://evil.example", "evil", "/a b", "/\u{202e}", ""] {
            assert_eq!(Attempt::new(Some(path), 0).unwrap().return_to, "/", "{path:?}");
        }
        assert_eq!(Attempt::new(Some(&format!("/{}", "a".repeat(RETURN_BYTES_MAX))), 0).unwrap().return_to, "/");
    }
}
