//! The host's own key, by which push services know that messages come from one sender (RFC 8292).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::json;

/// How long a signature is good; services refuse more than a day.
const SIGNATURE_SECONDS: u64 = 12 * 3_600;

/// The key of this host.
#[derive(Debug)]
pub(super) struct SenderKey {
    pair: EcdsaKeyPair,
    document: Vec<u8>,
}

impl SenderKey {
    /// Creates a key.
    pub(super) fn generate() -> Option<Self> {
        let document =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
                .ok()?;
        Self::from_document(document.as_ref())
    }

    /// Reads a key in PKCS #8.
    pub(super) fn from_document(document: &[u8]) -> Option<Self> {
        let pair = EcdsaKeyPair::from_pkcs8(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            document,
            &SystemRandom::new(),
        )
        .ok()?;
        Some(Self { pair, document: document.to_vec() })
    }

    /// Returns the key in PKCS #8.
    pub(super) fn document(&self) -> &[u8] {
        &self.document
    }

    /// Returns the public key as browsers and services take it.
    pub(super) fn public_key(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.pair.public_key())
    }

    /// Returns the header `Authorization` for a service: who sends, to which service, until when.
    pub(super) fn authorization(
        &self,
        service: &str,
        contact: &str,
        now_seconds: u64,
    ) -> Option<String> {
        let header = json!({ "typ": "JWT", "alg": "ES256" });
        let claims =
            json!({ "aud": service, "exp": now_seconds + SIGNATURE_SECONDS, "sub": contact });
        let encode = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(header), encode(claims));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).ok()?;
        let signature = URL_SAFE_NO_PAD.encode(signature);
        Some(format!("vapid t={signed}.{signature}, k={}", self.public_key()))
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    #[test]
    fn service_can_check_the_signature_with_the_public_key() {
        let key = SenderKey::generate().unwrap();
        let key = SenderKey::from_document(key.document()).unwrap();
        let header = key
            .authorization("https://push.example", "mailto:me@box.example", 1_000)
            .unwrap();
        let (token, public) = header.strip_prefix("vapid t=").unwrap().split_once(", k=").unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
        let verifier = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, decode(public));
        verifier.verify(signed.as_bytes(), &decode(signature)).unwrap();
        let claims: serde_json::Value =
            serde_json::from_slice(&decode(signed.split_once('.').unwrap().1)).unwrap();
        assert_eq!(
            (&claims["aud"], &claims["exp"]),
            (&json!("https://push.example"), &json!(1_000 + 12 * 3_600))
        );
    }
}
