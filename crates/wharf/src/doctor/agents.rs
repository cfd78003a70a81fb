//! The agents that a host would find, and their sandboxes.

use std::collections::BTreeMap;

use wharf_config::{AdapterInfo, Config};

use super::Finding;

pub(super) fn check_agents(config: &Config) -> Vec<Finding> {
    let listed = config.adapters().list();
    let mut findings = vec![check_installed(&listed), check_default_agent(config, &listed)];
    let bad = listed.iter().filter(|info| info.protocol.is_empty());
    findings.extend(bad.map(|info| {
        let says = format!("{}: {}", info.slug, info.missing.join("; "));
        Finding::warning("agents", says, "mend the manifest, or remove it")
    }));
    findings.extend(listed.iter().filter_map(|info| check_sandbox(config, info)));
    findings
}

fn check_installed(listed: &[AdapterInfo]) -> Finding {
    let there: Vec<&str> = listed
        .iter()
        .filter(|info| info.installed)
        .map(|info| info.slug.as_str())
        .collect();
    match there[..] {
        [] | ["demo"] => Finding {
            advice: Some("install one: `wharf agents` tells how".to_owned()),
            ..Finding::note("agents", "none is installed but the demo agent")
        },
        _ => Finding::ok("agents", format!("installed: {}", there.join(", "))),
    }
}

fn check_default_agent(config: &Config, listed: &[AdapterInfo]) -> Finding {
    let name = &config.default_agent;
    match listed.iter().find(|info| info.slug == *name) {
        Some(info) if info.installed => Finding::ok("default agent", name.as_str()),
        Some(info) => Finding::warning(
            "default agent",
            format!("{name} is not installed: {}", info.missing.join("; ")),
            info.install_hint
                .as_ref()
                .map_or_else(|| "correct its command".to_owned(), |hint| format!("run: {hint}")),
        ),
        None => Finding::broken(
            "default agent",
            format!("there is no agent {name:?}: no host starts"),
            "set default_agent to one that `wharf agents` lists",
        ),
    }
}

/// Returns a finding if the agent's sandbox cannot be set up. Support for sandboxes in general has
/// its own finding.
fn check_sandbox(config: &Config, info: &AdapterInfo) -> Option<Finding> {
    let agent = config.adapters().find(&info.slug, None, &BTreeMap::new()).ok()?;
    let error = wharf_host::check_sandbox(config, &agent).filter(|_| info.installed)?.err()?;
    let says = format!("the sandbox of {} cannot be had: {error}", info.slug);
    Some(Finding::broken("sandbox", says, "no session of this agent starts until that is mended"))
}
