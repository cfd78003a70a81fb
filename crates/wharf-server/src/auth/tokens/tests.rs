//! Creates, reads, changes and revokes tokens.

use std::os::unix::fs::PermissionsExt;

use wharf_host::core::Role;

use super::*;

struct StateDir(tempfile::TempDir);

impl StateDir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> TokensFile {
        TokensFile::in_directory(self.0.path())
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file().path()).unwrap()
    }

    fn write(&self, text: &str) {
        std::fs::write(self.file().path(), text).unwrap();
    }

    fn tokens(&self) -> Tokens {
        Tokens::open(self.0.path()).unwrap()
    }

    fn own(&self) -> String {
        std::fs::read_to_string(self.0.path().join("token")).unwrap().trim().to_owned()
    }
}

fn labelled(label: &str) -> TokenTerms {
    TokenTerms {
        label: Some(label.to_owned()),
        ..TokenTerms::new(Access::Observer)
    }
}

#[test]
fn each_token_has_the_role_it_was_made_with() {
    let place = StateDir::new();
    let tokens = place.tokens();
    for access in Access::ALL {
        let made = place.file().create(TokenTerms::new(access)).unwrap();
        let identity = tokens.authenticate(&made.text).unwrap();
        assert_eq!(identity, Identity { token: Some(made.entry.id), access, scope: Scope::Host });
    }
    let own = tokens.authenticate(&place.own()).unwrap();
    assert_eq!(
        own,
        Identity {
            token: Some(Identity::HOST_TOKEN_ID.into()),
            access: Access::Admin,
            scope: Scope::Host
        }
    );
}

#[test]
fn only_an_observers_token_limits_the_role_in_a_session() {
    let role = |access| Identity { token: None, access, scope: Scope::Host }.role();
    assert_eq!(Access::ALL.map(role), [Role::Observer, Role::Controller, Role::Controller]);
    assert_eq!(Identity::LOCAL.role(), Role::Controller);
}

#[test]
fn unknown_tokens_are_refused() {
    let place = StateDir::new();
    let tokens = place.tokens();
    let made = place.file().create(TokenTerms::new(Access::Admin)).unwrap();
    let hash =
        serde_json::from_str::<serde_json::Value>(&place.text()).unwrap()["tokens"][0]["hash"]
            .clone();
    let longer = format!("{}x", made.text);
    for wrong in
        ["", "host", "wharf_", &made.entry.id, hash.as_str().unwrap(), &longer, &made.text[6..]]
    {
        assert_eq!(tokens.authenticate(wrong), Err(TokenRefused::Unknown), "{wrong:?}");
    }
}

#[test]
fn a_revoked_token_is_out_at_once_and_the_others_stay() {
    let place = StateDir::new();
    let tokens = place.tokens();
    let [first, second] =
        [(); 2].map(|()| place.file().create(TokenTerms::new(Access::Controller)).unwrap());
    let identity = tokens.authenticate(&first.text).unwrap();
    assert!(tokens.check(&identity).is_ok());
    place.file().revoke(&first.entry.id).unwrap();
    assert_eq!(tokens.authenticate(&first.text), Err(TokenRefused::Unknown));
    assert_eq!(tokens.check(&identity), Err(TokenEnd::Revoked));
    let other = tokens.authenticate(&second.text).unwrap();
    assert!(tokens.check(&other).is_ok());
    std::fs::remove_file(place.file().path()).unwrap();
    assert_eq!(tokens.check(&other), Err(TokenEnd::Revoked), "no file, no tokens");
    assert_eq!(tokens.authenticate(&second.text), Err(TokenRefused::Unknown));
    let own = tokens.authenticate(&place.own()).unwrap();
    assert!(tokens.check(&own).is_ok() && tokens.check(&Identity::LOCAL).is_ok());
}

#[test]
fn a_changed_role_makes_the_old_identity_invalid() {
    let place = StateDir::new();
    let tokens = place.tokens();
    let made = place.file().create(TokenTerms::new(Access::Admin)).unwrap();
    let before = tokens.authenticate(&made.text).unwrap();
    place.write(&place.text().replace("\"admin\"", "\"observer\""));
    assert_eq!(tokens.check(&before), Err(TokenEnd::Revoked));
    assert_eq!(tokens.authenticate(&made.text).unwrap().access, Access::Observer);
}

