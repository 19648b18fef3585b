//! ID tokens: their signatures and their claims (OpenID Connect Core 1.0, sections 2 and 3.1.3.7;
//! RFC 7515, 7517, 7518).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64_URL;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::auth::OidcPerson;

/// Bytes of a token.
const TOKEN_MAX_BYTES: usize = 64 << 10;
/// How much the clocks of the provider and of this host may differ, in seconds.
const CLOCK_SKEW_SECS: f64 = 60.0;

/// A public key of a provider (RFC 7517, section 4). Its parameters depend on its type.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ProviderKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// What a token must say.
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    /// Seconds since 1970.
    pub(super) now: f64,
    /// The claim with the groups: its name, or the names on the way to it, with dots between them.
    pub(super) groups_claim: &'a str,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum TokenError {
    /// No known key has its name. The provider may have a newer one.
    UnknownKey,
    /// The reason.
    Refused(String),
}

#[derive(Deserialize)]
struct JoseHeader {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: Audience,
    azp: Option<String>,
    exp: f64,
    iat: f64,
    nbf: Option<f64>,
    nonce: Option<String>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

/// Checks a token. Returns the person that it is about.
///
/// # Errors
/// It is malformed, signed by another key or in a way that this does not accept, or does not say
/// what it must.
pub(super) fn verify(
    token: &str,
    keys: &[ProviderKey],
    expected: &Expected<'_>,
) -> Result<OidcPerson, TokenError> {
    if token.len() > TOKEN_MAX_BYTES {
        return Err(refused("it is too long"));
    }
    let (signed, signature) = token.rsplit_once('.').ok_or_else(|| refused("it has no signature"))?;
    let (header, claims) = signed.split_once('.').ok_or_else(|| refused("it has no claims"))?;
    let header: JoseHeader = json(header)?;
    if header.crit.is_some() {
        return Err(refused("it has critical extensions"));
    }
    check_signature(&header, keys, signed.as_bytes(), &bytes(signature)?)?;
    check_claims(json(claims)?, expected)
}

fn refused(why: &str) -> TokenError {
    TokenError::Refused(why.to_owned())
}

fn bytes(text: &str) -> Result<Vec<u8>, TokenError> {
    BASE64_URL.decode(text).map_err(|_| refused("it is not in base64url"))
}

fn json<T: DeserializeOwned>(text: &str) -> Result<T, TokenError> {
    serde_json::from_slice(&bytes(text)?).map_err(|error| TokenError::Refused(error.to_string()))
}

fn check_signature(
    header: &JoseHeader,
    keys: &[ProviderKey],
    signed: &[u8],
    signature: &[u8],
) -> Result<(), TokenError> {
    let mut is_known = false;
    for key in keys {
        // A token without the name of its key may be signed by any.
        if header.kid.is_some() && key.kid != header.kid {
            continue;
        }
        if key.verifies(&header.alg, signed, signature) {
            return Ok(());
        }
        is_known = true;
    }
    match is_known {
        true => Err(refused("its signature is wrong, or of an algorithm that is not accepted")),
        false => Err(TokenError::UnknownKey),
    }
}

impl ProviderKey {
    fn verifies(&self, alg: &str, signed: &[u8], signature: &[u8]) -> bool {
        let is_for_it = self.alg.as_deref().is_none_or(|own| own == alg)
            && self.purpose.as_deref().is_none_or(|own| own == "sig");
        is_for_it
            && match &*self.kty {
                "RSA" => self.verifies_rsa(alg, signed, signature),
                "EC" => self.verifies_ec(alg, signed, signature),
                "OKP" => self.verifies_ed25519(alg, signed, signature),
                // Symmetric keys and unsigned tokens are not accepted.
                _ => None,
            }
            .is_some()
    }

    fn verifies_rsa(&self, alg: &str, signed: &[u8], signature: &[u8]) -> Option<()> {
        let parameters = match alg {
            "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
            "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
            "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
            "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
            "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
            "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
            _ => return None,
        };
        let key = RsaPublicKeyComponents { n: parameter(&self.n)?, e: parameter(&self.e)? };
        key.verify(parameters, signed, signature).ok()
    }

    fn verifies_ec(&self, alg: &str, signed: &[u8], signature: &[u8]) -> Option<()> {
        let algorithm = match (alg, self.crv.as_deref()?) {
            ("ES256", "P-256") => &signature::ECDSA_P256_SHA256_FIXED,
            ("ES384", "P-384") => &signature::ECDSA_P384_SHA384_FIXED,
            _ => return None,
        };
        // An uncompressed point (SEC 1, section 2.3.3).
        let point = [vec![4], parameter(&self.x)?, parameter(&self.y)?].concat();
        UnparsedPublicKey::new(algorithm, point).verify(signed, signature).ok()
    }

