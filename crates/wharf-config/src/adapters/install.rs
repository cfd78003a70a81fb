//! Installation hints of a manifest. They are shown, never run.

use super::node::{FieldError, Node};

const INSTALL_METHODS: &[&str] = &[
    "brew", "apt", "dnf", "pacman", "choco", "scoop", "npm", "pip", "cargo", "go", "curl",
    "download", "vendored",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InstallMethod {
    method: &'static str,
    /// A package, an address or a path, by the method.
    what: String,
}

impl InstallMethod {
    pub(super) fn from_node(node: &Node<'_>) -> Result<Self, FieldError> {
        let method = node.require_member("method")?.one_of(INSTALL_METHODS)?;
        let member = match method {
            "curl" | "download" => "url",
            "vendored" => "path",
            _ => "package",
        };
        Ok(Self { method, what: node.require_member(member)?.read_text()? })
    }

    /// Returns true if people on this system (as [`std::env::consts::OS`] names it) usually install
    /// programs so.
    pub(super) fn suits_system(&self, system: &str) -> bool {
        match self.method {
            "brew" => system == "macos",
            "apt" | "dnf" | "pacman" => system == "linux",
            "choco" | "scoop" => system == "windows",
            _ => true,
        }
    }

    /// Returns a line for a shell, or an instruction for a person.
    pub(super) fn to_hint(&self) -> String {
        let what = shell_words::quote(&self.what);
        match self.method {
            "brew" => format!("brew install {what}"),
            "apt" => format!("sudo apt install {what}"),
            "dnf" => format!("sudo dnf install {what}"),
            "pacman" => format!("sudo pacman -S {what}"),
            "choco" => format!("choco install {what}"),
            "scoop" => format!("scoop install {what}"),
            "npm" => format!("npm install -g {what}"),
            "pip" => format!("pip install {what}"),
            "cargo" => format!("cargo install {what}"),
            "go" => format!("go install {what}"),
            "curl" => format!("curl -fsSL {what} | bash"),
            "download" => format!("download {what} and put the program on the PATH"),
            _ => format!("it is expected at {what}"),
        }
    }
}
