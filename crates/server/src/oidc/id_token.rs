//! Whether an ID token is genuine and meant for this attempt: its signature, issuer, audience, times and nonce.

use jsonwebtoken::jwk::{Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Header, Validation};
use serde_json::{Map, Value};

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

/// The key of a token by its header. Keys that are shared secrets never count: whoever knows one could sign for anybody.
pub(super) fn key_for<'k>(token: &str, keys: &'k [Jwk]) -> Result<(Header, &'k Jwk), TokenError> {
    let header = jsonwebtoken::decode_header(token).map_err(|error| TokenError::Refused(format!("its header cannot be read: {error}")))?;
    if header.alg.family() == AlgorithmFamily::Hmac {
        return Err(TokenError::Refused(format!("it is signed with {:?}, a shared secret", header.alg)));
    }
    let fits = |key: &&Jwk| is_for(key, header.alg) && (header.kid.is_none() || key.common.key_id == header.kid);
    let mut fitting = keys.iter().filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(key), None) => Ok((header, key)),
        (Some(_), Some(_)) => Err(TokenError::Refused("several keys of the provider fit it, and it names none".to_owned())),
        (None, _) => Err(TokenError::UnknownKey),
    }
}

fn is_for(key: &Jwk, algorithm: Algorithm) -> bool {
    let is_for_signatures = key.common.public_key_use.as_ref().is_none_or(|usage| *usage == PublicKeyUse::Signature);
    let has_algorithm = key.common.key_algorithm.is_none_or(|own| own == KeyAlgorithm::from(algorithm));
    is_for_signatures && has_algorithm && DecodingKey::from_jwk(key).is_ok_and(|key| key.family() == algorithm.family())
}

/// The claims of a token whose signature, issuer, audience, times and nonce are as expected.
pub(super) fn verify(token: &str, keys: &[Jwk], expected: &Expected<'_>) -> Result<Claims, TokenError> {
    let (header, key) = key_for(token, keys)?;
    let refused = |why: &str| Err(TokenError::Refused(why.to_owned()));
    let key = DecodingKey::from_jwk(key).map_err(|error| TokenError::Refused(format!("the provider's key cannot be used: {error}")))?;
    // Only the signature is checked there; the claims are checked below, against a time that tests can set.
    let mut signature_only = Validation::new(header.alg);
    signature_only.required_spec_claims.clear();
    (signature_only.validate_exp, signature_only.validate_aud) = (false, false);
    let claims = jsonwebtoken::decode::<Claims>(token, &key, &signature_only);
    let claims = claims.map_err(|error| TokenError::Refused(format!("its signature or its form is wrong: {error}")))?.claims;

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
    use super::*;
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
    use jsonwebtoken::EncodingKey;
    use serde_json::json;

    struct Signer {
        key: EncodingKey,
        jwk: Jwk,
    }

    fn signer(kid: &str) -> Signer {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let key = EncodingKey::from_ec_der(pkcs8.as_ref());
        let mut jwk = Jwk::from_encoding_key(&key, Algorithm::ES256).unwrap();
        jwk.common.key_id = Some(kid.to_owned());
        Signer { key, jwk }
    }

    impl Signer {
        fn token(&self, claims: &Value) -> String {
            let header = Header { kid: self.jwk.common.key_id.clone(), ..Header::new(Algorithm::ES256) };
            jsonwebtoken::encode(&header, claims, &self.key).unwrap()
        }
    }

    const NOW_S: i64 = 1_000_000;

    fn good() -> Value {
        json!({ "iss": "https://login.example", "aud": "baton", "sub": "1", "exp": NOW_S + 300, "iat": NOW_S - 1, "nonce": "n" })
    }

    fn with(name: &str, value: Value) -> Value {
        let mut claims = good();
        claims[name] = value;
        claims
    }

    fn check(token: &str, keys: &[Jwk]) -> Result<Claims, TokenError> {
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
            assert_eq!(check(&one.token(&claims), std::slice::from_ref(&one.jwk)).unwrap()["sub"], "1", "{claims}");
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
            let Err(TokenError::Refused(why)) = check(&one.token(&claims), std::slice::from_ref(&one.jwk)) else { panic!("{claims}") };
            assert!(why.contains(words), "{claims}: {why}");
        }
    }

    #[test]
    fn only_keys_of_the_provider_count() {
        let (one, other) = (signer("1"), signer("2"));
        assert_eq!(check(&other.token(&good()), std::slice::from_ref(&one.jwk)), Err(TokenError::UnknownKey));
        assert!(check(&other.token(&good()), &[one.jwk.clone(), other.jwk.clone()]).is_ok(), "a new key beside the old one");
        // Signed by another key under the name of a known one.
        let forged = Signer { key: other.key.clone(), jwk: one.jwk.clone() }.token(&good());
        assert!(matches!(check(&forged, std::slice::from_ref(&one.jwk)), Err(TokenError::Refused(why)) if why.contains("signature")));
        // Without a name the key must be the only one.
        let mut nameless = Signer { key: one.key.clone(), jwk: one.jwk.clone() };
        nameless.jwk.common.key_id = None;
        assert!(check(&nameless.token(&good()), std::slice::from_ref(&one.jwk)).is_ok());
        assert!(matches!(check(&nameless.token(&good()), &[one.jwk.clone(), other.jwk]), Err(TokenError::Refused(why)) if why.contains("several")));
        // For encryption only.
        let mut encrypting = one.jwk.clone();
        encrypting.common.public_key_use = Some(PublicKeyUse::Encryption);
        assert_eq!(check(&one.token(&good()), &[encrypting]), Err(TokenError::UnknownKey));
    }

    #[test]
    fn shared_secrets_unsigned_and_damaged_tokens_are_refused() {
        let one = signer("1");
        let keys = std::slice::from_ref(&one.jwk);
        // The public key as the secret of a shared one: a known attack.
        let secret = serde_json::to_vec(&one.jwk).unwrap();
        let header = Header { kid: Some("1".to_owned()), ..Header::new(Algorithm::HS256) };
        let shared = jsonwebtoken::encode(&header, &good(), &EncodingKey::from_secret(&secret)).unwrap();
        assert!(matches!(check(&shared, keys), Err(TokenError::Refused(why)) if why.contains("shared secret")));
        let whole = one.token(&good());
        let parts: Vec<&str> = whole.split('.').collect();
        // {"alg":"none"}
        for token in ["", "a.b.c", &format!("eyJhbGciOiJub25lIn0.{}.", parts[1]), &format!("{}.{}.", parts[0], parts[1]), &whole[..whole.len() - 2]] {
            assert!(matches!(check(token, keys), Err(TokenError::Refused(_))), "{token}");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let damaged = String::from_utf8(bytes).unwrap();
            // The last characters of a part may hold bits that do not count; everything else must be refused.
            if let Ok(claims) = check(&damaged, keys) {
                assert_eq!(Value::Object(claims), good(), "{at}");
            }
        }
    }
}
