//! `wharf __confine`: gives up rights, then becomes the command.

use std::ffi::OsString;
use std::process::ExitCode;

use super::Profile;

pub(super) const VERB: &str = "__confine";

/// What this system can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    Landlock {
        /// The kernel's version of it.
        abi: i32,
    },
    /// And why.
    None(String),
}

/// Runs the verb; `args` are those after it. Returns only if it failed: with 126, and the reason on stderr, where the
/// host finds it.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let profile: Option<Profile> = args.next().and_then(|text| serde_json::from_str(text.to_str()?).ok());
    let command: Vec<OsString> = args.skip_while(|arg| arg == "--").collect();
    let why = match (profile, command.split_first()) {
        (Some(profile), Some((program, args))) => match system::apply(&profile) {
            Ok(()) => become_command(program, args),
            Err(why) => format!("the sandbox could not be set up: {why}"),
        },
        _ => "the sandbox was not told what to run".to_owned(),
    };
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{why}\n").as_bytes());
    ExitCode::from(126)
}

#[expect(clippy::disallowed_methods, reason = "it starts no process, it becomes one that the shim has started")]
fn become_command(program: &OsString, args: &[OsString]) -> String {
    use std::os::unix::process::CommandExt;
    let error = std::process::Command::new(program).args(args).exec();
    format!("cannot run `{}`: {error}; is it installed and on the PATH?", program.display())
}

/// What this system can do, asked once.
pub fn support() -> Support {
    static SUPPORT: std::sync::OnceLock<Support> = std::sync::OnceLock::new();
    SUPPORT.get_or_init(system::support).clone()
}

#[cfg(target_os = "linux")]
mod system {
    use std::path::Path;

    use landlock::{
        ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
        path_beneath_rules,
    };

    use super::super::paths::all_but;
    use super::{Profile, Support};

    /// Without this version nothing is confined; what later ones add (truncating, ioctl on devices) is used where it is.
    const LEAST: ABI = ABI::V1;
    const BEST: ABI = ABI::V6;

    pub(super) fn support() -> Support {
        let known = [ABI::V6, ABI::V5, ABI::V4, ABI::V3, ABI::V2, ABI::V1];
        match known.into_iter().find(|abi| offers(*abi)) {
            Some(abi) => Support::Landlock { abi: abi as i32 },
            None => Support::None("this kernel has no Landlock, or it is not enabled".to_owned()),
        }
    }

    /// Making a set of rules tells; nothing is enforced by it.
    fn offers(abi: ABI) -> bool {
        let strict = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        strict.handle_access(AccessFs::from_all(abi)).and_then(Ruleset::create).is_ok()
    }

    pub(super) fn apply(profile: &Profile) -> Result<(), String> {
        let (read, all) = (AccessFs::from_read(BEST), AccessFs::from_all(BEST));
        let readable = all_but(Path::new("/"), &profile.hidden);
        let enforce = || {
            Ruleset::default()
                .set_compatibility(CompatLevel::HardRequirement)
                .handle_access(AccessFs::from_all(LEAST))?
                .set_compatibility(CompatLevel::BestEffort)
                .handle_access(all)?
                .create()?
                .add_rules(path_beneath_rules(&readable, read))?
                .add_rules(path_beneath_rules(&profile.write, all))?
                .restrict_self()
        };
        let status = enforce().map_err(|error| error.to_string())?;
        match status.ruleset {
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
            RulesetStatus::NotEnforced => Err("the kernel did not enforce it".to_owned()),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{Profile, Support};

    pub(super) fn support() -> Support {
        Support::None("there is none for this system yet".to_owned())
    }

    pub(super) fn apply(_profile: &Profile) -> Result<(), String> {
        Err("there is none for this system yet".to_owned())
    }
}
