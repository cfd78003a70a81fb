//! Rule: forbidden dependencies, for which the crates were separated.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};
use toml::{Table, Value};

use super::{Finding, Repo, read};

const RULE: &str = "dependency";

struct Ban {
    name: &'static str,
    /// Packages that the manifest may not name.
    direct: &'static [&'static str],
    /// Packages that may not be reached by any path.
    anywhere: &'static [&'static str],
    /// If not empty, all that may be named in the manifest.
    only: &'static [&'static str],
    reason: &'static str,
}

/// The forbidden dependencies. A trailing `*` matches any suffix.
const BANS: &[Ban] = &[
    Ban {
        name: "wharf-api",
        direct: &[],
        anywhere: &["wharf-*", "tokio", "axum", "hyper*"],
        only: &["schemars", "serde", "serde_json", "utoipa"],
        reason: "the contract is types that clients can use: serde and the schema derives only",
    },
    Ban {
        name: "wharf-core",
        // The core may use wharf-json, to compute the digest of a prompt's content.
        direct: &[
            "wharf-demo",
            "wharf-host",
            "wharf-server",
            "wharf-store",
            "wharf-testkit",
            "tracing",
        ],
        anywhere: &[
            "tokio",
            "async-*",
            "futures*",
            "rusqlite",
            "axum",
            "hyper*",
            "rustix",
            "libc",
            "mio",
            "getrandom",
            "rand",
            "fastrand",
            "chrono",
            "time",
            "jiff",
            "parking_lot",
            "tempfile",
        ],
        only: &[],
        reason: "the core has no runtime, clock, randomness or IO",
    },
    Ban {
        name: "wharf-json",
        direct: &["wharf-*", "tracing"],
        anywhere: &["tokio", "axum", "hyper*", "rustix", "libc"],
        only: &[],
        reason: "every other crate reads JSON by it: it has no runtime and no IO",
    },
    Ban {
        name: "wharf-acp",
        direct: &[],
        anywhere: &["tokio", "axum", "hyper*", "rustix", "libc", "rusqlite"],
        only: &[
            "bytes",
            "memchr",
            "serde",
            "serde_json",
            "thiserror",
            "tracing",
            "wharf-core",
            "wharf-json",
        ],
        reason: "crates on both sides of the host open frames by it: it has no runtime and no IO",
    },
    Ban {
        name: "wharf-config",
        direct: &["wharf-testkit"],
        anywhere: &[
            "wharf-demo",
            "wharf-host",
            "wharf-server",
            "wharf-store",
            "tokio",
            "rusqlite",
            "axum",
            "hyper*",
            "clap",
        ],
        only: &[],
        reason: "settings, adapters and workspaces are files: no runtime, process, session or store",
    },
    Ban {
        name: "wharf-transcript",
        direct: &[
            "wharf-demo",
            "wharf-host",
            "wharf-server",
            "wharf-store",
            "wharf-testkit",
            "tracing",
        ],
        anywhere: &["tokio", "rusqlite", "axum", "hyper*", "rustix", "rand", "parking_lot"],
        only: &[],
        reason: "rows are a pure function of the log: no runtime and no IO",
    },
    Ban {
        name: "wharf-store",
        direct: &["wharf-*"],
        anywhere: &["tokio", "axum", "hyper*", "tungstenite", "tokio-tungstenite"],
        only: &[],
        reason: "the store sees bytes, not events, and no wire",
    },
    Ban {
        name: "wharf-host",
        direct: &["wharf-server", "wharf-demo", "clap"],
        anywhere: &[
            "axum",
            "hyper",
            "hyper-util",
            "http",
            "tungstenite",
            "tokio-tungstenite",
            "rmcp",
        ],
        only: &[],
        reason: "only surfaces know HTTP, WebSocket and MCP",
    },
    Ban {
        name: "wharf-server",
        direct: &["wharf-store", "wharf-demo", "rusqlite", "clap"],
        anywhere: &[],
        only: &[],
        reason: "surfaces translate; what is below the host is not theirs",
    },
    Ban {
        name: "wharf-render",
        direct: &[
            "wharf-acp",
            "wharf-core",
            "wharf-demo",
            "wharf-host",
            "wharf-json",
            "wharf-server",
            "wharf-store",
            "wharf-transcript",
            "wharf-tui",
            "tracing",
        ],
        anywhere: &[
            "tokio",
            "crossterm",
            "clap",
            "axum",
            "hyper*",
            "rustix",
            "mio",
            "rand",
            "tempfile",
        ],
        only: &[],
        reason: "lines are a pure function of rows: no terminal, runtime, clock or IO, and the host by its contract",
    },
    Ban {
        name: "wharf-tui",
        // It may use wharf-api, wharf-json and wharf-render.
        direct: &[
            "wharf-core",
            "wharf-demo",
            "wharf-host",
            "wharf-server",
            "wharf-store",
            "wharf-transcript",
            "tracing",
        ],
        anywhere: &["tokio", "crossterm", "axum", "hyper*", "rustix", "mio", "rand", "tempfile"],
        only: &[],
        reason: "the client's core has no terminal, runtime, clock, randomness or IO, and knows the host by its contract",
    },
    Ban {
        name: "wharf-demo",
        direct: &[],
        anywhere: &["wharf-*", "tokio"],
        only: &[],
        reason: "the demo is an ordinary ACP agent that knows nothing of Wharf",
    },
    Ban {
        name: "xtask",
        direct: &[],
        anywhere: &["wharf-*", "wharf", "tokio"],
        only: &[],
        reason: "xtask must build when the product does not",
    },
];

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let mut graph = if repo.has(Path::new("Cargo.lock")) {
        dependency_graph(&read(&repo.root, Path::new("Cargo.lock"))?)?
    } else {
        Graph::new()
    };
    let mut manifests = Vec::new();
    for path in repo
        .files
        .iter()
        .filter(|path| path.file_name().is_some_and(|name| name == "Cargo.toml"))
    {
        let text = read(&repo.root, path)?;
        let manifest: Table =
            toml::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        if let Some(name) = package_name(&manifest) {
            // The lock file names those of tests, too.
            graph.insert(name.to_owned(), direct_dependencies(&manifest));
        }
        manifests.push((path, text, manifest));
    }
    let mut findings = Vec::new();
    for (path, text, manifest) in &manifests {
        let name = package_name(manifest);
        for ban in BANS.iter().filter(|ban| Some(ban.name) == name) {
            findings.extend(check_manifest(ban, path, text, manifest, &graph));
        }
    }
    Ok(findings)
}

