//! Whether a request comes from a Restate server whose public key is known: it carries a token (a JWT, signed with Ed25519) for the path that it asks
//! for. The token is verified here and not by a JWT library: those switch on parts of the cryptography that everything else would be built with too.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use serde::Deserialize;

const SCHEME: &str = "x-restate-signature-scheme";
const TOKEN: &str = "x-restate-jwt-v1";
const PREFIX: &str = "publickeyv1_";
const KEY_BYTES: usize = 32;
/// Clocks of two machines may differ by this many seconds.
const LEEWAY_S: u64 = 5;

/// The public keys of Restate servers.
pub(crate) struct Identity(Vec<Vec<u8>>);

#[derive(Deserialize)]
struct Header {
    alg: String,
}

#[derive(Deserialize)]
struct Claims {
    aud: Audience,
    exp: u64,
    nbf: u64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Some(Vec<String>),
}

impl Identity {
    pub(crate) fn new(keys: &[String]) -> Result<Identity, String> {
        let parsed = keys.iter().map(|key| {
            let wrong = |why: &str| format!("{key:?} is no public key of a Restate server: {why}");
            let text = key.strip_prefix(PREFIX).ok_or_else(|| wrong(&format!("it begins with {PREFIX}")))?;
            let bytes = bs58::decode(text).into_vec().map_err(|error| wrong(&error.to_string()))?;
            if bytes.len() == KEY_BYTES { Ok(bytes) } else { Err(wrong("it has another length")) }
        });
        parsed.collect::<Result<_, _>>().map(Identity)
    }

    /// Whether every request is accepted, because no key is known.
    pub(crate) fn is_open(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses a request that is not signed with one of the keys, for this path and now.
    pub(crate) fn verify(&self, headers: &HeaderMap, path: &str) -> Result<(), &'static str> {
        self.verify_at(headers, path, SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
    }

    fn verify_at(&self, headers: &HeaderMap, path: &str, now_s: u64) -> Result<(), &'static str> {
        if self.is_open() {
            return Ok(());
        }
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if header(SCHEME) != Some("v1") {
            return Err("it is not signed");
        }
        let token = header(TOKEN).ok_or("it has no token")?;
        let (signed, signature) = token.rsplit_once('.').ok_or("its token is none")?;
        let (head, claims) = signed.split_once('.').ok_or("its token is none")?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| "its signature cannot be read")?;
        let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| "its token cannot be read");
        let head: Header = serde_json::from_slice(&decoded(head)?).map_err(|_| "its token cannot be read")?;
        if head.alg != "EdDSA" {
            return Err("its token is signed in another way");
        }
        let is_signed = |key: &Vec<u8>| UnparsedPublicKey::new(&ED25519, key).verify(signed.as_bytes(), &signature).is_ok();
        if !self.0.iter().any(is_signed) {
            return Err("it is signed with another key");
        }
        let claims: Claims = serde_json::from_slice(&decoded(claims)?).map_err(|_| "its token cannot be read")?;
        let is_meant = |audience: &str| audience == unprefixed(path);
        let is_for_this = match &claims.aud {
            Audience::One(one) => is_meant(one),
            Audience::Some(some) => some.iter().any(|one| is_meant(one)),
        };
        match (is_for_this, claims.nbf <= now_s + LEEWAY_S, now_s < claims.exp + LEEWAY_S) {
            (true, true, true) => Ok(()),
            (false, ..) => Err("it is signed for something else"),
            _ => Err("its token is not valid now; are the clocks right?"),
        }
    }
}

/// The path without what a load balancer put before it.
fn unprefixed(path: &str) -> &str {
    match (path.rfind("/invoke/"), path.ends_with("/discover")) {
        (Some(at), _) => &path[at..],
        (None, true) => "/discover",
        (None, false) => path,
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
    use serde_json::{Value, json};

    use super::*;

    const NOW_S: u64 = 1_800_000_000;

    fn pair(seed: u8) -> (Ed25519KeyPair, String) {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
        let key = format!("{PREFIX}{}", bs58::encode(pair.public_key().as_ref()).into_string());
        (pair, key)
    }

    fn signed(pair: &Ed25519KeyPair, alg: &str, claims: &Value) -> HeaderMap {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(&json!({ "typ": "JWT", "alg": alg })), part(claims));
        let signature = URL_SAFE_NO_PAD.encode(pair.sign(text.as_bytes()).as_ref());
        let mut headers = HeaderMap::new();
        headers.insert(SCHEME, "v1".parse().unwrap());
        headers.insert(TOKEN, format!("{text}.{signature}").parse().unwrap());
        headers
    }

    #[test]
    fn only_requests_signed_for_this_path_and_time_are_accepted() {
        let ((ours, key), (theirs, other)) = (pair(1), pair(2));
        let identity = Identity::new(&[other, key]).unwrap();
        let claims = |aud: &str| json!({ "aud": aud, "nbf": NOW_S - 60, "iat": NOW_S, "exp": NOW_S + 60 });
        let verify = |headers: &HeaderMap, path: &str, now_s: u64| identity.verify_at(headers, path, now_s);
        let well = signed(&ours, "EdDSA", &claims("/invoke/BatonEffect/perform"));
        assert_eq!(verify(&well, "/invoke/BatonEffect/perform", NOW_S), Ok(()));
        assert_eq!(verify(&well, "/behind/a/proxy/invoke/BatonEffect/perform", NOW_S), Ok(()));
        assert_eq!(verify(&signed(&theirs, "EdDSA", &claims("/discover")), "/discover", NOW_S), Ok(()));
        assert!(verify(&well, "/invoke/BatonThread/drive", NOW_S).is_err(), "for another path");
        assert!(verify(&well, "/invoke/BatonEffect/perform", NOW_S + 120).is_err(), "too late");
        assert!(verify(&well, "/invoke/BatonEffect/perform", NOW_S - 120).is_err(), "too early");
        assert!(verify(&signed(&pair(3).0, "EdDSA", &claims("/discover")), "/discover", NOW_S).is_err(), "another key");
        assert!(verify(&signed(&ours, "none", &claims("/discover")), "/discover", NOW_S).is_err(), "another algorithm");
        let mut unsigned = well;
        unsigned.insert(SCHEME, "unsigned".parse().unwrap());
        assert!(verify(&unsigned, "/invoke/BatonEffect/perform", NOW_S).is_err());
        assert!(verify(&HeaderMap::new(), "/invoke/BatonEffect/perform", NOW_S).is_err());
        assert!(Identity::new(&[]).unwrap().verify(&HeaderMap::new(), "/discover").is_ok(), "without keys everything is accepted");
    }

    #[test]
    fn wrong_keys_are_named() {
        for wrong in ["nonsense", "publickeyv1_", "publickeyv1_0OIl", "publickeyv1_abc"] {
            assert!(Identity::new(&[wrong.to_owned()]).err().unwrap().contains("public key"), "{wrong}");
        }
    }
}
