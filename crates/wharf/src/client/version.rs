//! Refuses a host of another version before anything is done (rule 1.7).

use crate::exit::{Exit, Failure};

const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Refuses a host whose major or minor version differs.
pub(crate) fn check_version(host: Option<&str>) -> Result<(), Failure> {
    if is_compatible(host, OWN_VERSION) {
        return Ok(());
    }
    let host = host.map_or_else(
        || "of a version that it does not tell".to_owned(),
        |version| format!("wharf {version}"),
    );
    let words = format!(
        "the host that runs is {host}, this is wharf {OWN_VERSION}: use the program that started it, or restart it with this one: wharf restart"
    );
    Err(Failure::new(Exit::Version, words))
}

/// Returns true if both have the same major and minor version.
pub(crate) fn is_compatible(host: Option<&str>, own: &str) -> bool {
    let family =
        |version: &str| version.splitn(3, '.').take(2).map(str::to_owned).collect::<Vec<_>>();
    host.is_some_and(|host| family(host) == family(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_versions_understand_each_other_others_do_not() {
        assert!(
            is_compatible(Some("1.2.3"), "1.2.9") && is_compatible(Some("1.2.0-rc.1"), "1.2.0")
        );
        for host in [Some("1.3.0"), Some("2.2.3"), Some("1"), Some(""), None] {
            assert!(!is_compatible(host, "1.2.3"), "{host:?}");
        }
        assert!(check_version(Some(OWN_VERSION)).is_ok());
        let words = check_version(Some("99.1.0")).unwrap_err().to_string();
        assert!(
            words.contains("99.1.0")
                && words.contains(OWN_VERSION)
                && words.contains("wharf restart"),
            "{words}"
        );
    }
}
