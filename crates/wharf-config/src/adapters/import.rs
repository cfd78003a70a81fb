//! Turns ACP's `registry.json` into manifests: npx and uvx packages become commands, binaries are
//! described. Does not download anything.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use regex_lite::Regex;
use serde::Deserialize;
use serde_json::{Value, json};

use super::folder::MANIFEST_FILE;
use super::manifest::Manifest;

/// A larger file is not a registry.
const MAX_REGISTRY_BYTES: u64 = 16 << 20;
/// Tags an imported manifest, to tell it from a manifest that a person wrote.
const IMPORTED_MARK: &str = "imported";

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("cannot read {path}: {why}", path = path.display())]
    Unreadable { path: PathBuf, why: String },
    #[error("{path} is not an ACP registry: {why}", path = path.display())]
    Invalid { path: PathBuf, why: String },
    #[error("cannot write {path}: {why}", path = path.display())]
    Unwritable { path: PathBuf, why: String },
}

/// The result of an import: which of the registry's agents have a manifest now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    pub imported: Vec<String>,
    /// Slug and reason.
    pub skipped: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct Registry {
    agents: Vec<Value>,
}

#[derive(Deserialize)]
struct Agent {
    id: String,
    name: String,
    version: String,
    description: String,
    #[serde(default)]
    repository: Option<String>,
    distribution: Distribution,
}

#[derive(Deserialize)]
struct Distribution {
    npx: Option<Package>,
    uvx: Option<Package>,
    #[serde(default)]
    binary: BTreeMap<String, Binary>,
}

#[derive(Deserialize)]
struct Package {
    package: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Binary {
    archive: String,
    cmd: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

/// Writes a manifest into `adapters` for each agent of the registry in `file`. Replaces manifests
/// of earlier imports and leaves a person's manifests alone.
pub fn import_registry(file: &Path, adapters: &Path) -> Result<ImportReport, ImportError> {
    let unreadable = |why: String| ImportError::Unreadable { path: file.to_owned(), why };
    let size = file.metadata().map_err(|error| unreadable(error.to_string()))?.len();
    if size > MAX_REGISTRY_BYTES {
        return Err(unreadable(format!("it is over {MAX_REGISTRY_BYTES} bytes long")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
    let registry: Registry = wharf_json::read_own(text.as_bytes())
        .map_err(|error| ImportError::Invalid { path: file.to_owned(), why: error.to_string() })?;
    let mut report = ImportReport::default();
    for entry in registry.agents {
        let id = entry["id"].as_str().unwrap_or("?").to_owned();
        match build_manifest(entry)
            .and_then(|text| may_write(adapters, &id, &text).map(|path| (path, text)))
        {
            Ok((path, text)) => {
                write_manifest(&path, &text)
                    .map_err(|error| ImportError::Unwritable { path, why: error.to_string() })?;
                report.imported.push(id);
            }
            Err(why) => report.skipped.push((id, why)),
        }
    }
    Ok(report)
}

/// Returns the path for the manifest, if it is valid and does not replace a manifest that a person
/// wrote.
fn may_write(adapters: &Path, id: &str, text: &str) -> Result<PathBuf, String> {
    let path = adapters.join(id).join(MANIFEST_FILE);
    Manifest::parse(text, &path).map_err(|error| format!("{}: {}", error.field, error.why))?;
    match std::fs::read_to_string(&path) {
        Ok(there) if Manifest::parse(&there, &path).is_ok_and(|there| there.imported) => Ok(path),
        Ok(_) => Err(format!("{} was not imported; it is left alone", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(path),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

fn write_manifest(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let half = path.with_extension("new");
    std::fs::write(&half, text)?;
    std::fs::rename(&half, path)
}

fn build_manifest(entry: Value) -> Result<String, String> {
    let agent = Agent::deserialize(entry).map_err(|error| error.to_string())?;
    // It becomes a folder's name.
    if !Regex::new("^[a-z][a-z0-9-]{1,63}$").is_ok_and(|shape| shape.is_match(&agent.id)) {
        return Err("its id does not match ^[a-z][a-z0-9-]{1,63}$".to_owned());
    }
    let start = choose_start(agent.distribution)?;
    let front = json!({
        "name": agent.id, "id": agent.id, "description": format!("{}: {}", agent.name, agent.description),
        "version": agent.version, "bin": start.bin, "bin_args": start.args, "env": start.env,
        "install": [start.install], "version_check": start.version_check,
        "sandbox": {}, "protocol": "acp", "acp": "https://agentclientprotocol.com",
        "metadata": { "wharf": { IMPORTED_MARK: true }, "repository": agent.repository },
    });
    let yaml = yaml_serde::to_string(&front).map_err(|error| error.to_string())?;
    Ok(format!(
        "---\n{yaml}---\nMade from an ACP registry. The next import of one replaces this file.\n"
    ))
}

struct StartCommand {
    bin: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    install: Value,
    version_check: Value,
}

/// A package that is fetched when it is started is preferred: there is nothing to unpack.
fn choose_start(distribution: Distribution) -> Result<StartCommand, String> {
    if let Some(Package { package, mut args, env }) = distribution.npx {
        args.splice(0..0, ["-y".to_owned(), package]);
        let install = json!({ "method": "download", "url": "https://nodejs.org/en/download", "extract_bin": "npx" });
        return Ok(StartCommand {
            bin: "npx".to_owned(),
            args,
            env,
            install,
            version_check: build_version_check("npx"),
        });
    }
    if let Some(Package { package, mut args, env }) = distribution.uvx {
        args.insert(0, package);
        let install = json!({ "method": "curl", "url": "https://astral.sh/uv/install.sh" });
        return Ok(StartCommand {
            bin: "uvx".to_owned(),
            args,
            env,
            install,
            version_check: build_version_check("uvx"),
        });
    }
    let platform = format!(
        "{}-{}",
        if cfg!(target_os = "macos") { "darwin" } else { std::env::consts::OS },
        std::env::consts::ARCH
    );
    let Some(Binary { archive, cmd, args, env }) = distribution
        .binary
        .into_iter()
        .find(|(on, _)| *on == platform)
        .map(|found| found.1)
    else {
        return Err(format!("it has no distribution for {platform}"));
    };
    let bin = Path::new(&cmd)
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or("its cmd names no program")?
        .to_owned();
    let install = json!({ "method": "download", "url": archive, "extract_bin": cmd });
    Ok(StartCommand {
        version_check: build_version_check(&bin),
        bin,
        args,
        env,
        install,
    })
}

fn build_version_check(bin: &str) -> Value {
    json!({ "cmd": format!("{} --version", shell_words::quote(bin)), "parse": r"(\d+\.\d+(?:\.\d+)?)", "range": "*" })
}
