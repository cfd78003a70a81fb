//! Tells the next host from a process of an agent. All of them run as the same user, and nothing
//! stops an agent from calling.

use std::os::unix::net::UnixStream;

use super::super::process_table;
use super::protocol::{HELLO, PROTOCOL_VERSION};

/// Why a caller is refused before it has said anything.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CallerRefusal {
    OtherUser,
    /// It is below a keeper: an agent, or something that an agent has started.
    Agent,
}

/// Checks that a caller may be a host: of this user, and below no keeper.
pub(super) fn check_process(caller: &UnixStream, pid: u32) -> Result<(), CallerRefusal> {
    let uid = rustix::net::sockopt::socket_peercred(caller)
        .map_err(|_| CallerRefusal::OtherUser)?
        .uid;
    if uid != rustix::process::geteuid() {
        return Err(CallerRefusal::OtherUser);
    }
    if is_below_keeper(pid) { Err(CallerRefusal::Agent) } else { Ok(()) }
}

/// Checks the first line of a caller: only a host knows the secret.
pub(super) fn check_hello(line: &[u8], secret: &str) -> bool {
    let expected = format!("{HELLO} {PROTOCOL_VERSION} {secret}");
    // Constant time: the answer's delay must not tell how much of a guess is right.
    blake3::hash(line) == blake3::hash(expected.as_bytes())
}

/// Returns true if one of the processes above is a keeper. A process that is gone counts as an
/// agent's: an agent could call through a child that ends at once.
fn is_below_keeper(pid: u32) -> bool {
    let above = process_table::process_and_ancestors(pid);
    process_table::is_gone(pid) || above.iter().any(|pid| process_table::is_keeper(*pid))
}
