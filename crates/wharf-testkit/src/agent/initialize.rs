//! The larger answers of the scripted agent.

use serde_json::{Value, json};

use super::flags::Flags;

/// Returns the answer to `initialize`: the agent's name and capabilities.
pub(super) fn initialize_answer(flags: &Flags, client: &Value) -> Value {
    let mut capable = json!({
        "loadSession": !flags.no_load,
        "promptCapabilities": { "image": true, "audio": true, "embeddedContext": true },
        "sessionCapabilities": {},
    });
    let offered = [
        ("resume", flags.resume),
        ("close", flags.close),
        ("delete", flags.delete),
        ("fork", flags.fork),
        ("promptQueueing", flags.native_queue),
        ("ready", flags.ready),
    ];
    for (name, _) in offered.iter().filter(|(_, has)| *has) {
        capable["sessionCapabilities"][name] = json!({});
    }
    if flags.native_queue {
        capable["_meta"] = json!({ "claudeCode": { "promptQueueing": true } });
    }
    let mut methods = Vec::new();
    if flags.auth {
        methods.push(json!({ "id": "token", "name": "Token" }));
    }
    if flags.terminal_auth && client["auth"]["terminal"] == true {
        let args = ["--exit-on-start", "7"];
        let env = json!({ "COLOR": "red" });
        methods.push(json!({ "id": "tty", "name": "Terminal", "type": "terminal", "args": args, "env": env }));
    }
    let mut result = json!({
        "protocolVersion": 1,
        "agentInfo": { "name": "wharf-scripted-agent", "version": env!("CARGO_PKG_VERSION") },
        "agentCapabilities": capable,
        "authMethods": methods,
        "_meta": { "scripted": { "pid": std::process::id() } },
    });
    if flags.ready {
        result["capabilities"] = json!({ "session": { "ready": true } });
    }
    result
}
