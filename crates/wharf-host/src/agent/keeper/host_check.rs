//! Tells the next host from a process of an agent. All of them run as the same user, and nothing stops an agent from calling.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::super::process_table;
use super::protocol::{HELLO, PROTOCOL_VERSION};

/// A host says its first line at once, unless the machine is very busy.
const HELLO_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_HELLO_BYTES: usize = 256;

/// Why a caller is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CallerRefusal {
    OtherUser,
    /// It is below a keeper: an agent, or something that an agent has started.
    Agent,
    WrongHello,
}

/// Checks that a caller is a host: of this user, below no keeper, and with the secret.
pub(super) fn check_caller(caller: &UnixStream, pid: u32, secret: &str) -> Result<(), CallerRefusal> {
    let uid = rustix::net::sockopt::socket_peercred(caller).map_err(|_| CallerRefusal::OtherUser)?.uid;
    if uid != rustix::process::geteuid() {
        return Err(CallerRefusal::OtherUser);
    }
    if is_below_keeper(pid) {
        return Err(CallerRefusal::Agent);
    }
    let expected = format!("{HELLO} {PROTOCOL_VERSION} {secret}");
    // Constant time: the answer's delay must not tell how much of a guess is right.
    let is_right = read_line(caller).is_some_and(|line| blake3::hash(&line) == blake3::hash(expected.as_bytes()));
    if is_right { Ok(()) } else { Err(CallerRefusal::WrongHello) }
}

/// Returns true if one of the processes above is a keeper. A process that is gone counts as an agent's: an agent could call
/// through a child that ends at once.
fn is_below_keeper(pid: u32) -> bool {
    let above = process_table::process_and_ancestors(pid);
    process_table::is_gone(pid) || above.iter().any(|pid| process_table::is_keeper(*pid))
}

fn read_line(mut caller: &UnixStream) -> Option<Vec<u8>> {
    let give_up_at = Instant::now() + HELLO_TIMEOUT;
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.len() < MAX_HELLO_BYTES {
        let left = give_up_at.saturating_duration_since(Instant::now());
        // No time left is refused as a timeout.
        caller.set_read_timeout(Some(left)).ok()?;
        caller.read_exact(&mut byte).ok()?;
        if byte[0] == b'\n' {
            caller.set_read_timeout(None).ok()?;
            return Some(line);
        }
        line.push(byte[0]);
    }
    None
}
