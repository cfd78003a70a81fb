//! Checks of the kernel and its limits.

use rustix::process::{Resource, getrlimit, getuid};
use wharf_config::{Config, SandboxMode};
use wharf_host::sandbox::{SandboxSupport, detect_support};

use super::Finding;

/// How many open files a session takes: the agent's pipes, its keeper, the log, and one terminal.
const FILES_PER_SESSION: usize = 8;
/// With a lower limit, a handful of sessions is too many.
const MIN_OPEN_FILES: u64 = 512;

pub(super) fn check_system(config: &Config) -> Vec<Finding> {
    let mut findings =
        vec![check_kernel(), check_processes(), check_sandbox_support(config, &detect_support())];
    let limit = getrlimit(Resource::Nofile);
    findings.push(check_open_file_limit(config, limit.maximum));
    if getuid().is_root() {
        findings.push(Finding::warning(
            "user",
            "this is root: agents run as root too, and no sandbox holds root",
            "run wharf as an ordinary user",
        ));
    }
    findings
}

fn check_kernel() -> Finding {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let system = std::env::consts::OS;
    let machine = std::env::consts::ARCH;
    Finding::ok("system", format!("{system} {} {machine}", release.trim()).replace("  ", " "))
}

fn check_processes() -> Finding {
    let readable = std::fs::read_to_string("/proc/self/stat").is_ok();
    match (rustix::process::child_subreaper(), readable) {
        (Ok(_), true) => {
            Finding::ok("processes", "everything that an agent starts can be found and ended")
        }
        (Ok(_), false) => Finding::broken(
            "processes",
            "/proc cannot be read: what an agent starts cannot be found",
            "mount /proc; in a container, give it one of its own",
        ),
        (Err(error), _) => Finding::broken(
            "processes",
            format!(
                "this kernel has no subreaper ({error}): what an agent starts can escape its end"
            ),
            "use Linux 3.4 or newer",
        ),
    }
}

pub(super) fn check_sandbox_support(config: &Config, support: &SandboxSupport) -> Finding {
    let wanted =
        std::iter::once(&config.sandbox).chain(config.agents.values().map(|agent| &agent.sandbox));
    let wanted = wanted.into_iter().any(|sandbox| sandbox.mode == Some(SandboxMode::Landlock));
    match support {
        SandboxSupport::Landlock { abi } => {
            Finding::ok("sandbox", format!("Landlock, version {abi}: agents can be confined"))
        }
        SandboxSupport::None(why) if wanted => Finding::broken(
            "sandbox",
            format!("the settings ask for it, and {why}: no session of these agents starts"),
            "use Linux 6.2 or newer with Landlock enabled (lsm=landlock,…), or set sandbox.mode = \"off\"",
        ),
        SandboxSupport::None(why) => {
            Finding::note("sandbox", format!("agents cannot be confined here: {why}"))
        }
    }
}

/// Checks the limit of open files. `most` is the hard limit, up to which the host raises its own;
/// `None` means unlimited.
pub(super) fn check_open_file_limit(config: &Config, most: Option<u64>) -> Finding {
    let limits = &config.limits;
    let wanted = limits
        .connections
        .saturating_add(limits.sessions.saturating_mul(FILES_PER_SESSION)) as u64;
    let Some(most) = most else { return Finding::ok("files", "any number of files may be open") };
    let says = format!("{most} files may be open at once");
    let advice = format!(
        "raise the hard limit before the host starts: LimitNOFILE={wanted}, or /etc/security/limits.conf"
    );
    match most {
        _ if most >= wanted => Finding::ok("files", says),
        MIN_OPEN_FILES.. => Finding {
            advice: Some(advice),
            ..Finding::note(
                "files",
                format!("{says}; all that `limits` allows would take {wanted}"),
            )
        },
        _ => Finding::warning("files", format!("{says}, which is soon used up"), advice),
    }
}
