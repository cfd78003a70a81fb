//! The files of a host's user, read and checked: the settings, the adapters (which agents there are
//! and how each is started) and the workspaces (directories with a name).
//!
//! It is *not* the host: it starts no program, and knows no session, log or runtime. It reads no
//! clock either; callers say the time.
//!
//! Invariant: a file that a person wrote and that cannot be understood is reported with its place,
//! and never overwritten.
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests read what they wrote themselves")
)]

mod adapters;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod path_template;
mod private_file;
mod settings;
mod workspaces;

pub use adapters::{
    AdapterError, AdapterInfo, AdapterSource, Adapters, ImportError, ImportReport, KnownAgent,
    Launchable, ManifestError, ModeInfo, OptionInfo, UsageReport, VersionCheck, import_registry,
    is_always_passed,
};
pub use path_template::PathVariables;
pub use private_file::write_private;
pub use settings::{
    AgentCommand, AllowedAdapters, AmuxSettings, Auth, CONFIG_KEYS, Cap, ChangeEffect, Children,
    Config, ConfigError, ConfigKey, ConfigSources, DEFAULT_LISTEN, Delegation, Duration, FileStamp,
    FormAnswerersWord, KeeperScope, KeeperSettings, KeptPort, LayeredSettings, Limits, LogFormat,
    NO_DEFAULT, NotifyContent, NotifyKind, NotifySettings, OnRestartWord, PublicUrl, QueueBy,
    ReloadReport, ReloadState, Reloaded, ReplayTurns, ResumeOnStart, RetentionSettings,
    SandboxMode, SandboxSettings, ServeTools, SessionSettings, Setting, SettingOrigin,
    SettingValueKind, Size, TlsSettings, TurnSettings, WEBHOOK_SECRET_VARIABLE, WaitingSetting,
    WebhookUrl, WorkspaceRetention, own_variables, parse_value, unknown_key,
};
pub use workspaces::{
    BadSlug, DirectoryScope, MAX_LABEL_BYTES, Slug, SpawnLocation, Workspace, WorkspaceError,
    WorkspaceList, Workspaces, explain_unfit_directory,
};
