//! `wharf __confine`: gives up rights, then runs the command in its own process.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;

use super::SandboxProfile;
use crate::agent::agent_token;
use crate::agent::process_table::TAG_VARIABLE;

pub(super) const CONFINE_VERB: &str = "__confine";
/// The prefix of variables that are meant for the command. Some (`LD_PRELOAD`) run code in every
/// program that they reach, and an agent chooses those of its terminals: they must not reach a
/// program that is not confined yet.
pub(crate) const CARRIED_PREFIX: &str = "WHARF_CONFINED_";
/// Exit codes as shells use them: the command cannot be run, and it does not exist.
const CANNOT_RUN_CODE: u8 = 126;
const NOT_FOUND_CODE: u8 = 127;

/// The system's support for sandboxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandboxSupport {
    Landlock {
        /// The kernel's version of it.
        abi: i32,
    },
    /// Sandboxes are not available; says why.
    None(String),
}

/// Runs the verb; `args` are those after it. Returns only if it failed, with the reason on stderr,
/// where the host finds it.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let profile: Option<SandboxProfile> = args
        .next()
        .and_then(|text| wharf_json::read_own(text.to_str()?.as_bytes()).ok());
    let command: Vec<OsString> = args.skip_while(|arg| arg == "--").collect();
    let (why, code) = match (profile, command.split_first()) {
        (Some(profile), Some((program, args))) => match system::apply(&profile) {
            Ok(()) => become_command(program, args),
            Err(why) => (format!("the sandbox could not be set up: {why}"), CANNOT_RUN_CODE),
        },
        _ => ("the sandbox got no command to run".to_owned(), CANNOT_RUN_CODE),
    };
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{why}\n").as_bytes());
    ExitCode::from(code)
}

#[expect(
    clippy::disallowed_methods,
    reason = "it starts no process, it becomes one that the keeper has started"
)]
fn become_command(program: &OsString, args: &[OsString]) -> (String, u8) {
    use std::os::unix::process::CommandExt;
    let mut command = std::process::Command::new(program);
    command.args(args);
    for (carried, value) in std::env::vars_os() {
        if let Some(name) = carried.as_bytes().strip_prefix(CARRIED_PREFIX.as_bytes()) {
            command.env_remove(&carried);
            // The host recognises its processes by these variables, so only the host sets them.
            if ![TAG_VARIABLE, agent_token::SESSION_VARIABLE, agent_token::TOKEN_VARIABLE]
                .iter()
                .any(|own| own.as_bytes() == name)
            {
                command.env(OsString::from_vec(name.to_vec()), value);
            }
        }
    }
    let error = command.exec();
    let code =
        if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND_CODE } else { CANNOT_RUN_CODE };
    (format!("cannot run `{}`: {error}; is it installed and on the PATH?", program.display()), code)
}

/// Returns the system's support for sandboxes. The kernel is asked once.
pub fn detect_support() -> SandboxSupport {
    static DETECTED_SUPPORT: std::sync::OnceLock<SandboxSupport> = std::sync::OnceLock::new();
    let ask =
        || match judge_support(system::abi(), std::env::var_os("WHARF_WITHOUT_LANDLOCK").is_some())
        {
            SandboxSupport::Landlock { abi } => match system::check_filter() {
                Ok(()) => SandboxSupport::Landlock { abi },
                Err(why) => SandboxSupport::None(why),
            },
            none @ SandboxSupport::None(_) => none,
        };
    DETECTED_SUPPORT.get_or_init(ask).clone()
}

/// Without this version a confined process could empty every file that it can read (`truncate`).
pub(super) const MIN_LANDLOCK_ABI: i32 = 3;

/// Judges the kernel's Landlock version. `pretend` acts as on a kernel without Landlock, so that
/// the refusal can be tested anywhere.
pub(super) fn judge_support(abi: i32, pretend: bool) -> SandboxSupport {
    match abi {
        _ if pretend => SandboxSupport::None("WHARF_WITHOUT_LANDLOCK is set".to_owned()),
        ..=0 => SandboxSupport::None(system::NO_LANDLOCK_REASON.to_owned()),
        1..MIN_LANDLOCK_ABI => SandboxSupport::None(format!(
            "this kernel has version {abi} of Landlock, which lets files be emptied; it takes Linux 6.2 or newer"
        )),
        MIN_LANDLOCK_ABI.. => SandboxSupport::Landlock { abi },
    }
}

