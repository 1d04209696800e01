//! Signatures of ID tokens (JWS in its compact form) against a provider's published keys (JWK), with the cryptography that TLS uses here.
//!
//! A library for this would have changed the features of that cryptography, and with them the build of everything that uses TLS. What is accepted is short: signatures
//! of public keys by the algorithms below. Tokens without a signature, with a shared secret, or with extensions that must be understood (`crit`) are refused.

use aws_lc_rs::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::Deserialize;
use serde_json::Value;

use super::id_token::TokenError;

/// More than any provider sends, and little work to refuse.
const TOKEN_BYTES_MAX: usize = 64 << 10;
/// Larger ones are costly to check.
const RSA_BYTES_MAX: usize = 1_024;

/// A public key of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    name: Option<String>,
    /// The only algorithm it is for, if it names one.
    algorithm: Option<String>,
    public: PublicKey,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PublicKey {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Key {
    /// `None` for keys that sign nothing here: shared secrets, those for encryption, and kinds that are not known.
    pub(super) fn read(key: Value) -> Option<Key> {
        let jwk: Jwk = serde_json::from_value(key).ok()?;
        let is_for_signatures = jwk.usage.as_deref().is_none_or(|usage| usage == "sig");
        let may_verify = jwk.key_ops.as_ref().is_none_or(|operations| operations.iter().any(|operation| operation == "verify"));
        if !is_for_signatures || !may_verify {
            return None;
        }
        let bytes = |text: &Option<String>| BASE64.decode(text.as_deref()?).ok();
        let sized = |text: &Option<String>, len: usize| bytes(text).filter(|bytes| bytes.len() == len);
        // An uncompressed point.
        let point = |len: usize| Some([vec![4], sized(&jwk.x, len)?, sized(&jwk.y, len)?].concat());
        let public = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => PublicKey::Rsa { modulus: unsigned(&bytes(&jwk.n)?)?, exponent: unsigned(&bytes(&jwk.e)?)? },
            ("EC", Some("P-256")) => PublicKey::P256(point(32)?),
            ("EC", Some("P-384")) => PublicKey::P384(point(48)?),
            ("OKP", Some("Ed25519")) => PublicKey::Ed25519(sized(&jwk.x, 32)?),
            _ => return None,
        };
        Some(Key { name: jwk.kid, algorithm: jwk.alg, public })
    }

    fn fits(&self, header: &Header) -> bool {
        let is_named = header.kid.is_none() || header.kid == self.name;
        let is_for = self.algorithm.as_ref().is_none_or(|algorithm| *algorithm == header.alg);
        let is_kind = match &self.public {
            PublicKey::Rsa { .. } => rsa_parameters(&header.alg).is_some(),
            PublicKey::P256(_) => header.alg == "ES256",
            PublicKey::P384(_) => header.alg == "ES384",
            // The second is its newer name (RFC 9864).
            PublicKey::Ed25519(_) => matches!(header.alg.as_str(), "EdDSA" | "Ed25519"),
        };
        is_named && is_for && is_kind
    }

    fn verifies(&self, algorithm: &str, message: &[u8], signed: &[u8]) -> bool {
        let plain =
            |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| UnparsedPublicKey::new(algorithm, key).verify(message, signed).is_ok();
        match &self.public {
            PublicKey::Rsa { modulus, exponent } => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                rsa_parameters(algorithm).is_some_and(|parameters| key.verify(parameters, message, signed).is_ok())
            }
            PublicKey::P256(point) => plain(&signature::ECDSA_P256_SHA256_FIXED, point),
            PublicKey::P384(point) => plain(&signature::ECDSA_P384_SHA384_FIXED, point),
            PublicKey::Ed25519(key) => plain(&signature::ED25519, key),
        }
    }
}

/// Keys of 2,048 bits and more only.
fn rsa_parameters(algorithm: &str) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
        "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
        "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

