//! The end of the agent and of everything below the keeper, told through a pipe that can be polled.

use std::io::{PipeReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::WaitOptions;

/// The first byte of each message; the wait status of the agent follows the first kind.
const EXITED: u8 = b'e';
const NONE_LEFT: u8 = b'n';

pub(super) enum ChildEvent {
    AgentExited(ExitStatus),
    /// Every child has ended, and none can come any more.
    NoneLeft,
}

#[derive(Debug)]
pub(super) struct ChildEvents(PipeReader);

impl ChildEvents {
    /// Waits in a thread of its own for every child there is or will be: ours and those that the
    /// subreaper inherits.
    pub(super) fn follow(agent: u32) -> std::io::Result<Self> {
        let (reader, mut writer) = std::io::pipe()?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        std::thread::Builder::new().stack_size(64 << 10).spawn(move || {
            loop {
                match rustix::process::wait(WaitOptions::empty()) {
                    Ok(Some((pid, status)))
                        if pid.as_raw_nonzero().get().unsigned_abs() == agent =>
                    {
                        let mut message = vec![EXITED];
                        message.extend_from_slice(&status.as_raw().to_le_bytes());
                        let _ = writer.write_all(&message);
                    }
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(_) => {
                        let _ = writer.write_all(&[NONE_LEFT]);
                        return;
                    }
                }
            }
        })?;
        Ok(Self(reader))
    }

    /// Takes the events that have come.
    pub(super) fn take(&mut self) -> Vec<ChildEvent> {
        let mut events = Vec::new();
        let mut kind = [0];
        while self.0.read_exact(&mut kind).is_ok() {
            let mut status = [0; 4];
            // A message is one write of a few bytes, which is never cut.
            if kind[0] == EXITED && self.0.read_exact(&mut status).is_ok() {
                events.push(ChildEvent::AgentExited(ExitStatus::from_raw(i32::from_le_bytes(
                    status,
                ))));
            } else if kind[0] == NONE_LEFT {
                events.push(ChildEvent::NoneLeft);
            }
        }
        events
    }
}

impl AsFd for ChildEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