fn package_name(manifest: &Table) -> Option<&str> {
    manifest.get("package")?.get("name")?.as_str()
}

fn check_manifest(
    ban: &Ban,
    path: &Path,
    text: &str,
    manifest: &Table,
    graph: &Graph,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for direct in direct_dependencies(manifest) {
        let line = line_of(text, &direct);
        let beyond = !ban.only.is_empty() && !ban.only.contains(&direct.as_str());
        if beyond || ban.direct.iter().any(|pattern| matches_pattern(pattern, &direct)) {
            let message = format!("{} may not use {direct}: {}", ban.name, ban.reason);
            findings.push(Finding::failure(path, line, RULE, message));
        }
        for (reached, via) in reachable_packages(graph, &direct) {
            if ban.anywhere.iter().any(|pattern| matches_pattern(pattern, &reached)) {
                let message = format!("{} may not use {reached}{via}: {}", ban.name, ban.reason);
                findings.push(Finding::failure(path, line, RULE, message));
            }
        }
    }
    findings
}

/// Returns the packages that a manifest names, under their names in the lock file.
fn direct_dependencies(manifest: &Table) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut scopes = vec![manifest];
    if let Some(targets) = manifest.get("target").and_then(Value::as_table) {
        scopes.extend(targets.values().filter_map(Value::as_table));
    }
    for scope in scopes {
        // Tests may use more: a test harness brings dependencies that the crate itself must not
        // have.
        for section in ["dependencies", "build-dependencies"] {
            for (key, value) in scope.get(section).and_then(Value::as_table).into_iter().flatten() {
                let renamed = value.get("package").and_then(Value::as_str);
                names.insert(renamed.unwrap_or(key).to_owned());
            }
        }
    }
    names
}