#[test]
fn every_quick_change_is_seen() {
    let place = StateDir::new();
    let tokens = place.tokens();
    for _ in 0..200 {
        let made = place.file().create(TokenTerms::new(Access::Observer)).unwrap();
        let identity = tokens.authenticate(&made.text).unwrap();
        place.file().revoke(&made.entry.id).unwrap();
        assert_eq!(tokens.check(&identity), Err(TokenEnd::Revoked));
    }
}

#[test]
fn a_damaged_file_stops_its_tokens_but_not_the_hosts_own_and_heals() {
    let place = StateDir::new();
    let tokens = place.tokens();
    let made = place.file().create(TokenTerms::new(Access::Controller)).unwrap();
    let identity = tokens.authenticate(&made.text).unwrap();
    let good = place.text();
    place.write("{\"version\": 1, \"tok");
    for _ in 0..2 {
        assert_eq!(tokens.authenticate(&made.text), Err(TokenRefused::Unreadable));
        assert_eq!(tokens.authenticate("never made"), Err(TokenRefused::Unreadable));
        assert!(!tokens.are_all_known(), "what belongs to its tokens is kept");
        assert!(tokens.check(&identity).is_ok(), "a damaged file revokes nobody who is in");
        assert!(tokens.authenticate(&place.own()).is_ok());
    }
    place.write(&good);
    assert_eq!(tokens.authenticate(&made.text), Ok(identity));
    assert!(tokens.are_all_known());
}

#[test]
fn a_host_starts_with_its_own_token_alone_on_a_damaged_file() {
    let place = StateDir::new();
    drop(place.tokens());
    let made = place.file().create(TokenTerms::new(Access::Admin)).unwrap();
    for (nth, damaged) in ["[]", "", "{\"version\":1,\"tok", "\0\0\0"].into_iter().enumerate() {
        place.write(damaged);
        let tokens = place.tokens();
        assert!(tokens.authenticate(&place.own()).is_ok(), "{damaged:?}");
        assert_eq!(tokens.authenticate(&made.text), Err(TokenRefused::Unknown), "{damaged:?}");
        assert!(
            !tokens.are_all_known() && tokens.persons_since(&mut None).is_none(),
            "{damaged:?}"
        );
        let suffix = if nth == 0 { String::new() } else { format!("-{}", nth + 1) };
        let kept = place.0.path().join(format!("tokens.json.damaged{suffix}"));
        assert_eq!(std::fs::read_to_string(kept).unwrap(), damaged);
    }
}

#[test]
fn host_starts_with_its_own_token_alone_if_the_file_cannot_be_read() {
    let place = StateDir::new();
    drop(place.tokens());
    let made = place.file().create(TokenTerms::new(Access::Admin)).unwrap();
    let path = place.file().path().to_owned();
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    for nth in 1..=2 {
        let tokens = place.tokens();
        assert!(tokens.authenticate(&place.own()).is_ok());
        assert_eq!(tokens.authenticate(&made.text), Err(TokenRefused::Unknown));
        assert!(!tokens.are_all_known(), "tokens were lost");
        let suffix = if nth == 1 { "" } else { "-2" };
        let kept = place.0.path().join(format!("tokens.json.damaged{suffix}"));
        assert!(std::fs::symlink_metadata(kept).is_ok(), "it is not kept");
        // Reading the first byte of one's memory fails with EIO, as with a failing disk.
        std::os::unix::fs::symlink("/proc/self/mem", &path).unwrap();
    }
}

