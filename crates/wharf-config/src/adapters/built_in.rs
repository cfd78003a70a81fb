//! The manifests that come with Wharf, for agents that many people use.

use std::path::PathBuf;
use std::sync::OnceLock;

use super::folder::MANIFEST_FILE;
use super::manifest::Manifest;

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        const MANIFEST_TEXTS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../adapters/", $name, "/AGENT-CLI.md")))),*];
    };
}

built_in!(
    "claude", "codex", "copilot", "cursor", "gemini", "goose", "hermes", "kimi", "opencode", "qwen"
);

/// Returns all built-in manifests, by name. A test checks that each of them is valid.
pub(super) fn all_manifests() -> &'static [Manifest] {
    static ALL_MANIFESTS: OnceLock<Vec<Manifest>> = OnceLock::new();
    ALL_MANIFESTS.get_or_init(|| {
        MANIFEST_TEXTS
            .iter()
            .filter_map(|(name, text)| Manifest::parse(text, &manifest_path(name)).ok())
            .collect()
    })
}

fn manifest_path(name: &str) -> PathBuf {
    PathBuf::from("built-in").join(name).join(MANIFEST_FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manifest_that_comes_with_wharf_is_good() {
        for (name, text) in MANIFEST_TEXTS {
            let manifest = Manifest::parse(text, &manifest_path(name)).unwrap();
            assert_eq!(
                (&*manifest.id, manifest.protocol, manifest.warnings.len()),
                (*name, "acp", 0)
            );
            assert!(manifest.install_hint().is_some(), "{name}");
        }
        assert_eq!(all_manifests().len(), 10);
    }

    fn named(name: &str) -> &'static Manifest {
        all_manifests().iter().find(|manifest| &*manifest.id == name).unwrap()
    }

    #[test]
    fn install_hints_suit_the_system() {
        for manifest in all_manifests() {
            let hint = manifest.install_hint_for("linux").unwrap();
            assert!(!hint.starts_with("brew"), "{}: {hint}", &*manifest.id);
        }
        assert!(named("goose").install_hint_for("linux").unwrap().starts_with("curl "));
        assert_eq!(
            named("kimi").install_hint_for("linux").unwrap(),
            "npm install -g @moonshot-ai/kimi-code"
        );
    }

    /// However it was installed: asking a package manager finds only what that one installed.
    #[test]
    fn version_checks_ask_the_program_itself() {
        for manifest in all_manifests() {
            let program = manifest.version_check.command.first();
            assert_eq!(program, Some(&manifest.bin), "{}", &*manifest.id);
        }
    }
}
