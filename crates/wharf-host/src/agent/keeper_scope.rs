//! Scopes of systemd for keepers. A service's control group is what systemd ends, limits and counts; a keeper in a scope of its
//! own has no part in that of the host.

use crate::config::KeeperScope;

/// Returns the command that starts a keeper in a scope of its own; empty for a keeper without one.
pub(super) const fn scope_command(scope: KeeperScope) -> &'static [&'static str] {
    match scope {
        KeeperScope::None => &[],
        KeeperScope::User => &["systemd-run", "--user", "--scope", "--quiet", "--collect", "--"],
        KeeperScope::System => &["systemd-run", "--scope", "--quiet", "--collect", "--"],
    }
}