/// Without zeros before it, which some providers send.
fn unsigned(bytes: &[u8]) -> Option<Vec<u8>> {
    let first = bytes.iter().position(|byte| *byte != 0)?;
    Some(bytes[first..].to_vec()).filter(|bytes| bytes.len() <= RSA_BYTES_MAX)
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

/// The bytes that a token's signature covers as its claims. The key is chosen by the token's header; without a name there it must be the only one that fits.
pub(super) fn signed(token: &str, keys: &[Key]) -> Result<Vec<u8>, TokenError> {
    let refused = |why: &str| TokenError::Refused(why.to_owned());
    let malformed = || refused("its form is wrong");
    if token.len() > TOKEN_BYTES_MAX {
        return Err(refused("it is too long"));
    }
    let (message, signature) = token.rsplit_once('.').ok_or_else(malformed)?;
    let (header, claims) = message.split_once('.').ok_or_else(malformed)?;
    let decoded = |part: &str| BASE64.decode(part).map_err(|_| malformed());
    let header: Header = serde_json::from_slice(&decoded(header)?).map_err(|_| malformed())?;
    if header.crit.is_some() {
        return Err(refused("it has extensions that are not known here (crit)"));
    }
    if rsa_parameters(&header.alg).is_none() && !["ES256", "ES384", "EdDSA", "Ed25519"].contains(&header.alg.as_str()) {
        return Err(TokenError::Refused(format!(
            "it is signed with {:?}, and not with a public key",
            header.alg.chars().take(20).collect::<String>()
        )));
    }
    let mut fitting = keys.iter().filter(|key| key.fits(&header));
    let key = match (fitting.next(), fitting.next()) {
        (Some(key), None) => key,
        (Some(_), Some(_)) => return Err(refused("several keys of the provider fit it, and it names none")),
        (None, _) => return Err(TokenError::UnknownKey),
    };
    match key.verifies(&header.alg, message.as_bytes(), &decoded(signature)?) {
        true => decoded(claims),
        false => Err(refused("its signature is wrong")),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
    use serde_json::json;

    pub(crate) struct Signer {
        pub(crate) kid: Option<String>,
        pub(crate) pair: EcdsaKeyPair,
    }

    pub(crate) fn signer(kid: &str) -> Signer {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        Signer { kid: Some(kid.to_owned()), pair: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref()).unwrap() }
    }

    impl Signer {
        fn jwk(&self) -> Value {
            let point = self.pair.public_key().as_ref();
            json!({ "kty": "EC", "crv": "P-256", "kid": self.kid, "use": "sig", "alg": "ES256", "x": BASE64.encode(&point[1..33]), "y": BASE64.encode(&point[33..]) })
        }

        pub(crate) fn public(&self) -> Key {
            Key::read(self.jwk()).unwrap()
        }

        pub(crate) fn token(&self, claims: &Value) -> String {
            self.token_with(&json!({ "alg": "ES256", "kid": self.kid }), claims)
        }

        fn token_with(&self, header: &Value, claims: &Value) -> String {
            let message = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
            let signed = self.pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
            format!("{message}.{}", BASE64.encode(signed.as_ref()))
        }
    }

    fn refusal(token: &str, keys: &[Key]) -> String {
        match signed(token, keys) {
            Err(TokenError::Refused(why)) => why,
            other => panic!("{token}: {other:?}"),
        }
    }

    #[test]
    fn keys_are_chosen_by_name_use_and_algorithm() {
        let (one, other) = (signer("1"), signer("2"));
        let claims = json!({ "a": 1 });
        assert_eq!(signed(&one.token(&claims), &[one.public(), other.public()]), Ok(claims.to_string().into_bytes()));
        // Without a name the key must be the only one.
        let nameless = one.token_with(&json!({ "alg": "ES256" }), &claims);
        assert!(signed(&nameless, &[one.public()]).is_ok());
        assert!(refusal(&nameless, &[one.public(), other.public()]).contains("several keys"));
        for (name, value) in [
            ("use", json!("enc")),
            ("key_ops", json!(["encrypt"])),
            ("kty", json!("oct")),
            ("crv", json!("P-521")),
            ("x", json!("AA")),
            ("y", json!("?")),
        ] {
            let mut jwk = one.jwk();
            jwk[name] = value;
            assert_eq!(Key::read(jwk), None, "{name}");
        }
        let mut for_another = one.jwk();
        for_another["alg"] = json!("ES384");
        assert_eq!(signed(&one.token(&claims), &[Key::read(for_another).unwrap()]), Err(TokenError::UnknownKey));
    }

    #[test]
    fn shared_secrets_unsigned_and_extended_tokens_are_refused() {
        let one = signer("1");
        let keys = [one.public()];
        for algorithm in ["none", "None", "HS256", "HS512", "", "RSA-OAEP", "es256"] {
            let token = one.token_with(&json!({ "alg": algorithm, "kid": "1" }), &json!({}));
            assert!(refusal(&token, &keys).contains("not with a public key"), "{algorithm}");
        }
        assert!(refusal(&one.token_with(&json!({ "alg": "ES256", "kid": "1", "crit": ["exp"] }), &json!({})), &keys).contains("crit"));
        assert!(refusal(&"a".repeat(TOKEN_BYTES_MAX + 1), &keys).contains("too long"));
        for token in ["", ".", "..", "a.b.c", "a.b", "é.é.é"] {
            assert!(refusal(token, &keys).contains("form"), "{token}");
        }
    }

    #[test]
    fn a_changed_token_is_refused_wherever_it_was_changed() {
        let one = signer("1");
        let keys = [one.public()];
        let whole = one.token(&json!({ "sub": "ada", "n": 1 }));
        for at in 0..whole.len() {
            let mut bytes = whole.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let damaged = String::from_utf8(bytes).unwrap();
            assert!(signed(&damaged, &keys).is_err(), "{at}: {damaged}");
            assert!(signed(&whole[..at], &keys).is_err(), "{at}");
        }
    }

    #[test]
    fn numbers_of_rsa_keys_may_begin_with_zeros() {
        assert_eq!((unsigned(&[0, 0, 1, 0]), unsigned(&[0]), unsigned(&[1; RSA_BYTES_MAX + 1])), (Some(vec![1, 0]), None, None));
    }
}
