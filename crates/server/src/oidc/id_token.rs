//! Whether a token is genuine and meant for this server: an ID token for this attempt to sign in, an access token for one of the server's names.

use serde_json::{Map, Value};

use super::signature::{Key, signed};

pub(super) type Claims = Map<String, Value>;

/// What a token must say.
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    pub(super) clock_skew_s: i64,
    pub(super) now_s: i64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum TokenError {
    /// The provider may have a new key.
    UnknownKey,
    /// All is well with it but its time.
    Expired,
    /// Words for the log.
    Refused(String),
}

/// The claims of an ID token whose signature, issuer, audience, times and nonce are as expected.
pub(super) fn verify(token: &str, keys: &[Key], expected: &Expected<'_>) -> Result<Claims, TokenError> {
    let Expected { issuer, client_id, nonce, clock_skew_s, now_s } = *expected;
    let claims = genuine(token, keys, issuer, clock_skew_s, now_s)?;
    let refused = |why: &str| Err(TokenError::Refused(why.to_owned()));
    let (is_for_us, is_for_others) = match claims.get("aud") {
        Some(Value::String(one)) => (one == client_id, false),
        Some(Value::Array(all)) => (all.iter().any(|one| one == client_id), all.len() > 1),
        _ => (false, false),
    };
    if !is_for_us {
        return refused("it is for another client (aud)");
    }
    match claims.get("azp").map(|azp| azp == client_id) {
        Some(false) => return refused("it was issued to another client (azp)"),
        None if is_for_others => return refused("it is for several clients and does not say to which it was issued (azp)"),
        _ => {}
    }
    if claims.get("nonce").and_then(Value::as_str) != Some(nonce) {
        return refused("it belongs to another attempt to sign in (nonce)");
    }
    Ok(claims)
}

/// The claims of an access token that was issued for one of these audiences.
pub(super) fn verify_access(
    token: &str,
    keys: &[Key],
    issuer: &str,
    audiences: &[String],
    clock_skew_s: i64,
    now_s: i64,
) -> Result<Claims, TokenError> {
    let claims = genuine(token, keys, issuer, clock_skew_s, now_s)?;
    let is_ours = |audience: &Value| audience.as_str().is_some_and(|audience| audiences.iter().any(|ours| ours == audience));
    let is_for_us = match claims.get("aud") {
        Some(Value::Array(all)) => all.iter().any(is_ours),
        Some(one) => is_ours(one),
        None => false,
    };
    match is_for_us {
        true => Ok(claims),
        false => Err(TokenError::Refused(format!("it was not issued for this server (aud is not one of {})", audiences.join(", ")))),
    }
}

/// The claims of a token of this issuer with a good signature, which is valid now and names a subject.
fn genuine(token: &str, keys: &[Key], issuer: &str, clock_skew_s: i64, now_s: i64) -> Result<Claims, TokenError> {
    let claims: Claims = serde_json::from_slice(&signed(token, keys)?)
        .map_err(|_| TokenError::Refused("its form is wrong: its claims are not a JSON object".to_owned()))?;
    let refused = |why: &str| Err(TokenError::Refused(why.to_owned()));
    if claims.get("iss").and_then(Value::as_str) != Some(issuer) {
        return refused("it is of another issuer");
    }
    let time = |name: &str| claims.get(name).and_then(Value::as_f64).map(|seconds| seconds as i64);
    match time("exp") {
        None => return refused("it has no time of expiry"),
        Some(exp) if exp.saturating_add(clock_skew_s) <= now_s => return Err(TokenError::Expired),
        Some(_) => {}
    }
    match time("iat") {
        None => return refused("it does not say when it was issued"),
        Some(iat) if iat.saturating_sub(clock_skew_s) > now_s => return refused("it was issued in the future; compare the clocks of both machines"),
        Some(_) => {}
    }
    if time("nbf").is_some_and(|nbf| nbf.saturating_sub(clock_skew_s) > now_s) {
        return refused("it is not valid yet; compare the clocks of both machines");
    }
    match claims.get("sub").and_then(Value::as_str) {
        Some(subject) if !subject.is_empty() && subject.len() <= SUBJECT_BYTES_MAX => Ok(claims),
        _ => refused("it names no user (sub)"),
    }
}

