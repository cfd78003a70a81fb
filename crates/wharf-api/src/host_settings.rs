//! The settings of the host: their values, where each comes from, and what a reload changed.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

words! {
    /// Where a setting comes from. A later one counts before an earlier one.
    pub enum SettingSource as "SettingSource" {
        Default = "default",
        /// `config.toml`.
        File = "file",
        Environment = "environment",
        /// A flag of `wharf serve`.
        Flag = "flag",
    }
}

words! {
    /// When a change of a setting counts in a host that runs.
    pub enum SettingEffect as "SettingEffect" {
        /// For the next thing that asks for it.
        Now = "now",
        /// For sessions that are started, or loaded again, afterwards.
        NewSessions = "new sessions",
        /// Once the host is started again.
        Restart = "restart",
    }
}

/// One setting of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = HostSetting)]
pub struct HostSetting {
    /// The key, dotted, as in `config.toml`.
    pub key: String,
    /// The value that is in force, as TOML. Absent if there is none; `(set)` for one that may be a
    /// secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub value: Option<String>,
    pub source: SettingSource,
    /// The variable or flag that set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub set_by: Option<String>,
    /// The variable that sets it, or the table that it is in.
    pub variable: String,
    pub effect: SettingEffect,
    /// Absent if no change waits. Else the value that counts after a restart: empty if that is the
    /// default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub waiting: Option<String>,
}

/// All settings of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = HostSettings)]
pub struct HostSettingList {
    #[serde(flatten)]
    pub state: SettingsState,
    /// Every key, and those below names that the user chose.
    pub settings: Vec<HostSetting>,
}

/// The configuration file as the host sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SettingsState)]
pub struct SettingsState {
    /// Where it is or would be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub file: Option<String>,
    /// The keys whose change waits for a restart.
    #[serde(default)]
    pub waiting: Vec<String>,
    /// Why the file as it is now cannot be used. The settings that were read before stay in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub fault: Option<String>,
}

/// The outcome of a reload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Reloaded)]
pub struct ReloadReceipt {
    /// The keys that have a new value.
    pub changed: Vec<String>,
    /// The keys whose change waits for a restart.
    pub waiting: Vec<String>,
}
