//! The JSON that `--json` of each verb prints.

use wharf_api::{
    AdapterList, AgentLogPage, AskOverview, ChangedFileList, HostInfo, HostSetting,
    HostSettingList, LoginCode, NotifyTest, OutputLines, Prompted, QueueList, ReloadReceipt,
    SearchPage, SessionInfo, SessionPage, SessionSettingsInfo, TurnDetail, UsagePage,
    WorkspaceRegistry,
};

use super::schemas::{NamedSchema, schema_of};

/// The shape of a verb's JSON.
pub(super) enum JsonShape {
    /// A type of the contract, and a note.
    Type(NamedSchema, &'static str),
    /// In words.
    Text(&'static str),
}

/// Returns the JSON of a verb that has `--json`.
pub(super) fn json_shape(verb: &str) -> JsonShape {
    use JsonShape::{Text, Type};
    match verb {
        "sessions" => Type(
            schema_of::<SessionPage>(),
            "with fields (`--json id,title`) each session has only these, and null for those that it lacks; with \
             `--watch` one session per line, and `{\"id\"}` for a forgotten one",
        ),
        "show" | "resume" | "rename" | "label" | "archive" | "fork" => {
            Type(schema_of::<SessionInfo>(), "")
        }
        "run" => Type(
            schema_of::<TurnDetail>(),
            "besides `stderr` and `session`, the session as `wharf show` has it",
        ),
        "prompt" => Type(schema_of::<Prompted>(), "with `--wait` the object of `wharf run --json`"),
        "output" => Type(
            schema_of::<OutputLines>(),
            "with `--style lines`; otherwise `{\"fold\", \"session\", \"rows\"}` with rows as in \
             [REST](protocol/rest.md#the-transcript), and with `-f` one row per line",
        ),
        "logs" => Type(
            schema_of::<AgentLogPage>(),
            "of the host's own log `{\"lines\": […]}`; with `-f` one line of the log per line",
        ),
        "search" => Type(schema_of::<SearchPage>(), ""),
        "usage" => {
            Type(schema_of::<UsagePage>(), "with ID `{\"id\", \"usage\", \"context\", \"turns\"}`")
        }
        "changes" => Type(schema_of::<ChangedFileList>(), ""),
        "asks" => Type(schema_of::<AskOverview>(), ""),
        "queue" | "queue list" => Type(schema_of::<QueueList>(), ""),
        "set" => Type(schema_of::<SessionSettingsInfo>(), ""),
        "workspace list" => Type(schema_of::<WorkspaceRegistry>(), ""),
        "agents" => Type(schema_of::<AdapterList>(), ""),
        "status" => Type(
            schema_of::<HostInfo>(),
            "besides `running`, `socket` and `stateDir`; `{\"running\": false, \"stateDir\"}` if no host runs",
        ),
        "reload" => Type(schema_of::<ReloadReceipt>(), ""),
        "config list" => Type(
            schema_of::<HostSettingList>(),
            "besides `running` and `staleVariables`; a setting that would be another one in a host started here has `here`",
        ),
        "config get" => Type(schema_of::<HostSetting>(), ""),
        "service status" => {
            Text("`{\"name\", \"installed\", \"ours\", \"running\", \"file\", \"facts\"}`")
        }
        "context list" => Text(
            "`[{\"name\", \"current\", \"url\", \"token\", \"ca\", \"insecurePlainHttp\"}]`; `token` says where it is",
        ),
        "context show" => Text(
            "as in `context list`; without a name `{\"url\", \"chosenBy\", \"token\", \"ca\"}`, or `{\"name\": \"local\", \"stateDir\"}`",
        ),
        "doctor" => {
            Text("`{\"usable\", \"findings\": [{\"check\", \"level\", \"says\", \"advice\"}]}`")
        }
        "serve" => Text(
            "`{\"event\": \"listening\", \"url\", \"socket\", \"tokenFile\"}`, one line once it listens",
        ),
        "token create" => Text(
            "`{\"id\", \"role\", \"token\", \"label\"?, \"workspace\"?, \"expiresAt\"?, \"expired\"?}`",
        ),
        "token list" => Text(
            "`[{\"id\", \"role\", \"createdAt\", \"label\"?, \"workspace\"?, \"expiresAt\"?, \"expired\"?, \"loginOf\"?}]`",
        ),
        "notify test" => Type(schema_of::<NotifyTest>(), ""),
        "web" => Text("`{\"url\", \"code\", \"goodForSeconds\"}`"),
        "token code" => Type(schema_of::<LoginCode>(), ""),
        other => {
            panic!("add the JSON of `wharf {other}` to json_shape in src/reference/json_shapes.rs")
        }
    }
}