mod system {
    use std::os::fd::{AsFd, AsRawFd};
    use std::path::{Path, PathBuf};

    use landlock::{
        ABI, Access, AccessFs, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
        Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
    };

    use super::super::paths::list_all_but;
    use super::super::seccomp;
    use super::SandboxProfile;

    pub(super) const NO_LANDLOCK_REASON: &str =
        "this kernel has no Landlock, or it is not enabled (it is a part of `lsm=`)";
    /// The version that must be there. Additions of later versions (devices, signals) are used if
    /// the kernel has them.
    const MIN_LANDLOCK_ABI: ABI = ABI::V3;
    const BEST_ABI: ABI = ABI::V6;

    /// Returns the kernel's version of Landlock. The library reports it only to a confined thread,
    /// so a thread is confined and ends.
    pub(super) fn abi() -> i32 {
        let confined = || {
            let rules = Ruleset::default().handle_access(AccessFs::MakeBlock)?.create()?;
            rules.restrict_self().map(|status| status.landlock)
        };
        match std::thread::spawn(confined).join() {
            Ok(Ok(LandlockStatus::Available { effective_abi, kernel_abi })) => {
                kernel_abi.unwrap_or(effective_abi as i32)
            }
            Ok(Ok(LandlockStatus::NotEnabled | LandlockStatus::NotImplemented) | Err(_))
            | Err(_) => 0,
        }
    }

    /// Whether the kernel takes the filter on system calls. A thread can be under it alone, and
    /// then it ends.
    pub(super) fn check_filter() -> Result<(), String> {
        std::thread::spawn(seccomp::apply)
            .join()
            .unwrap_or_else(|_| Err("the filter cannot be tried".to_owned()))
    }

    pub(super) fn apply(profile: &SandboxProfile) -> Result<(), String> {
        restrict_files(profile)?;
        seccomp::apply()
    }

    fn restrict_files(profile: &SandboxProfile) -> Result<(), String> {
        let read = AccessFs::from_read(BEST_ABI);
        let all = AccessFs::from_all(BEST_ABI);
        let readable = list_all_but(Path::new("/"), &profile.hidden);
        let write = profile.write.iter().filter_map(|path| open_writable(path).transpose());
        let write: Vec<PathFd> = write.collect::<Result<_, _>>()?;
        let files = AccessFs::from_file(BEST_ABI);
        let write = write.into_iter().map(|fd| {
            let access = if is_directory(&fd) { all } else { files };
            Ok::<_, landlock::RulesetError>(PathBeneath::new(fd, access))
        });
        let enforce = || {
            Ruleset::default()
                .set_compatibility(CompatLevel::HardRequirement)
                .handle_access(AccessFs::from_all(MIN_LANDLOCK_ABI))?
                .set_compatibility(CompatLevel::BestEffort)
                .handle_access(all)?
                .scope(Scope::from_all(BEST_ABI))?
                .create()?
                .add_rules(path_beneath_rules(&readable, read))?
                .add_rules(path_beneath_rules(&profile.read, read))?
                .add_rules(write)?
                .restrict_self()
        };
        let status = enforce().map_err(|error| error.to_string())?;
        match status.ruleset {
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
            RulesetStatus::NotEnforced => Err("the kernel did not enforce it".to_owned()),
        }
    }

    /// Opens a writable path. It must still be where it was found: another agent could have put a
    /// link there.
    fn open_writable(path: &PathBuf) -> Result<Option<PathFd>, String> {
        let Ok(fd) = PathFd::new(path) else { return Ok(None) };
        let real = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()));
        match real {
            Ok(real) if real == *path => Ok(Some(fd)),
            Ok(real) => Err(format!("{} was replaced by {}", path.display(), real.display())),
            Err(error) => Err(format!("cannot tell what {} is: {error}", path.display())),
        }
    }

    fn is_directory(fd: &PathFd) -> bool {
        rustix::fs::fstat(fd)
            .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir())
    }
}
