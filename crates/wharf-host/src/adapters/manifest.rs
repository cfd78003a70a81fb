//! AIP-45's `AGENT-CLI.md`: front matter that says how an agent is started. The body is for people.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use wharf_core::Millis;

use super::error::ManifestError;
use super::install::Install;
use super::node::{Node, Wrong, optional};
use super::patch::{Mode, Setting};
use super::sandbox;
use super::version::VersionCheck;
use crate::config::SandboxSettings;

/// A manifest over this is not one.
pub(super) const LONGEST: u64 = 256 << 10;
/// Everything that AIP-45 knows at the top, and `env`, which is ours.
const KNOWN: &[&str] = &[
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
];
const CAPABILITIES: &[&str] =
    &["streaming", "tool_calls", "sub_agents", "file_io", "multimodal", "resumable", "bidirectional"];
const CONTINUATIONS: &[&str] = &["none", "pinned-session", "transcript", "native-resume"];
const SEMVER: &str = r"^\d+\.\d+\.\d+(?:[-+][\w.\-]+)?$";

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
    pub(super) install: Vec<Install>,
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
    pub(super) modes: Vec<Mode>,
    pub(super) options: Vec<Setting>,
    /// Was it made from an ACP registry?
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
        let whole = |why: String| Wrong { field: "front matter".to_owned(), why };
        let read = || {
            let yaml =
                front_matter(text).ok_or_else(|| whole("must stand first, between two lines of `---`".to_owned()))?;
            let value: Value = yaml_serde::from_str(yaml).map_err(|error| whole(error.to_string()))?;
            Self::read(&Node::root(&value), path)
        };
        read().map_err(|Wrong { field, why }| ManifestError { path: path.to_owned(), field, why })
    }

    fn read(root: &Node<'_>, path: &Path) -> Result<Self, Wrong> {
        let protocol = root.need("protocol")?.one_of(&["acp", "mcp", "proprietary"])?;
        let (auth, models) = (optional(root, "auth", auth)?.unwrap_or_default(), root.get("models")?);
        let (sandbox, not_applied) = sandbox::read(&root.need("sandbox")?)?;
        let manifest = Self {
            path: path.to_owned(),
            name: name(root, path)?,
            id: root.need("id")?.shaped("^[a-z0-9][a-z0-9-]{1,63}$")?,
            description: root.need("description")?.shaped(r"^[\s\S]{1,2000}$")?,
            version: root.need("version")?.shaped(SEMVER)?,
            bin: bin(&root.need("bin")?)?,
            bin_args: optional(root, "bin_args", Node::texts)?.unwrap_or_default(),
            install: install(&root.need("install")?)?,
            version_check: VersionCheck::read(&root.need("version_check")?)?,
            auth,
            protocol,
            session_mode: optional(root, "session", session_mode)?.flatten(),
            idle_limit: optional(root, "session", idle_limit)?.flatten(),
            model_variables: models.map(|models| model_variables(&models)).transpose()?.unwrap_or_default(),
            env: optional(root, "env", Node::variables)?.unwrap_or_default(),
            capabilities: optional(root, "capabilities", capabilities)?.unwrap_or_default(),
            modes: optional(root, "modes", |modes| modes.list()?.iter().map(Mode::read).collect())?.unwrap_or_default(),
            options: optional(root, "options", |all| all.list()?.iter().map(Setting::read).collect())?
                .unwrap_or_default(),
            imported: root.value()["metadata"]["wharf"]["imported"] == true,
            sandbox,
            warnings: unknown(root)?.into_iter().chain(not_applied).collect(),
        };
        manifest.fits(root)?;
        Ok(manifest)
    }

    /// Checks the conditions that span several fields.
    fn fits(&self, root: &Node<'_>) -> Result<(), Wrong> {
        match self.protocol {
            "acp" => drop(root.need("acp")?.text()?),
            "mcp" => drop(root.need("mcp")?.need("transport")?.one_of(&["stdio", "http", "sse"])?),
            _ => drop(root.need("adapter")?.text()?),
        }
        let resumable = self.capabilities.get("resumable") == Some(&true);
        if self.session_mode == Some("resumable") && !resumable {
            return Err(root.need("session")?.wrong("mode resumable needs capabilities.resumable: true"));
        }
        if let Some(continuation) = root.get("continuation")? {
            let default = continuation.need("default")?.one_of(CONTINUATIONS)?;
            for supported in continuation.need("supported")?.list()? {
                supported.one_of(CONTINUATIONS)?;
            }
            if default == "native-resume" && !resumable {
                return Err(continuation.wrong("default native-resume needs capabilities.resumable: true"));
            }
        }
        once("modes", self.modes.iter().map(|mode| mode.id.as_str()))?;
        once("options", self.options.iter().map(|option| option.id.as_str()))
    }

    /// May an ended session come back (rule 2.6)? `None`: the agent says. Only what is stated counts.
    pub(crate) fn comes_back(&self) -> Option<bool> {
        match (self.capabilities.get("resumable"), self.session_mode) {
            (Some(false), _) | (_, Some("ephemeral")) => Some(false),
            _ => None,
        }
    }

    /// The caller's variables that the agent is to have.
    pub(crate) fn variables(&self) -> Vec<String> {
        self.auth.variables.iter().chain(&self.model_variables).cloned().collect()
    }

    /// Every mode makes a command that runs this program.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn try_all_modes(&self) {
        for mode in std::iter::once(None).chain(self.modes.iter().map(|mode| Some(mode.id.as_str()))) {
            let made = self.patched(mode, &BTreeMap::new());
            assert!(made.is_ok_and(|made| made.command.first() == Some(&self.bin)), "{mode:?} makes no command");
        }
    }

    /// One line that installs it here.
    pub(crate) fn install_hint(&self) -> Option<String> {
        self.install_hint_for(std::env::consts::OS)
    }

    /// The first way that suits the system, else the first.
    pub(super) fn install_hint_for(&self, system: &str) -> Option<String> {
        self.install.iter().find(|way| way.suits(system)).or(self.install.first()).map(Install::hint)
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

fn name(root: &Node<'_>, path: &Path) -> Result<String, Wrong> {
    let node = root.need("name")?;
    let name = node.text()?;
    let folder = path.parent().and_then(Path::file_name).and_then(|folder| folder.to_str()).unwrap_or_default();
    if name != folder {
        return Err(node.wrong(format!("{name:?} must be the name of its folder, {folder:?}")));
    }
    Ok(name)
}

fn bin(node: &Node<'_>) -> Result<String, Wrong> {
    let bin = node.shaped("^[A-Za-z0-9._/-]+$")?;
    if bin.contains('/') && !bin.starts_with('/') {
        return Err(node.wrong(format!("{bin:?} must be absolute, or a name that is on the PATH")));
    }
    Ok(bin)
}

fn install(node: &Node<'_>) -> Result<Vec<Install>, Wrong> {
    let methods: Vec<Install> = node.list()?.iter().map(Install::read).collect::<Result<_, _>>()?;
    if methods.is_empty() { Err(node.wrong("must name at least one way")) } else { Ok(methods) }
}

fn auth(node: &Node<'_>) -> Result<ManifestAuth, Wrong> {
    let state = node.get("state")?;
    let listed = |name| state.as_ref().map_or(Ok(None), |state| optional(state, name, Node::texts));
    let login = node.get("login")?.map(|login| login.need("cmd")?.text()).transpose()?;
    let variables = listed("env")?.unwrap_or_default();
    Ok(ManifestAuth { variables, paths: listed("paths")?.unwrap_or_default(), login })
}

fn session_mode(node: &Node<'_>) -> Result<Option<&'static str>, Wrong> {
    optional(node, "max_turns", Node::integer)?;
    optional(node, "context_carryover", Node::boolean)?;
    optional(node, "mode", |mode| mode.one_of(&["ephemeral", "persistent", "resumable"]))
}

/// Nothing, or less, means none.
fn idle_limit(node: &Node<'_>) -> Result<Option<Millis>, Wrong> {
    let stated = optional(node, "idle_timeout_ms", Node::integer)?;
    Ok(stated.and_then(|millis| u64::try_from(millis).ok()).filter(|millis| *millis > 0).map(Millis))
}

fn model_variables(node: &Node<'_>) -> Result<Vec<String>, Wrong> {
    optional(node, "default", Node::text)?;
    optional(node, "allowed", Node::texts)?;
    let Some(env) = node.get("env")? else { return Ok(Vec::new()) };
    env.object()?.keys().map(|slot| env.need(slot)?.text()).collect()
}

fn capabilities(node: &Node<'_>) -> Result<BTreeMap<String, bool>, Wrong> {
    let known = CAPABILITIES.iter().filter_map(|name| match optional(node, name, Node::boolean) {
        Ok(stated) => stated.map(|stated| Ok(((*name).to_owned(), stated))),
        Err(wrong) => Some(Err(wrong)),
    });
    known.collect()
}

fn once<'a>(field: &str, mut ids: impl Iterator<Item = &'a str>) -> Result<(), Wrong> {
    let mut seen = std::collections::HashSet::new();
    match ids.find(|id| !seen.insert(*id)) {
        Some(id) => Err(Wrong { field: field.to_owned(), why: format!("{id:?} is there twice") }),
        None => Ok(()),
    }
}

/// Returns a warning for each part of the manifest that has no effect.
fn unknown(root: &Node<'_>) -> Result<Vec<String>, Wrong> {
    let unknown = root.object()?.keys().filter(|name| !KNOWN.contains(&name.as_str()));
    Ok(unknown.map(|name| format!("the field {name:?} is not known and ignored")).collect())
}