/// As the specification bounds it.
const SUBJECT_BYTES_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::super::signature::tests::{Signer, signer};
    use super::*;
    use serde_json::json;

    const NOW_S: i64 = 1_000_000;

    fn good() -> Value {
        json!({ "iss": "https://login.example", "aud": "baton", "sub": "1", "exp": NOW_S + 300, "iat": NOW_S - 1, "nonce": "n" })
    }

    fn with(name: &str, value: Value) -> Value {
        let mut claims = good();
        claims[name] = value;
        claims
    }

    fn check(token: &str, keys: &[Key]) -> Result<Claims, TokenError> {
        let expected = Expected { issuer: "https://login.example", client_id: "baton", nonce: "n", clock_skew_s: 60, now_s: NOW_S };
        verify(token, keys, &expected)
    }

    #[test]
    fn a_genuine_token_is_accepted() {
        let one = signer("1");
        for claims in [
            good(),
            with("aud", json!(["baton"])),
            with("exp", json!(NOW_S - 59)),
            with("iat", json!(NOW_S + 59)),
            with("nbf", json!(NOW_S + 59)),
            with("azp", json!("baton")),
        ] {
            assert_eq!(check(&one.token(&claims), &[one.public()]).unwrap()["sub"], "1", "{claims}");
        }
    }

    #[test]
    fn each_wrong_claim_is_refused() {
        let one = signer("1");
        for (claims, words) in [
            (with("iss", json!("https://evil.example")), "another issuer"),
            (with("iss", json!(["https://login.example"])), "another issuer"),
            (with("aud", json!("another")), "another client (aud)"),
            (with("aud", json!([])), "another client (aud)"),
            (with("aud", json!(null)), "another client (aud)"),
            (with("aud", json!(["baton", "another"])), "several clients"),
            (with("azp", json!("another")), "(azp)"),
            (with("exp", json!(null)), "no time of expiry"),
            (with("exp", json!("tomorrow")), "no time of expiry"),
            (with("iat", json!(NOW_S + 61)), "in the future"),
            (with("iat", json!(null)), "when it was issued"),
            (with("nbf", json!(NOW_S + 61)), "not valid yet"),
            (with("nonce", json!("of another")), "(nonce)"),
            (with("nonce", json!(null)), "(nonce)"),
            (with("sub", json!("")), "(sub)"),
            (with("sub", json!(7)), "(sub)"),
        ] {
            let Err(TokenError::Refused(why)) = check(&one.token(&claims), &[one.public()]) else { panic!("{claims}") };
            assert!(why.contains(words), "{claims}: {why}");
        }
    }

    #[test]
    fn an_expired_token_and_a_wrong_one_are_different_errors() {
        let one = signer("1");
        assert_eq!(check(&one.token(&with("exp", json!(NOW_S - 60))), &[one.public()]), Err(TokenError::Expired));
    }

    #[test]
    fn an_access_token_is_for_this_server() {
        let one = signer("1");
        let check = |claims: &Value| {
            verify_access(
                &one.token(claims),
                &[one.public()],
                "https://login.example",
                &["https://b.example/mcp".into(), "api://b".into()],
                60,
                NOW_S,
            )
        };
        for aud in [json!("https://b.example/mcp"), json!(["account", "api://b"])] {
            assert!(check(&with("aud", aud.clone())).is_ok(), "{aud}");
        }
        for aud in
            [json!("baton"), json!("https://b.example/mcp2"), json!("https://evil.example/mcp"), json!([]), json!(null), json!({"a": "api://b"})]
        {
            assert!(matches!(check(&with("aud", aud.clone())), Err(TokenError::Refused(why)) if why.contains("(aud")), "{aud}");
        }
        let mut late = with("aud", json!("api://b"));
        late["exp"] = json!(NOW_S - 60);
        assert_eq!(check(&late), Err(TokenError::Expired));
        late["iss"] = json!("https://evil.example");
        assert!(matches!(check(&late), Err(TokenError::Refused(_))));
    }

    #[test]
    fn only_keys_of_the_provider_count() {
        let (one, other) = (signer("1"), signer("2"));
        assert_eq!(check(&other.token(&good()), &[one.public()]), Err(TokenError::UnknownKey));
        assert!(check(&other.token(&good()), &[one.public(), other.public()]).is_ok(), "a new key beside the old one");
        // Signed by another key under the name of a known one.
        let forged = Signer { kid: one.kid.clone(), pair: other.pair };
        assert!(matches!(check(&forged.token(&good()), &[one.public()]), Err(TokenError::Refused(why)) if why.contains("signature")));
    }

    #[test]
    fn claims_that_are_no_object_are_refused() {
        let one = signer("1");
        for claims in [json!([]), json!("text"), json!(null)] {
            assert!(matches!(check(&one.token(&claims), &[one.public()]), Err(TokenError::Refused(_))), "{claims}");
        }
    }
}
