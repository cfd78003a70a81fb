//! Malformed output, as some agents send it.

use wharf_demo::turn::{Stop, Turn};
use wharf_demo::wire;

use super::script::number;

/// The number of bytes per write where the output is large.
const BLOCK: usize = 64 * 1024;

/// Runs the command if it is one of this module. Returns `None` otherwise.
pub(super) fn command(turn: &mut Turn, name: &str, rest: &str) -> Option<Result<(), Stop>> {
    Some(match name {
        "malformed" => turn.send_bytes(b"this is not JSON\n"),
        "binary" => turn.send_bytes(b"\xff\xfe\x00\x80{\"jsonrpc\":\xc3\x28}\x01\n"),
        "flood" => flood(turn, number(rest, 0, 1000)),
        "oversized" => oversized(turn, number(rest, 0, 64 << 20)),
        "noline" => fill(turn, number(rest, 0, 1 << 20)),
        "foreign" => turn.send(&wire::update("nobody-knows", &wire::chunk("agent_message_chunk", "foreign", "lost"))),
        "rawupdate" => turn.send_bytes(
            format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"{}\",\"update\":{rest}}}}}\n",
                turn.session
            )
            .as_bytes(),
        ),
        "raw" => turn.send_bytes(format!("{}\n", rest.replace("$SESSION", &turn.session)).as_bytes()),
        "rawfile" => match std::fs::read_to_string(rest.trim()) {
            Ok(lines) => turn.send_bytes(lines.replace("$SESSION", &turn.session).as_bytes()),
            Err(error) => Err(Stop::Refused(wire::fault(wire::INVALID_PARAMS, format!("{rest}: {error}")))),
        },
        _ => return None,
    })
}

fn flood(turn: &mut Turn, count: u64) -> Result<(), Stop> {
    let mut block = Vec::with_capacity(BLOCK + 64);
    for index in 0..count {
        block.extend_from_slice(format!("{{ malformed line {index}\n").as_bytes());
        if block.len() >= BLOCK || index + 1 == count {
            turn.check()?;
            turn.send_bytes(&block)?;
            block.clear();
        }
    }
    Ok(())
}

/// Writes a well-formed update of this many bytes in one line, the line break not counted.
fn oversized(turn: &mut Turn, bytes: usize) -> Result<(), Stop> {
    let update = wire::update(&turn.session, &wire::chunk("agent_message_chunk", "oversized", "@")).to_string();
    let (head, tail) = update.split_once('@').unwrap_or((&update, ""));
    turn.send_bytes(head.as_bytes())?;
    fill(turn, (bytes + 1).saturating_sub(update.len()))?;
    turn.send_bytes(format!("{tail}\n").as_bytes())
}

fn fill(turn: &mut Turn, bytes: usize) -> Result<(), Stop> {
    let block = vec![b'z'; BLOCK];
    let mut left = bytes;
    while left > 0 {
        let part = &block[..left.min(BLOCK)];
        turn.check()?;
        turn.send_bytes(part)?;
        left -= part.len();
    }
    Ok(())
}