    fn verifies_ed25519(&self, alg: &str, signed: &[u8], signature: &[u8]) -> Option<()> {
        if !matches!((alg, self.crv.as_deref()?), ("EdDSA" | "Ed25519", "Ed25519")) {
            return None;
        }
        UnparsedPublicKey::new(&signature::ED25519, parameter(&self.x)?).verify(signed, signature).ok()
    }
}

fn parameter(text: &Option<String>) -> Option<Vec<u8>> {
    BASE64_URL.decode(text.as_deref()?).ok()
}

fn check_claims(claims: Claims, expected: &Expected<'_>) -> Result<OidcPerson, TokenError> {
    let now = expected.now;
    let is_ours = claims.is_for(expected.client_id);
    for (holds, why) in [
        (claims.iss == expected.issuer, "it is of another issuer"),
        (is_ours, "it is for another client"),
        (claims.exp > now - CLOCK_SKEW_SECS, "it has expired; are the clocks right?"),
        (claims.iat < now + CLOCK_SKEW_SECS, "it is from the future; are the clocks right?"),
        (
            claims.nbf.is_none_or(|start| start < now + CLOCK_SKEW_SECS),
            "it is not valid yet; are the clocks right?",
        ),
        (claims.nonce.as_deref() == Some(expected.nonce), "it is for another attempt to sign in"),
        (!claims.sub.is_empty(), "it is about nobody"),
    ] {
        if !holds {
            return Err(refused(why));
        }
    }
    let groups = groups(&claims.others, expected.groups_claim);
    let name =
        ["preferred_username", "email", "name"].iter().find_map(|name| claims.others.get(*name)?.as_str());
    let name = name.unwrap_or(&claims.sub).to_owned();
    Ok(OidcPerson { subject: claims.sub, name, groups })
}

impl Claims {
    fn is_for(&self, client: &str) -> bool {
        let among = match &self.aud {
            Audience::One(one) => one == client,
            Audience::Several(several) => several.iter().any(|one| one == client),
        };
        among && self.azp.as_deref().is_none_or(|party| party == client)
    }
}

/// The claim to which the names lead that `path` has between its dots.
fn nested_claim<'c>(claims: &'c Map<String, Value>, path: &str) -> Option<&'c Value> {
    let (first, rest) = path.split_once('.')?;
    let mut value = claims.get(first)?;
    for name in rest.split('.') {
        value = value.get(name)?;
    }
    Some(value)
}

