//! The choice of an address, with real ports.

use std::net::TcpListener;

use super::*;

/// A configuration with this text whose state directory is empty.
fn config(folder: &tempfile::TempDir, text: &str) -> Config {
    let config = Config::parse(text).unwrap();
    Config {
        state_dir: folder.path().to_owned(),
        takes_free_port: true,
        ..config
    }
}

/// Takes a free port as another program would.
fn other_program() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[tokio::test]
async fn port_of_another_program_is_left_to_it_and_the_other_one_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (_program, taken) = other_program();
    let kept = KeptPort::of(folder.path());
    kept.keep(taken.port()).unwrap();
    let settings = config(&folder, "");
    let outlook = check_start(&settings, None).unwrap();
    assert_eq!(outlook.taken, Some(taken));
    let first = bind(&settings).unwrap();
    assert_eq!(first.taken, Some(taken));
    assert_ne!(first.address, taken);
    assert_eq!(
        settings.default_addresses().next(),
        Some(first.address),
        "the next host tries the same address first"
    );
}

#[tokio::test]
async fn address_that_the_user_has_set_is_strict_and_the_error_says_how_to_change_it() {
    let folder = tempfile::tempdir().unwrap();
    let (_program, taken) = other_program();
    let settings = config(&folder, &format!("listen = \"{taken}\""));
    for error in [check_start(&settings, None).unwrap_err(), bind(&settings).unwrap_err()] {
        let text = error.to_string();
        assert!(
            text.contains(&taken.to_string()) && text.contains("wharf config set listen"),
            "{text}"
        );
    }
    let own = check_start(&settings, Some(taken)).unwrap();
    assert_eq!(own, AddressOutlook { address: taken, is_own: true, taken: None });
}

#[tokio::test]
async fn host_behind_a_proxy_refuses_a_taken_default() {
    let folder = tempfile::tempdir().unwrap();
    let (_program, taken) = other_program();
    KeptPort::of(folder.path()).keep(taken.port()).unwrap();
    let settings = config(&folder, "public_url = \"https://box.example\"");
    assert!(matches!(bind(&settings), Err(BindError::Taken { address, .. }) if address == taken));
}

#[test]
fn host_in_the_foreground_tries_the_kept_port_and_the_usual_one_alone() {
    let folder = tempfile::tempdir().unwrap();
    let candidates = || {
        let settings = Config { takes_free_port: false, ..config(&folder, "") };
        ListenPlan::of(&settings).unwrap().candidates
    };
    let usual = SocketAddr::from(([127, 0, 0, 1], 7433));
    assert_eq!(candidates(), [usual]);
    KeptPort::of(folder.path()).keep(7440).unwrap();
    assert_eq!(candidates(), [SocketAddr::from(([127, 0, 0, 1], 7440)), usual]);
}

#[test]
fn address_belongs_to_the_running_host_if_it_listens_there() {
    let held = |own: &str, wanted: &str| is_held_by(own.parse().unwrap(), wanted.parse().unwrap());
    for (own, wanted) in [
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("0.0.0.0:80", "127.0.0.1:80"),
        ("[::]:80", "127.0.0.1:80"),
        ("[::]:80", "[::1]:80"),
        ("127.0.0.1:80", "0.0.0.0:80"),
    ] {
        assert!(held(own, wanted), "{own} {wanted}");
    }
    for (own, wanted) in [
        ("127.0.0.1:80", "[::1]:80"),
        ("127.0.0.1:80", "127.0.0.2:80"),
        ("127.0.0.1:80", "127.0.0.1:81"),
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("0.0.0.0:80", "[::1]:80"),
    ] {
        assert!(!held(own, wanted), "{own} {wanted}");
    }
}

#[test]
fn settings_that_no_host_could_start_with_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |text: &str| check_start(&config(&folder, text), None).unwrap_err();
    assert!(matches!(refusal("listen = \"127.0.0.1\""), BindError::Address { .. }));
    assert!(matches!(refusal("listen = \"localhost:80\""), BindError::Address { .. }));
    assert!(matches!(refusal("listen = \"0.0.0.0:0\""), BindError::NotLoopback { .. }));
    assert!(matches!(refusal("listen = \"0.0.0.0:0\"\nauth = \"none\""), BindError::OpenToAll(_)));
    assert!(matches!(
        refusal("[tls]\ncert = \"/no/such.pem\""),
        BindError::HalfTls { missing: "tls.key", .. }
    ));
    let unreadable = refusal("[tls]\ncert = \"/no/such.pem\"\nkey = \"/no/such.key\"");
    assert!(matches!(unreadable, BindError::Tls(TlsError::Unreadable { .. })));
}

#[test]
fn advice_names_the_place_where_the_user_has_set_the_address_or_the_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let told = |text: &str| check_start(&config(&folder, text), None).unwrap_err().to_string();
    let half = told("[tls]\ncert = \"/no/such.pem\"");
    assert!(
        half.contains("wharf config set tls.cert FILE tls.key FILE") && !half.contains("--tls-"),
        "{half}"
    );
    assert!(half.contains("wharf config unset tls.cert"), "{half}");
    let half_in_public = told("listen = \"0.0.0.0:7440\"\n[tls]\ncert = \"/no/such.pem\"");
    assert!(
        half_in_public.contains("wharf config set tls.cert FILE tls.key FILE")
            && !half_in_public.contains("unset"),
        "{half_in_public}"
    );
    let open = told("listen = \"0.0.0.0:7440\"");
    assert!(open.contains("wharf config set tls.cert FILE tls.key FILE"), "{open}");
    assert!(
        open.contains("wharf config set listen 127.0.0.1:PORT") && !open.contains("--tls-"),
        "{open}"
    );
}
