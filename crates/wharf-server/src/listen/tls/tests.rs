//! Files as a person gives them, right and wrong.

use super::*;

struct Pair {
    dir: tempfile::TempDir,
}

impl Pair {
    fn new() -> Self {
        let pair = Self { dir: tempfile::tempdir().unwrap() };
        pair.renew();
        pair
    }

    fn renew(&self) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(self.cert(), made.cert.pem()).unwrap();
        std::fs::write(self.key(), made.signing_key.serialize_pem()).unwrap();
    }

    fn cert(&self) -> PathBuf {
        self.dir.path().join("cert.pem")
    }

    fn key(&self) -> PathBuf {
        self.dir.path().join("key.pem")
    }

    fn open(&self) -> Result<Option<Arc<Tls>>, TlsError> {
        Tls::open(&TlsSettings { cert: Some(self.cert()), key: Some(self.key()) })
    }

    fn refusal(&self) -> String {
        self.open().unwrap_err().to_string()
    }
}

#[test]
fn pair_of_files_is_taken_and_no_files_mean_no_tls() {
    assert!(Pair::new().open().unwrap().is_some());
    assert!(Tls::open(&TlsSettings::default()).unwrap().is_none());
}

#[test]
fn one_file_alone_is_refused_with_the_name_of_the_other() {
    let half = |cert: Option<&str>, key: Option<&str>| {
        let settings = TlsSettings { cert: cert.map(Into::into), key: key.map(Into::into) };
        Tls::open(&settings).unwrap_err().to_string()
    };
    assert!(half(Some("a"), None).contains("tls.key is not set"));
    assert!(half(None, Some("a")).contains("tls.cert is not set"));
}

#[test]
fn each_fault_names_the_file_and_what_is_wrong_with_it() {
    let pair = Pair::new();
    std::fs::remove_file(pair.cert()).unwrap();
    let words = pair.refusal();
    assert!(words.contains("cert.pem") && words.contains("No such file"), "{words}");

    let pair = Pair::new();
    std::fs::write(pair.cert(), "hello").unwrap();
    let words = pair.refusal();
    assert!(words.contains("cert.pem") && words.contains("no certificate"), "{words}");

    let pair = Pair::new();
    std::fs::copy(pair.cert(), pair.key()).unwrap();
    let words = pair.refusal();
    assert!(words.contains("key.pem") && words.contains("no private key"), "{words}");

    let pair = Pair::new();
    std::fs::copy(Pair::new().key(), pair.key()).unwrap();
    let words = pair.refusal();
    assert!(
        words.contains("key.pem") && words.contains("is not that of the certificate"),
        "{words}"
    );
}

#[test]
fn error_of_a_damaged_key_does_not_show_its_bytes() {
    let pair = Pair::new();
    let text = std::fs::read_to_string(pair.key()).unwrap();
    let body = text.lines().nth(1).unwrap().to_owned();
    for garbled in [text.replace(&body, "!!!"), text[..text.len() / 2].to_owned()] {
        std::fs::write(pair.key(), garbled).unwrap();
        let words = pair.refusal();
        assert!(words.contains("key.pem"), "{words}");
        assert!(!words.contains(&body[..20]) && !words.contains("!!!"), "{words}");
    }
}

#[test]
fn a_renewed_pair_is_taken_and_a_bad_one_is_not() {
    let pair = Pair::new();
    let tls = pair.open().unwrap().unwrap();
    let look = || {
        let mut held = tls.held.lock().unwrap();
        held.changed_at = [None, None];
        tls.reload_if_changed(&mut held);
        Arc::clone(&held.config)
    };
    let first = look();
    pair.renew();
    let second = look();
    assert!(!Arc::ptr_eq(&first, &second));
    std::fs::write(pair.cert(), "nonsense").unwrap();
    assert!(Arc::ptr_eq(&second, &look()), "what works stays");
}
