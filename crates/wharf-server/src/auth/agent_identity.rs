//! An agent as a caller (rule 10.1): it sees its own session and the sessions that it started.
//!
//! Deny by default: this file lists the routes that agents may use, and each use case checks what
//! an agent may do there.

use axum::http::Method;
use wharf_host::AgentToken;
use wharf_host::core::SessionId;

use super::identity::{Access, Identity};
use super::scope::Scope;

impl Identity {
    /// Returns the identity of an agent, whatever else it shows. It is an observer; use cases that
    /// delegation allows to agents check that themselves.
    pub(crate) fn for_agent(badge: AgentToken) -> Self {
        let token = Some(badge.session().as_str().into());
        Self {
            token,
            access: Access::Observer,
            scope: Scope::Session(badge),
        }
    }

    /// Returns the session of the agent that calls, if an agent calls.
    pub(crate) fn agent_session(&self) -> Option<&SessionId> {
        match &self.scope {
            Scope::Session(badge) => Some(badge.session()),
            Scope::Host | Scope::Workspace(_) => None,
        }
    }

    /// Returns true if the caller may use this route at all.
    pub(crate) fn may_reach(&self, method: &Method, path: &str) -> bool {
        self.agent_session().is_none() || is_for_agents(method, path)
    }
}

fn is_for_agents(method: &Method, path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let method = method.as_str();
    let parts = parts.as_slice();
    let speaks = matches!(parts, ["acp" | "mcp"] | ["mcp", "stdio"]);
    let looks = matches!(
        (method, parts),
        ("GET" | "HEAD", ["sessions", ..] | ["search"] | ["adapters"] | ["openapi.json"])
    );
    let starts = matches!((method, parts), ("POST", ["sessions", "agent"]));
    let works = matches!(
        (method, parts),
        ("POST", ["sessions", _, "prompt" | "interrupt" | "kill"] | ["sessions", _, "asks", _])
    );
    speaks || looks || starts || works
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlisted_routes_are_not_for_agents() {
        for (method, path) in [
            (Method::GET, "/sessions"),
            (Method::GET, "/sessions/sess_1/stream"),
            (Method::GET, "/search"),
            (Method::POST, "/mcp"),
            (Method::GET, "/mcp/stdio"),
            (Method::CONNECT, "/acp"),
            (Method::POST, "/sessions/agent"),
            (Method::POST, "/sessions/sess_1/asks/7"),
        ] {
            assert!(is_for_agents(&method, path), "{method} {path}");
        }
        for (method, path) in [
            (Method::GET, "/host"),
            (Method::GET, "/metrics"),
            (Method::GET, "/debug/sessions"),
            (Method::GET, "/workspaces"),
            (Method::POST, "/stop"),
            (Method::DELETE, "/sessions/sess_1"),
            (Method::POST, "/sessions/sess_1/resume"),
            (Method::PATCH, "/sessions/sess_1/queue/prm_1"),
            (Method::POST, "/search"),
            (Method::GET, "/"),
            (Method::GET, "//sessions"),
            (Method::POST, "/mcp/other"),
        ] {
            assert!(!is_for_agents(&method, path), "{method} {path}");
        }
    }
}
