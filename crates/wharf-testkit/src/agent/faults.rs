//! Malformed output, as some agents send it.

use wharf_demo::turn::{RunningTurn, TurnStop};
use wharf_demo::wire;

use super::script::parse_number;

/// The number of bytes per write where the output is large.
const BLOCK_BYTES: usize = 64 * 1024;

/// Runs the command if it is one of this module. Returns `None` otherwise.
pub(super) fn run_command(
    turn: &mut RunningTurn,
    name: &str,
    rest: &str,
) -> Option<Result<(), TurnStop>> {
    Some(match name {
        "malformed" => turn.send_bytes(b"this is not JSON\n"),
        "binary" => turn.send_bytes(b"\xff\xfe\x00\x80{\"jsonrpc\":\xc3\x28}\x01\n"),
        "flood" => send_malformed_lines(turn, parse_number(rest, 0, 1000)),
        "oversized" => send_oversized_update(turn, parse_number(rest, 0, 64 << 20)),
        "noline" => send_filler(turn, parse_number(rest, 0, 1 << 20)),
        "foreign" => turn.send_message(&wire::update_frame("nobody-knows", &wire::chunk_update("agent_message_chunk", "foreign", "lost"))),
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
            Err(error) => Err(TurnStop::Refused(wire::error_object(wire::INVALID_PARAMS, format!("{rest}: {error}")))),
        },
        _ => return None,
    })
}

fn send_malformed_lines(turn: &mut RunningTurn, count: u64) -> Result<(), TurnStop> {
    let mut block = Vec::with_capacity(BLOCK_BYTES + 64);
    for index in 0..count {
        block.extend_from_slice(format!("{{ malformed line {index}\n").as_bytes());
        if block.len() >= BLOCK_BYTES || index + 1 == count {
            turn.check_stop()?;
            turn.send_bytes(&block)?;
            block.clear();
        }
    }
    Ok(())
}

/// Writes a well-formed update of this many bytes in one line, the line break not counted.
fn send_oversized_update(turn: &mut RunningTurn, bytes: usize) -> Result<(), TurnStop> {
    let update = wire::update_frame(
        &turn.session,
        &wire::chunk_update("agent_message_chunk", "oversized", "@"),
    )
    .to_string();
    let (head, tail) = update.split_once('@').unwrap_or((&update, ""));
    turn.send_bytes(head.as_bytes())?;
    send_filler(turn, (bytes + 1).saturating_sub(update.len()))?;
    turn.send_bytes(format!("{tail}\n").as_bytes())
}

fn send_filler(turn: &mut RunningTurn, bytes: usize) -> Result<(), TurnStop> {
    let block = vec![b'z'; BLOCK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let part = &block[..left.min(BLOCK_BYTES)];
        turn.check_stop()?;
        turn.send_bytes(part)?;
        left -= part.len();
    }
    Ok(())
}
