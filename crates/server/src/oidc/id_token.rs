//! Whether an ID token is genuine and meant for this attempt: its signature, issuer, audience, times and nonce.

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
    /// Words for the log.
    Refused(String),
}

/// The claims of a token whose signature, issuer, audience, times and nonce are as expected.
pub(super) fn verify(token: &str, keys: &[Key], expected: &Expected<'_>) -> Result<Claims, TokenError> {
    let claims: Claims = serde_json::from_slice(&signed(token, keys)?)
        .map_err(|_| TokenError::Refused("its form is wrong: its claims are not a JSON object".to_owned()))?;
    let refused = |why: &str| Err(TokenError::Refused(why.to_owned()));

    if claims.get("iss").and_then(Value::as_str) != Some(expected.issuer) {
        return refused("it is of another issuer");
    }
    let (is_for_us, is_for_others) = match claims.get("aud") {
        Some(Value::String(one)) => (one == expected.client_id, false),
        Some(Value::Array(all)) => (all.iter().any(|one| one == expected.client_id), all.len() > 1),
        _ => (false, false),
    };
    if !is_for_us {
        return refused("it is for another client (aud)");
    }
    match claims.get("azp").map(|azp| azp == expected.client_id) {
        Some(false) => return refused("it was issued to another client (azp)"),
        None if is_for_others => return refused("it is for several clients and does not say to which it was issued (azp)"),
        _ => {}
    }
    let time = |name: &str| claims.get(name).and_then(Value::as_f64).map(|seconds| seconds as i64);
    let (now, skew) = (expected.now_s, expected.clock_skew_s);
    match time("exp") {
        None => return refused("it has no time of expiry"),
        Some(exp) if exp.saturating_add(skew) <= now => return refused("it has expired; compare the clocks of both machines"),
        Some(_) => {}
    }
    match time("iat") {
        None => return refused("it does not say when it was issued"),
        Some(iat) if iat.saturating_sub(skew) > now => return refused("it was issued in the future; compare the clocks of both machines"),
        Some(_) => {}
    }
    if time("nbf").is_some_and(|nbf| nbf.saturating_sub(skew) > now) {
        return refused("it is not valid yet; compare the clocks of both machines");
    }
    if claims.get("nonce").and_then(Value::as_str) != Some(expected.nonce) {
        return refused("it belongs to another attempt to sign in (nonce)");
    }
    match claims.get("sub").and_then(Value::as_str) {
        Some(subject) if !subject.is_empty() && subject.len() <= SUBJECT_BYTES_MAX => Ok(claims),
        _ => refused("it names nobody (sub)"),
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
            (with("exp", json!(NOW_S - 60)), "expired"),
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
