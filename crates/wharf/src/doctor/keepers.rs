//! Checks of the keepers: whether agents can outlive the host here, how many of them would, and
//! what earlier ones left.

use wharf_config::Config;
use wharf_host::{KeeperLimits, KeeperReport, check_keeper_support, inspect_keepers};
use wharf_render::text;

use super::Finding;
use crate::format::times::format_limit;

pub(super) fn check_keepers(config: &Config) -> Vec<Finding> {
    let support = match check_keeper_support() {
        Ok(()) if config.keeper.enabled => {
            Finding::ok("keepers", describe_limits(KeeperLimits::from_settings(&config.keeper)))
        }
        Ok(()) => Finding::note("keepers", "agents end with the host: keeper.enabled is false"),
        Err(error) => Finding::broken(
            "keepers",
            format!(
                "memfd_create or splice does not work here, and agents cannot be started: {error}"
            ),
            "use Linux; in a container, allow both calls",
        ),
    };
    let mut findings = vec![support];
    findings.extend(judge_keepers(&inspect_keepers(&config.state_dir), env!("CARGO_PKG_VERSION")));
    findings
}

/// Tells how far agents go on without a host.
fn describe_limits(limits: KeeperLimits) -> String {
    let turn = format_limit(limits.absence_millis);
    let idle = format_limit(limits.idle_absence_millis);
    let output = text::format_size(limits.output_bytes);
    format!("agents can outlive the host: {turn} in a turn, {idle} idle, up to {output} of output")
}

/// Judges the keepers of a state directory. `version` is that of this program.
pub(super) fn judge_keepers(report: &KeeperReport, version: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let KeeperReport { versions, stale_sockets } = report;
    if !versions.is_empty() {
        let says =
            describe_count(versions.len(), "agent outlives its host", "agents outlive their host");
        findings.push(Finding::ok("keepers", says));
    }
    let mut old: Vec<&str> =
        versions.iter().map(String::as_str).filter(|known| *known != version).collect();
    let old_count = old.len();
    old.dedup();
    if old_count > 0 {
        let keepers = describe_count(old_count, "keeper is", "keepers are");
        let says = format!(
            "{keepers} of another version ({}): old keepers run the old program until their agents end",
            old.join(", ")
        );
        findings.push(Finding::note("keepers", says));
    }
    if let [first, ..] = &stale_sockets[..] {
        let sockets = describe_count(stale_sockets.len(), "socket", "sockets");
        let says = format!("{sockets} of keepers that are gone, such as {}", first.display());
        let advice = "they do no harm; remove the files if you like";
        findings.push(Finding {
            advice: Some(advice.to_owned()),
            ..Finding::note("keepers", says)
        });
    }
    findings
}

fn describe_count(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
