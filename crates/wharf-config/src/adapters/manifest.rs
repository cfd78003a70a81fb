//! AIP-45's `AGENT-CLI.md`: front matter that says how an agent is started. The body is for people.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use wharf_core::Millis;

use super::error::ManifestError;
use super::install::InstallMethod;
use super::node::{FieldError, Node, read_optional};
use super::patch::{ManifestMode, ManifestOption};
use super::sandbox;
use super::usage_report::UsageReport;
use super::version::VersionCheck;
use crate::settings::SandboxSettings;

/// A larger file is not a manifest.
pub(super) const MAX_MANIFEST_BYTES: u64 = 256 << 10;
/// Everything that AIP-45 knows at the top, and `env` and `usage`, which are ours.
const KNOWN_FIELDS: &[&str] = &[
    "name",
    "id",
    "description",
    "version",
    "bin",
    "bin_args",
    "install",
    "version_check",
    "setup",
    "auth",
    "sandbox",
    "runner",
    "protocol",
    "acp",
    "mcp",
    "adapter",
    "session",
    "models",
    "capabilities",
    "modes",
    "options",
    "continuation",
    "requires",
    "examples",
    "tags",
    "metadata",
    "env",
    "usage",
];
const CAPABILITY_NAMES: &[&str] = &[
    "streaming",
    "tool_calls",
    "sub_agents",
    "file_io",
    "multimodal",
    "resumable",
    "bidirectional",
];
const CONTINUATION_NAMES: &[&str] = &["none", "pinned-session", "transcript", "native-resume"];
const SEMVER_PATTERN: &str = r"^\d+\.\d+\.\d+(?:[-+][\w.\-]+)?$";

/// How one agent is started.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) id: String,
    pub(super) description: String,
    pub(super) version: String,
    pub(super) bin: String,
    pub(super) bin_args: Vec<String>,
    pub(super) install: Vec<InstallMethod>,
    pub(super) version_check: VersionCheck,
    pub(super) auth: ManifestAuth,
    pub(super) protocol: &'static str,
    /// As stated, if it is.
    session_mode: Option<&'static str>,
    /// How long a session may have nothing to do before it is put to sleep.
    pub(super) idle_limit: Option<Millis>,
    /// The variables that hold the keys of models.
    pub(super) model_variables: Vec<String>,
    /// For the agent, whatever the mode.
    pub(super) env: BTreeMap<String, String>,
    pub(super) capabilities: BTreeMap<String, bool>,
    pub(super) modes: Vec<ManifestMode>,
    pub(super) options: Vec<ManifestOption>,
    /// The meaning of its token counts, if it says so.
    pub(super) usage: Option<UsageReport>,
    /// Whether it was made from an ACP registry.
    pub(super) imported: bool,
    pub(super) sandbox: SandboxSettings,
    /// Parts of the manifest that Wharf ignores.
    pub(super) warnings: Vec<String>,
}

/// How a user logs in to the agent.
#[derive(Clone, Debug, Default)]
pub(super) struct ManifestAuth {
    pub(super) variables: Vec<String>,
    pub(super) paths: Vec<String>,
    pub(super) login: Option<String>,
}