#[test]
fn a_host_does_not_start_on_a_file_of_a_newer_version() {
    let place = StateDir::new();
    place.write(r#"{"version":99,"tokens":[]}"#);
    let error = Tokens::open(place.0.path()).unwrap_err().to_string();
    assert!(error.contains("has version 99"), "{error}");
}

#[test]
fn a_damaged_file_is_named_with_the_reason_and_never_overwritten() {
    let place = StateDir::new();
    let hash = "0".repeat(64);
    let entry = |more: &str| {
        format!(r#"{{"id":"tok_a","role":"admin","hash":"{hash}","createdAt":""{more}}}"#)
    };
    let content = |entries: &str| format!(r#"{{"version":1,"tokens":[{entries}]}}"#);
    place.write(&content(&entry("")));
    assert_eq!(place.file().list().unwrap().len(), 1, "what the cases below are broken copies of");
    let limited = |more: &str| content(&entry(more)).replace("\"version\":1", "\"version\":2");
    let twice = format!("{},{}", entry(""), entry(""));
    for (text, reason) in [
        (String::new(), "EOF"),
        ("{}".to_owned(), "version"),
        (r#"{"version":0,"tokens":[]}"#.to_owned(), "version 0"),
        (r#"{"version":5,"tokens":[]}"#.to_owned(), "use the newer wharf"),
        (content(&entry("")).replace("admin", "root"), "root"),
        (content(&entry("")).replace("tok_a", "host"), "does not begin with tok_"),
        (content(&entry("")).replace(&hash, "00"), "hexadecimal"),
        (content(&twice), "twice"),
        (content(&entry(r#","network":"lan""#)), "network"),
        (
            content(&entry(r#","workspace":"w""#)).replace("admin", "observer"),
            "a limit that version 1 does not have",
        ),
        (limited(r#","workspace":"w""#), "admin of one workspace"),
        (limited(r#","workspace":"../w""#), "not a slug"),
        (limited(r#","expiresAt":"tomorrow""#), "tomorrow"),
    ] {
        place.write(&text);
        let errors = [
            place.file().list().map(drop),
            place.file().create(TokenTerms::new(Access::Observer)).map(drop),
            place.file().revoke("tok_a").map(drop),
        ];
        for error in errors {
            let error = error.unwrap_err().to_string();
            assert!(error.contains("tokens.json") && error.contains(reason), "{text}: {error}");
        }
        assert_eq!(place.text(), text);
    }
}

#[test]
fn the_file_is_private_and_holds_no_token() {
    let place = StateDir::new();
    let made = place.file().create(labelled("the wall display")).unwrap();
    let mode = |name: &str| {
        std::fs::metadata(place.0.path().join(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("tokens.json"), mode("tokens.lock")), (0o600, 0o600));
    assert!(made.text.starts_with("wharf_") && made.text.len() == 58, "{}", made.text);
    assert!(!place.text().contains(&made.text[6..]));
    let value: serde_json::Value = serde_json::from_str(&place.text()).unwrap();
    let entry = value["tokens"][0].as_object().unwrap();
    let keys: Vec<&str> = entry.keys().map(String::as_str).collect();
    assert_eq!((value["version"].as_u64(), keys.len()), (Some(1), 5), "{keys:?}");
    assert_eq!(
        (entry["role"].as_str(), entry["label"].as_str()),
        (Some("observer"), Some("the wall display"))
    );
    for shown in [format!("{made:?}"), format!("{:?}", place.tokens())] {
        assert!(
            !shown.contains(entry["hash"].as_str().unwrap()) && !shown.contains(&made.text),
            "{shown}"
        );
    }
}

#[test]
fn programs_that_change_the_file_at_once_lose_nothing() {
    let place = StateDir::new();
    let ids: Vec<_> = std::thread::scope(|scope| {
        let make = || {
            (0..10)
                .map(|_| place.file().create(TokenTerms::new(Access::Observer)).unwrap().entry.id)
                .collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let mut listed: Vec<_> =
        place.file().list().unwrap().into_iter().map(|entry| entry.id).collect();
    let mut made = ids;
    listed.sort();
    made.sort();
    assert_eq!(listed, made);
}

#[test]
fn an_unknown_id_is_named_and_nothing_is_made_for_it() {
    let place = StateDir::new();
    let nowhere = TokensFile::in_directory(&place.0.path().join("nowhere"));
    for file in [&place.file(), &nowhere] {
        let error = file.revoke("tok_nobody").unwrap_err().to_string();
        assert!(error.contains("\"tok_nobody\""), "{error}");
    }
    assert_eq!(std::fs::read_dir(place.0.path()).unwrap().count(), 0);
}

#[test]
fn a_label_is_one_short_line() {
    let place = StateDir::new();
    for wrong in ["", " ", "a\nb", "\u{1b}[2J", &"x".repeat(201)] {
        assert!(
            matches!(place.file().create(labelled(wrong)), Err(TokensFileError::Label)),
            "{wrong:?}"
        );
    }
    place.file().create(labelled(&"ü".repeat(200))).unwrap();
}

#[test]
fn a_token_of_one_workspace_is_one_and_has_a_file_that_an_older_wharf_refuses() {
    let place = StateDir::new();
    let tokens = place.tokens();
    place.file().create(TokenTerms::new(Access::Admin)).unwrap();
    assert!(place.text().contains("\"version\": 1"), "what an older wharf can read, it may");
    let terms = TokenTerms {
        workspace: Some("here".into()),
        ..TokenTerms::new(Access::Controller)
    };
    let made = place.file().create(terms).unwrap();
    assert!(place.text().contains("\"version\": 2"));
    let identity = tokens.authenticate(&made.text).unwrap();
    assert_eq!(identity.scope, Scope::Workspace("here".into()));
    assert_eq!(tokens.ids_of_workspace("here"), [made.entry.id.to_string()]);
    // As a hand would edit it: whoever was let in with the one is not let in with the other.
    place.write(&place.text().replace("\"here\"", "\"there\""));
    assert_eq!(tokens.check(&identity), Err(TokenEnd::Revoked));
    place.file().revoke(&made.entry.id).unwrap();
    assert!(place.text().contains("\"version\": 1"));
    let admin = TokenTerms {
        workspace: Some("here".into()),
        ..TokenTerms::new(Access::Admin)
    };
    assert!(matches!(place.file().create(admin), Err(TokensFileError::AdminOfWorkspace)));
}

#[test]
fn an_expired_token_is_refused_as_such_and_can_be_cleared_away() {
    let place = StateDir::new();
    let tokens = place.tokens();
    let lasting = place
        .file()
        .create(TokenTerms {
            ttl: Some(Millis(3_600_000)),
            ..TokenTerms::new(Access::Observer)
        })
        .unwrap();
    let made = place
        .file()
        .create(TokenTerms {
            ttl: Some(Millis(3_600_000)),
            ..TokenTerms::new(Access::Observer)
        })
        .unwrap();
    let identity = tokens.authenticate(&made.text).unwrap();
    // The second of the two, so that no place is mistaken for another.
    let ends = made.entry.expires_at.unwrap();
    let (first, second) = place
        .text()
        .rsplit_once(&ends)
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    place.write(&format!("{first}2020-01-01T00:00:00Z{second}"));
    assert_eq!(tokens.authenticate(&made.text), Err(TokenRefused::Expired));
    assert_eq!(tokens.check(&identity), Err(TokenEnd::Expired));
    assert!(tokens.authenticate(&lasting.text).is_ok());
    let cleared: Vec<_> = place
        .file()
        .revoke_expired()
        .unwrap()
        .into_iter()
        .map(|entry| entry.id)
        .collect();
    assert_eq!(cleared, [made.entry.id]);
    assert_eq!(tokens.authenticate(&made.text), Err(TokenRefused::Unknown));
    for wrong in [0, u64::MAX] {
        let terms = TokenTerms {
            ttl: Some(Millis(wrong)),
            ..TokenTerms::new(Access::Observer)
        };
        assert!(matches!(place.file().create(terms), Err(TokensFileError::Ttl)), "{wrong}");
    }
}

#[test]
fn a_login_ends_with_the_token_that_asked_for_it_and_one_asker_has_so_many() {
    let place = StateDir::new();
    let tokens = place.tokens();
    let asker = place.file().create(TokenTerms::new(Access::Observer)).unwrap();
    let login = || TokenTerms {
        login_of: Some(asker.entry.id.clone()),
        ..TokenTerms::new(Access::Observer)
    };
    let first = tokens.log_in(login(), ("cookie", "page")).unwrap();
    let identity = tokens.authenticate(&join_halves("cookie", "page")).unwrap();
    assert_eq!(identity.token.as_deref(), Some(&*first.entry.id));
    assert_eq!(tokens.authenticate("cookie"), Err(TokenRefused::Unknown), "half of it is nothing");
    for number in 0..20 {
        tokens.log_in(login(), ("cookie", &number.to_string())).unwrap();
    }
    assert_eq!(tokens.check(&identity), Err(TokenEnd::Revoked), "the oldest made room");
    let last = tokens.authenticate(&join_halves("cookie", "19")).unwrap();
    place.file().revoke(&asker.entry.id).unwrap();
    assert!(tokens.check(&last).is_err());
    assert_eq!(tokens.authenticate(&join_halves("cookie", "19")), Err(TokenRefused::Expired));
}