/// The groups in a claim: a text, or a list of texts.
fn groups(claims: &Map<String, Value>, claim: &str) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    // A name with dots may also be a claim's own.
    match claims.get(claim).or_else(|| nested_claim(claims, claim)) {
        Some(Value::Array(several)) => several.iter().filter_map(text).collect(),
        Some(one) => text(one).into_iter().collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
    use serde_json::json;

    use super::*;

    const NOW: f64 = 1_800_000_000.0;

    fn expected() -> Expected<'static> {
        let issuer = "https://id.example";
        let client_id = "siltstone";
        let nonce = "n-1";
        Expected { issuer, client_id, nonce, now: NOW, groups_claim: "groups" }
    }

    struct Provider {
        pair: EcdsaKeyPair,
        key: ProviderKey,
    }

    impl Provider {
        fn new(kid: &str) -> Self {
            let random = SystemRandom::new();
            let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
            let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random)
                .unwrap();
            let point = pair.public_key().as_ref()[1..].to_vec();
            let x = BASE64_URL.encode(&point[..32]);
            let y = BASE64_URL.encode(&point[32..]);
            let key = json!({"kty": "EC", "crv": "P-256", "kid": kid, "use": "sig", "x": x, "y": y});
            Self { pair, key: serde_json::from_value(key).unwrap() }
        }

        fn token(&self, header: &Value, claims: &Value) -> String {
            let part = |value: &Value| BASE64_URL.encode(value.to_string());
            let signed = format!("{}.{}", part(header), part(claims));
            let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
            format!("{signed}.{}", BASE64_URL.encode(signature.as_ref()))
        }
    }

    fn header() -> Value {
        json!({"alg": "ES256", "kid": "1"})
    }

    fn claims() -> Value {
        json!({"iss": "https://id.example", "sub": "7", "aud": "siltstone", "exp": NOW + 60.0, "iat": NOW, "nonce": "n-1",
               "groups": ["ops", "staff"], "preferred_username": "ann"})
    }

    fn with(mut claims: Value, name: &str, value: Value) -> Value {
        claims[name] = value;
        claims
    }

    fn verified(token: &str, keys: &[ProviderKey]) -> Result<OidcPerson, TokenError> {
        verify(token, keys, &expected())
    }

    #[test]
    fn a_good_token_tells_the_person_and_its_groups() {
        let provider = Provider::new("1");
        let keys = [Provider::new("0").key, provider.key.clone()];
        for claims in [
            claims(),
            with(claims(), "aud", json!(["other", "siltstone"])),
            with(claims(), "azp", json!("siltstone")),
        ] {
            let person = verified(&provider.token(&header(), &claims), &keys).unwrap();
            assert_eq!((&*person.subject, &*person.name), ("7", "ann"));
            assert_eq!(person.groups, ["ops", "staff"]);
        }
        assert!(
            verified(&provider.token(&json!({"alg": "ES256"}), &claims()), &keys).is_ok(),
            "any key may fit"
        );
        for late in [json!(NOW - 59.0), json!(NOW + 1.5)] {
            assert!(verified(&provider.token(&header(), &with(claims(), "exp", late)), &keys).is_ok());
        }
    }

    #[test]
    fn tokens_that_say_something_else_are_refused() {
        let provider = Provider::new("1");
        let keys = [provider.key.clone()];
        for (name, value) in [
            ("iss", json!("https://id.example/")),
            ("aud", json!("other")),
            ("aud", json!([])),
            ("azp", json!("other")),
            ("exp", json!(NOW - 60.0)),
            ("exp", json!("1900000000")),
            ("exp", Value::Null),
            ("iat", json!(NOW + 61.0)),
            ("nbf", json!(NOW + 61.0)),
            ("nonce", json!("n-2")),
            ("nonce", Value::Null),
            ("sub", json!("")),
            ("sub", json!(7)),
        ] {
            let token = provider.token(&header(), &with(claims(), name, value.clone()));
            assert!(matches!(verified(&token, &keys), Err(TokenError::Refused(_))), "{name} {value}");
        }
    }

    #[test]
    fn tokens_of_others_and_without_signature_are_refused() {
        let provider = Provider::new("1");
        let stranger = Provider::new("1");
        let keys = [provider.key.clone()];
        let refused = |token: &str| matches!(verified(token, &keys), Err(TokenError::Refused(_)));
        let token = provider.token(&header(), &claims());
        assert!(verified(&token, &keys).is_ok());
        assert!(refused(&stranger.token(&header(), &claims())));
        for alg in ["none", "None", "HS256", "ES384", "RS256", ""] {
            assert!(refused(&provider.token(&json!({"alg": alg, "kid": "1"}), &claims())), "{alg}");
        }
        assert!(refused(&provider.token(&json!({"alg": "ES256", "kid": "1", "crit": ["b64"]}), &claims())));
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let other = BASE64_URL.encode(with(claims(), "sub", json!("8")).to_string());
        let (head, _) = signed.split_once('.').unwrap();
        for forged in [
            format!("{signed}."),
            format!("{head}.{other}.{signature}"),
            format!("{signed}.{signature}="),
            String::new(),
            "..".into(),
        ] {
            assert!(refused(&forged), "{forged}");
        }
        for at in 0..token.len() {
            assert!(verified(&token[..at], &keys).is_err(), "{at} bytes");
        }
        assert_eq!(
            verified(&provider.token(&json!({"alg": "ES256", "kid": "2"}), &claims()), &keys),
            Err(TokenError::UnknownKey)
        );
        assert_eq!(verified(&token, &[]), Err(TokenError::UnknownKey));
        let encrypting = ProviderKey { purpose: Some("enc".into()), ..provider.key.clone() };
        assert!(verified(&token, &[encrypting]).is_err());
    }

    #[test]
    fn keys_of_the_other_types_verify() {
        // RFC 7515, appendix A.2.
        let n = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
        let signed = b"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
        let key: ProviderKey = serde_json::from_value(json!({"kty": "RSA", "n": n, "e": "AQAB"})).unwrap();
        let signature = BASE64_URL.decode(signature).unwrap();
        assert!(key.verifies("RS256", signed, &signature));
        assert!(!key.verifies("RS512", signed, &signature) && !key.verifies("PS256", signed, &signature));
        assert!(!key.verifies("RS256", &signed[1..], &signature));
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let x = BASE64_URL.encode(pair.public_key().as_ref());
        let key: ProviderKey =
            serde_json::from_value(json!({"kty": "OKP", "crv": "Ed25519", "x": x})).unwrap();
        assert!(key.verifies("EdDSA", b"text", pair.sign(b"text").as_ref()));
        assert!(!key.verifies("EdDSA", b"texts", pair.sign(b"text").as_ref()));
    }

    #[test]
    fn groups_are_found_by_a_name_or_a_way() {
        let claims = json!({"groups": ["a", 7], "role": "b", "realm_access": {"roles": ["c"]}, "https://x.y/z": ["d"]});
        let found = |claim: &str| groups(claims.as_object().unwrap(), claim);
        assert_eq!(found("groups"), ["a"]);
        assert_eq!(found("role"), ["b"]);
        assert_eq!(found("realm_access.roles"), ["c"]);
        assert_eq!(found("https://x.y/z"), ["d"]);
        assert!(found("none").is_empty() && found("realm_access").is_empty() && found("groups.x").is_empty());
    }
}