impl Manifest {
    /// Reads the text of `path`, whose folder has the manifest's name.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self, ManifestError> {
        let whole = |why: String| FieldError { field: "front matter".to_owned(), why };
        let read = || {
            let yaml = front_matter(text)
                .ok_or_else(|| whole("must stand first, between two lines of `---`".to_owned()))?;
            let value: Value =
                yaml_serde::from_str(yaml).map_err(|error| whole(error.to_string()))?;
            Self::from_node(&Node::from_root(&value), path)
        };
        read().map_err(|FieldError { field, why }| ManifestError {
            path: path.to_owned(),
            field,
            why,
        })
    }

    fn from_node(root: &Node<'_>, path: &Path) -> Result<Self, FieldError> {
        let protocol = root.require_member("protocol")?.one_of(&["acp", "mcp", "proprietary"])?;
        let auth = read_optional(root, "auth", read_auth)?.unwrap_or_default();
        let models = root.get("models")?;
        let (sandbox, not_applied) = sandbox::read_sandbox(&root.require_member("sandbox")?)?;
        let manifest = Self {
            path: path.to_owned(),
            name: read_name(root, path)?,
            id: root.require_member("id")?.read_matching("^[a-z0-9][a-z0-9-]{1,63}$")?,
            description: root.require_member("description")?.read_matching(r"^[\s\S]{1,2000}$")?,
            version: root.require_member("version")?.read_matching(SEMVER_PATTERN)?,
            bin: read_bin(&root.require_member("bin")?)?,
            bin_args: read_optional(root, "bin_args", Node::read_texts)?.unwrap_or_default(),
            install: read_install(&root.require_member("install")?)?,
            version_check: VersionCheck::from_node(&root.require_member("version_check")?)?,
            auth,
            protocol,
            session_mode: read_optional(root, "session", read_session_mode)?.flatten(),
            idle_limit: read_optional(root, "session", read_idle_limit)?.flatten(),
            model_variables: models
                .map(|models| read_model_variables(&models))
                .transpose()?
                .unwrap_or_default(),
            env: read_optional(root, "env", Node::read_variables)?.unwrap_or_default(),
            capabilities: read_optional(root, "capabilities", read_capabilities)?
                .unwrap_or_default(),
            modes: read_optional(root, "modes", |modes| {
                modes.read_list()?.iter().map(ManifestMode::from_node).collect()
            })?
            .unwrap_or_default(),
            options: read_optional(root, "options", |all| {
                all.read_list()?.iter().map(ManifestOption::from_node).collect()
            })?
            .unwrap_or_default(),
            usage: read_optional(root, "usage", UsageReport::from_node)?,
            imported: root.value()["metadata"]["wharf"]["imported"] == true,
            sandbox,
            warnings: find_unknown_fields(root)?.into_iter().chain(not_applied).collect(),
        };
        manifest.check_consistency(root)?;
        Ok(manifest)
    }

    /// Checks the conditions that span several fields.
    fn check_consistency(&self, root: &Node<'_>) -> Result<(), FieldError> {
        match self.protocol {
            "acp" => drop(root.require_member("acp")?.read_text()?),
            "mcp" => drop(
                root.require_member("mcp")?
                    .require_member("transport")?
                    .one_of(&["stdio", "http", "sse"])?,
            ),
            _ => drop(root.require_member("adapter")?.read_text()?),
        }
        let resumable = self.capabilities.get("resumable") == Some(&true);
        if self.session_mode == Some("resumable") && !resumable {
            return Err(root
                .require_member("session")?
                .field_error("mode resumable needs capabilities.resumable: true"));
        }
        if let Some(continuation) = root.get("continuation")? {
            let default = continuation.require_member("default")?.one_of(CONTINUATION_NAMES)?;
            for supported in continuation.require_member("supported")?.read_list()? {
                supported.one_of(CONTINUATION_NAMES)?;
            }
            if default == "native-resume" && !resumable {
                return Err(continuation
                    .field_error("default native-resume needs capabilities.resumable: true"));
            }
        }
        check_unique("modes", self.modes.iter().map(|mode| mode.id.as_str()))?;
        check_unique("options", self.options.iter().map(|option| option.id.as_str()))
    }

    /// Tells whether an ended session may come back (rule 2.6). `None` if the manifest does not
    /// state it: then the agent decides.
    pub(crate) fn comes_back(&self) -> Option<bool> {
        match (self.capabilities.get("resumable"), self.session_mode) {
            (Some(false), _) | (_, Some("ephemeral")) => Some(false),
            _ => None,
        }
    }

    /// The caller's variables that the agent is to have.
    pub(crate) fn variable_names(&self) -> Vec<String> {
        self.auth.variables.iter().chain(&self.model_variables).cloned().collect()
    }

    /// Every mode makes a command that runs this program.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn try_all_modes(&self) {
        for mode in
            std::iter::once(None).chain(self.modes.iter().map(|mode| Some(mode.id.as_str())))
        {
            let made = self.patch_command(mode, &BTreeMap::new());
            assert!(
                made.is_ok_and(|made| made.command.first() == Some(&self.bin)),
                "{mode:?} makes no command"
            );
        }
    }

    /// Returns the hint that installs the program on this system.
    pub(crate) fn install_hint(&self) -> Option<String> {
        self.install_hint_for(std::env::consts::OS)
    }

    /// Returns the hint of the first method that suits the system, else of the first.
    pub(super) fn install_hint_for(&self, system: &str) -> Option<String> {
        self.install
            .iter()
            .find(|way| way.suits_system(system))
            .or(self.install.first())
            .map(InstallMethod::to_hint)
    }
}

