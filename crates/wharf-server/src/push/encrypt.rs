//! Encrypts a push message for one browser (RFC 8291, with the coding `aes128gcm` of RFC 8188).

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};

/// The bytes of an uncompressed point of P-256.
pub(super) const POINT_BYTES: usize = 65;
/// The bytes of a subscription's secret.
pub(super) const AUTH_BYTES: usize = 16;
const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
/// The size of a record; a message is one record.
const RECORD_BYTES: u32 = 4_096;
/// The longest message: a record holds it with its end mark, its tag and the header before it.
pub(super) const MAX_MESSAGE_BYTES: usize = 3_000;
/// Marks the end of the last record.
const LAST_RECORD_MARK: u8 = 2;

/// The message could not be encrypted: the browser's key is not a point of the curve, or the system
/// has no randomness.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message cannot be encrypted with the keys of this device")]
pub(super) struct EncryptError;

/// A length for `ring`'s key derivation.
struct DerivedLength(usize);

impl KeyType for DerivedLength {
    fn len(&self) -> usize {
        self.0
    }
}

/// Returns the body of the request to the push service.
pub(super) fn encrypt_message(
    message: &[u8],
    browser_key: &[u8],
    auth_secret: &[u8],
) -> Result<Vec<u8>, EncryptError> {
    let random = SystemRandom::new();
    let mut salt = [0; SALT_BYTES];
    random.fill(&mut salt).map_err(|_| EncryptError)?;
    let own = EphemeralPrivateKey::generate(&ECDH_P256, &random).map_err(|_| EncryptError)?;
    let own_key = own.compute_public_key().map_err(|_| EncryptError)?;
    let peer = UnparsedPublicKey::new(&ECDH_P256, browser_key);
    agree_ephemeral(own, &peer, |shared| {
        seal(
            message,
            &Agreement {
                shared,
                browser_key,
                own_key: own_key.as_ref(),
                auth_secret,
                salt,
            },
        )
    })
    .map_err(|_| EncryptError)?
}

/// The values that both sides know.
struct Agreement<'a> {
    shared: &'a [u8],
    browser_key: &'a [u8],
    own_key: &'a [u8],
    auth_secret: &'a [u8],
    salt: [u8; SALT_BYTES],
}

fn seal(message: &[u8], agreed: &Agreement<'_>) -> Result<Vec<u8>, EncryptError> {
    if message.len() > MAX_MESSAGE_BYTES {
        return Err(EncryptError);
    }
    let info = [b"WebPush: info\0".as_slice(), agreed.browser_key, agreed.own_key];
    let key_material: [u8; 32] = derive(agreed.auth_secret, agreed.shared, &info)?;
    let key: [u8; KEY_BYTES] =
        derive(&agreed.salt, &key_material, &[b"Content-Encoding: aes128gcm\0"])?;
    let nonce: [u8; NONCE_BYTES] =
        derive(&agreed.salt, &key_material, &[b"Content-Encoding: nonce\0"])?;
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).map_err(|_| EncryptError)?);
    let mut record = [message, &[LAST_RECORD_MARK]].concat();
    let nonce = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(nonce, Aad::empty(), &mut record)
        .map_err(|_| EncryptError)?;
    let key_length = u8::try_from(agreed.own_key.len()).map_err(|_| EncryptError)?;
    let record_size = RECORD_BYTES.to_be_bytes();
    Ok([&agreed.salt, record_size.as_slice(), &[key_length], agreed.own_key, &record].concat())
}

fn derive<const LENGTH: usize>(
    salt: &[u8],
    secret: &[u8],
    info: &[&[u8]],
) -> Result<[u8; LENGTH], EncryptError> {
    let mut derived = [0; LENGTH];
    let key = Salt::new(HKDF_SHA256, salt).extract(secret);
    let expanded = key.expand(info, DerivedLength(LENGTH)).map_err(|_| EncryptError)?;
    expanded.fill(&mut derived).map_err(|_| EncryptError)?;
    Ok(derived)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(text).unwrap()
    }

    #[test]
    fn message_of_the_rfc_is_encrypted_as_there() {
        // RFC 8291, appendix A.
        let own_key = bytes(
            "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8",
        );
        let browser_key = bytes(
            "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        );
        let agreed = Agreement {
            shared: &bytes("kyrL1jIIOHEzg3sM2ZWRHDRB62YACZhhSlknJ672kSs"),
            browser_key: &browser_key,
            own_key: &own_key,
            auth_secret: &bytes("BTBZMqHH6r4Tts7J_aSIgg"),
            salt: bytes("DGv6ra1nlYgDCS1FRnbzlw").try_into().unwrap(),
        };
        let sealed = seal(b"When I grow up, I want to be a watermelon", &agreed).unwrap();
        let expected = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN";
        assert_eq!(URL_SAFE_NO_PAD.encode(sealed), expected);
    }

    #[test]
    fn browser_can_decrypt_a_message() {
        let random = SystemRandom::new();
        let browser = EphemeralPrivateKey::generate(&ECDH_P256, &random).unwrap();
        let browser_key = browser.compute_public_key().unwrap();
        let auth = [7; AUTH_BYTES];
        let body = encrypt_message(b"a session needs you", browser_key.as_ref(), &auth).unwrap();
        let (header, record) = body.split_at(SALT_BYTES + 5 + POINT_BYTES);
        let salt = &header[..SALT_BYTES];
        let own_key = &header[SALT_BYTES + 5..];
        let peer = UnparsedPublicKey::new(&ECDH_P256, own_key);
        let mut record = record.to_vec();
        let opened = agree_ephemeral(browser, &peer, |shared| {
            let info = [b"WebPush: info\0".as_slice(), browser_key.as_ref(), own_key];
            let material: [u8; 32] = derive(&auth, shared, &info).unwrap();
            let key: [u8; KEY_BYTES] =
                derive(salt, &material, &[b"Content-Encoding: aes128gcm\0"]).unwrap();
            let nonce: [u8; NONCE_BYTES] =
                derive(salt, &material, &[b"Content-Encoding: nonce\0"]).unwrap();
            let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).unwrap());
            key.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut record)
                .unwrap()
                .to_vec()
        });
        assert_eq!(opened.unwrap(), b"a session needs you\x02");
    }

    #[test]
    fn key_that_is_no_point_is_refused() {
        assert_eq!(encrypt_message(b"x", &[4; POINT_BYTES], &[0; AUTH_BYTES]), Err(EncryptError));
    }
}