/// Maps a package to its dependencies, all versions taken together: a superset is sufficient for
/// bans.
type Graph = BTreeMap<String, BTreeSet<String>>;

fn dependency_graph(lock: &str) -> Result<Graph> {
    let lock: Table = toml::from_str(lock).context("reading Cargo.lock")?;
    let mut graph = Graph::new();
    for package in lock.get("package").and_then(Value::as_array).into_iter().flatten() {
        let Some(name) = package.get("name").and_then(Value::as_str) else { continue };
        let needs = graph.entry(name.to_owned()).or_default();
        for need in package.get("dependencies").and_then(Value::as_array).into_iter().flatten() {
            // The entry is `name`, or `name version` if there are several versions.
            let need = need.as_str().and_then(|text| text.split(' ').next()).unwrap_or_default();
            needs.insert(need.to_owned());
        }
    }
    Ok(graph)
}

/// Returns everything that `start` reaches, itself included, each with a description of the path.
fn reachable_packages(graph: &Graph, start: &str) -> Vec<(String, String)> {
    let mut found = vec![(start.to_owned(), String::new())];
    let mut seen = BTreeSet::from([start.to_owned()]);
    let mut next = 0;
    while let Some((name, _)) = found.get(next).cloned() {
        next += 1;
        for need in graph.get(&name).into_iter().flatten() {
            if seen.insert(need.clone()) {
                found.push((need.clone(), format!(" (through {start})")));
            }
        }
    }
    found
}

fn matches_pattern(pattern: &str, name: &str) -> bool {
    pattern
        .strip_suffix('*')
        .map_or(pattern == name, |start| name.starts_with(start))
}

fn line_of(text: &str, name: &str) -> usize {
    text.lines().position(|line| line.starts_with(name)).map_or(1, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = r#"
        [[package]]
        name = "innocent"
        dependencies = ["middle 2.0.0"]
        [[package]]
        name = "middle"
        dependencies = ["tokio"]
        [[package]]
        name = "tokio"
    "#;

    fn messages(name: &str, manifest: &str) -> Vec<String> {
        let ban = BANS.iter().find(|ban| ban.name == name).unwrap();
        let table: Table = toml::from_str(manifest).unwrap();
        let findings = check_manifest(
            ban,
            Path::new("Cargo.toml"),
            manifest,
            &table,
            &dependency_graph(LOCK).unwrap(),
        );
        findings
            .into_iter()
            .map(|finding| format!("{}: {}", finding.line, finding.message))
            .collect()
    }

    #[test]
    fn a_forbidden_dependency_is_found_and_explained() {
        let found = messages("wharf-core", "[dependencies]\nserde = '1'\ntokio.workspace = true\n");
        assert_eq!(
            found,
            ["3: wharf-core may not use tokio: the core has no runtime, clock, randomness or IO"]
        );
    }

    #[test]
    fn crate_with_a_list_may_use_nothing_else() {
        let found = messages("wharf-api", "[dependencies]\nserde = '1'\nbytes = '1'\n");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("3: wharf-api may not use bytes:"), "{found:?}");
    }

    #[test]
    fn indirect_renamed_and_target_specific_dependencies_are_found() {
        let renamed =
            "[target.'cfg(unix)'.dependencies]\nx = { package = 'innocent', version = '1' }\n";
        let found = messages("wharf-store", renamed);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("wharf-store may not use tokio (through innocent)"), "{found:?}");
    }

    #[test]
    fn tests_may_use_more() {
        assert!(messages("wharf-core", "[dev-dependencies]\ntokio = '1'\n").is_empty());
        assert_eq!(messages("wharf-demo", "[dependencies]\nwharf-testkit = '1'\n").len(), 1);
    }

    #[test]
    fn star_matches_any_suffix() {
        assert!(
            matches_pattern("wharf-*", "wharf-core")
                && !matches_pattern("wharf-*", "wharf")
                && !matches_pattern("time", "timely")
        );
    }
}
