//! A session for a caller that speaks no ACP: Wharf writes the `session/new` itself.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use wharf_core::{Raw, Sender};

use super::{CreateError, Host, NewSessionRequest};
use crate::session::handle::SessionHandle;

/// What AIP-46 calls `SpawnAgentRequest`, with Wharf's own fields besides.
#[derive(Debug, Default)]
pub struct SpawnRequest {
    pub adapter: String,
    pub workspace: Option<String>,
    /// Wins over `workspace`.
    pub cwd: Option<PathBuf>,
    pub label: Option<String>,
    /// A mode and options of the adapter's manifest.
    pub mode: Option<String>,
    pub options: BTreeMap<String, Value>,
    /// Variables of the caller; those that the adapter or the configuration names are passed on.
    pub env: BTreeMap<String, String>,
    pub mcp_servers: Vec<Value>,
    pub additional_directories: Vec<PathBuf>,
    pub sender: Option<Sender>,
    /// A repeated request with the same key (of the same token) is the same session.
    pub key: Option<String>,
    /// May the caller name any directory, or only those inside a registered workspace (rule 8.6)?
    pub anywhere: bool,
}

/// A session that exists; its agent may still be starting ([`SessionHandle::up`] waits for it).
#[derive(Debug)]
pub struct Spawned {
    pub handle: SessionHandle,
    pub warnings: Vec<String>,
    /// The key was known: this is the session of an earlier request.
    pub duplicate: bool,
}

impl Host {
    /// Creates a session and returns as soon as it is in its log.
    pub async fn spawn(&self, request: SpawnRequest) -> Result<Spawned, CreateError> {
        let cwd = match request.cwd {
            Some(cwd) => cwd,
            None => std::env::current_dir().map_err(|error| CreateError::Storage(error.to_string()))?,
        };
        let params = json!({
            "cwd": cwd, "mcpServers": request.mcp_servers, "additionalDirectories": request.additional_directories,
        });
        let frame = json!({ "jsonrpc": "2.0", "id": 0, "method": "session/new", "params": params });
        let frame = Raw::new(frame.to_string()).ok_or_else(|| CreateError::Cwd { path: cwd.clone() })?;
        let serves = self.config().serve_tools;
        let capabilities =
            json!({ "fs": { "readTextFile": serves, "writeTextFile": serves }, "terminal": serves }).to_string();
        let handle = self.begin_session(NewSessionRequest {
            adapter: request.adapter,
            cwd,
            label: request.label,
            name: None,
            sender: request.sender,
            frame,
            capabilities,
            spare: None,
            prelude: Vec::new(),
        })?;
        Ok(Spawned { handle: handle.0, warnings: Vec::new(), duplicate: false })
    }
}