/// Returns the text between the first line, `---`, and the next such line.
fn front_matter(text: &str) -> Option<&str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rest = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"))?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some(&rest[..at]);
        }
        at += line.len();
    }
    None
}

fn read_name(root: &Node<'_>, path: &Path) -> Result<String, FieldError> {
    let node = root.require_member("name")?;
    let name = node.read_text()?;
    let folder = path
        .parent()
        .and_then(Path::file_name)
        .and_then(|folder| folder.to_str())
        .unwrap_or_default();
    if name != folder {
        return Err(
            node.field_error(format!("{name:?} must be the name of its folder, {folder:?}"))
        );
    }
    Ok(name)
}

fn read_bin(node: &Node<'_>) -> Result<String, FieldError> {
    let bin = node.read_matching("^[A-Za-z0-9._/-]+$")?;
    if bin.contains('/') && !bin.starts_with('/') {
        return Err(
            node.field_error(format!("{bin:?} must be absolute, or a name that is on the PATH"))
        );
    }
    Ok(bin)
}

fn read_install(node: &Node<'_>) -> Result<Vec<InstallMethod>, FieldError> {
    let methods: Vec<InstallMethod> = node
        .read_list()?
        .iter()
        .map(InstallMethod::from_node)
        .collect::<Result<_, _>>()?;
    if methods.is_empty() {
        Err(node.field_error("must name at least one way"))
    } else {
        Ok(methods)
    }
}

fn read_auth(node: &Node<'_>) -> Result<ManifestAuth, FieldError> {
    let state = node.get("state")?;
    let listed = |name| {
        state
            .as_ref()
            .map_or(Ok(None), |state| read_optional(state, name, Node::read_texts))
    };
    let login = node
        .get("login")?
        .map(|login| login.require_member("cmd")?.read_text())
        .transpose()?;
    let variables = listed("env")?.unwrap_or_default();
    Ok(ManifestAuth {
        variables,
        paths: listed("paths")?.unwrap_or_default(),
        login,
    })
}

fn read_session_mode(node: &Node<'_>) -> Result<Option<&'static str>, FieldError> {
    read_optional(node, "max_turns", Node::read_integer)?;
    read_optional(node, "context_carryover", Node::read_bool)?;
    read_optional(node, "mode", |mode| mode.one_of(&["ephemeral", "persistent", "resumable"]))
}

/// Returns the idle limit; zero and negative values mean none.
fn read_idle_limit(node: &Node<'_>) -> Result<Option<Millis>, FieldError> {
    let stated = read_optional(node, "idle_timeout_ms", Node::read_integer)?;
    Ok(stated
        .and_then(|millis| u64::try_from(millis).ok())
        .filter(|millis| *millis > 0)
        .map(Millis))
}

fn read_model_variables(node: &Node<'_>) -> Result<Vec<String>, FieldError> {
    read_optional(node, "default", Node::read_text)?;
    read_optional(node, "allowed", Node::read_texts)?;
    let Some(env) = node.get("env")? else { return Ok(Vec::new()) };
    env.read_object()?
        .keys()
        .map(|slot| env.require_member(slot)?.read_text())
        .collect()
}

fn read_capabilities(node: &Node<'_>) -> Result<BTreeMap<String, bool>, FieldError> {
    let known = CAPABILITY_NAMES.iter().filter_map(|name| {
        match read_optional(node, name, Node::read_bool) {
            Ok(stated) => stated.map(|stated| Ok(((*name).to_owned(), stated))),
            Err(wrong) => Some(Err(wrong)),
        }
    });
    known.collect()
}

fn check_unique<'a>(field: &str, mut ids: impl Iterator<Item = &'a str>) -> Result<(), FieldError> {
    let mut seen = std::collections::HashSet::new();
    match ids.find(|id| !seen.insert(*id)) {
        Some(id) => Err(FieldError {
            field: field.to_owned(),
            why: format!("{id:?} is there twice"),
        }),
        None => Ok(()),
    }
}

/// Returns a warning for each part of the manifest that has no effect.
fn find_unknown_fields(root: &Node<'_>) -> Result<Vec<String>, FieldError> {
    let unknown = root.read_object()?.keys().filter(|name| !KNOWN_FIELDS.contains(&name.as_str()));
    Ok(unknown
        .map(|name| format!("the field {name:?} is not known and ignored"))
        .collect())
}
