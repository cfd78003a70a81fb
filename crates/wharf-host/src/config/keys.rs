//! The known keys of `config.toml`: a misspelt key is an error instead of a setting that does nothing.

/// Every key, dotted; `*` stands for a name that the user chooses, and ends what is checked below it only if last.
const KNOWN_KEYS: &[&str] = &[
    "listen",
    "hosts",
    "tls.cert",
    "tls.key",
    "auth",
    "default_agent",
    "agents.*.command",
    "agents.*.env.*",
    "agents.*.replay_quiet",
    "agents.*.queue",
    "agents.*.sandbox.mode",
    "agents.*.sandbox.writable",
    "agents.*.sandbox.hidden",
    "agents.*.sandbox.readable",
    "adapters",
    "env_passthrough",
    "start_timeout",
    "start_retries",
    "cancel_timeout",
    "ask_timeout",
    "forms",
    "on_restart",
    "resume_on_start",
    "ready_timeout",
    "serve_tools",
    "redact_output",
    "session.idle_ttl",
    "amux.replay_turns",
    "turn.deadline",
    "turn.no_progress",
    "delegation.allow.*",
    "delegation.max_depth",
    "delegation.max_children",
    "delegation.answer",
    "delegation.children",
    "limits.frame",
    "limits.queue",
    "limits.asks",
    "limits.sessions",
    "limits.starts",
    "limits.spawns_per_minute",
    "limits.log",
    "limits.connections",
    "limits.failed_logins",
    "limits.connections_per_token",
    "limits.body",
    "limits.bodies",
    "limits.buffers",
    "limits.history",
    "limits.headers",
    "limits.silence",
    "limits.tail",
    "limits.tail_total",
    "sandbox.mode",
    "sandbox.writable",
    "sandbox.hidden",
    "sandbox.readable",
    "limits.session_memory",
    "limits.memory",
    "log_format",
    "log_level",
    "limits.reserve",
];

/// Refuses a table with a key that is not known.
pub(super) fn check_keys(table: &toml::Table) -> Result<(), String> {
    check_table(table, "")
}

fn check_table(table: &toml::Table, above: &str) -> Result<(), String> {
    for (key, value) in table {
        let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        if !KNOWN_KEYS.iter().any(|known| leads_to(known, &path)) {
            let hint =
                find_nearest(&path, KNOWN_KEYS).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
            return Err(format!("unknown key {path:?}{hint}"));
        }
        if let toml::Value::Table(inner) = value {
            check_table(inner, &path)?;
        }
    }
    Ok(())
}

/// Tells whether `path` is a known key or the beginning of one.
fn leads_to(known: &str, path: &str) -> bool {
    let mut known = known.split('.');
    path.split('.').all(|part| known.next().is_some_and(|word| word == "*" || word == part))
}

/// Returns the candidate that takes the fewest edits to reach, if at most a third of the word must change.
pub(crate) fn find_nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let best = candidates.iter().min_by_key(|candidate| strsim::levenshtein(word, candidate))?;
    (strsim::levenshtein(word, best) <= word.len().max(3) / 3).then_some(best)
}
