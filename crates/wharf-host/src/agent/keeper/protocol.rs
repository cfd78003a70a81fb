//! The messages between a host and a keeper: one line each, with open files where a line says so.
//!
//! A host says [`END`], [`KEEP`], [`DROP`] or [`FORGET`]; a host that takes the agent over says
//! [`HELLO`] first. A keeper says [`STARTED`], [`FAILED`], [`EXITED`], [`SIGNALLED`],
//! [`LACKED_HOST`], [`GONE`] and [`INTRUDER`]; it answers `HELLO` with [`KEEPER`], and then repeats
//! what still holds of the others, all of it in one message: the host decides on that. Words that
//! are not known are ignored, so that either side may be newer.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use super::super::kept_files::KeptFiles;

/// The major version. A host takes over keepers of its own version and of the one before; the name
/// of the sockets' directory has it too.
pub(crate) const PROTOCOL_VERSION: u32 = 1;

/// The host ends the tree.
pub(crate) const END: &str = "end";
/// The agent is to outlive the host from now on: a [`KeepOrder`].
pub(crate) const KEEP: &str = "keep";
/// The agent is not to outlive the host any more, and has no use for its stdin.
pub(crate) const DROP: &str = "drop";
/// The host has noted the agent's exit: the keeper can go.
pub(crate) const FORGET: &str = "forget";
/// The first word of a host that takes over: `hello VERSION SECRET`.
pub(crate) const HELLO: &str = "hello";

/// `keeper VERSION PROGRAM_VERSION ABSENT_MS`, with the files of the agent and one with the end of
/// its stderr.
pub(crate) const KEEPER: &str = "keeper";
/// The answer to a host that came while another one is there.
pub(crate) const BUSY: &str = "busy";
/// `started PID`: the agent runs.
pub(crate) const STARTED: &str = "started";
/// `failed WHY`: the agent could not be started.
pub(crate) const FAILED: &str = "failed";
/// `exited CODE`, `signalled NUMBER`: the agent has ended.
pub(crate) const EXITED: &str = "exited";
pub(crate) const SIGNALLED: &str = "signalled";
/// The keeper has ended the agent, or is about to, because no host came in time.
pub(crate) const LACKED_HOST: &str = "lacked-host";
/// The whole tree is gone.
pub(crate) const GONE: &str = "gone";
/// `intruder PID`: a process that is not a host has called the keeper, which refused it.
pub(crate) const INTRUDER: &str = "intruder";

/// The most files that come with one message.
const MAX_FILES: usize = KeptFiles::COUNT + 1;
/// The bytes that are read at once. A line has a path of at most 4,096 bytes and a few numbers.
const READ_BYTES: usize = 8 << 10;

/// How an agent outlives its host. Its files and the listening socket of the keeper come with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeepOrder {
    /// The next host proves with this that it may take over.
    pub(crate) secret: String,
    /// How long the agent may be without a host while it works on a turn.
    pub(crate) absence: Duration,
    /// The same while it is idle.
    pub(crate) idle_absence: Duration,
    /// The most output that is kept for the next host; more holds the agent back.
    pub(crate) max_spool_bytes: u64,
    /// Where the listening socket is; the keeper removes it at its end.
    pub(crate) socket: String,
}

impl KeepOrder {
    pub(crate) fn to_line(&self) -> String {
        let Self { secret, absence, idle_absence, max_spool_bytes, socket } = self;
        let absence = absence.as_millis();
        let idle = idle_absence.as_millis();
        format!("{KEEP} {secret} {absence} {idle} {max_spool_bytes} {socket}\n")
    }

    /// Reads the words behind [`KEEP`].
    pub(crate) fn parse(words: &str) -> Option<Self> {
        let mut words = words.splitn(5, ' ');
        let mut next = || words.next();
        let secret = next()?.to_owned();
        let mut duration = || Some(Duration::from_millis(next()?.parse().ok()?));
        let absence = duration()?;
        let idle_absence = duration()?;
        let max_spool_bytes = next()?.parse().ok()?;
        Some(Self {
            secret,
            absence,
            idle_absence,
            max_spool_bytes,
            socket: next()?.to_owned(),
        })
    }
}

/// Sends a line with open files.
pub(crate) fn send_with_files(
    socket: impl AsFd,
    line: &str,
    files: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::other("too many files for one message"));
    }
    let sent = rustix::net::sendmsg(
        socket,
        &[IoSlice::new(line.as_bytes())],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    if sent == line.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Lines with open files, as they come from a socket.
#[derive(Debug, Default)]
pub(crate) struct LineReceiver {
    bytes: Vec<u8>,
    /// Files that have come and were not taken yet.
    pub(crate) files: Vec<OwnedFd>,
}

impl LineReceiver {
    /// Reads the bytes and files that have come. Returns false at the end, or if too many bytes
    /// were not taken.
    pub(crate) fn receive(&mut self, socket: impl AsFd) -> io::Result<bool> {
        let mut bytes = [0; READ_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let received = loop {
            match rustix::net::recvmsg(&socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
            {
                Err(Errno::INTR) => {}
                received => break received?,
            }
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.extend(files);
            }
        }
        self.bytes.extend_from_slice(&bytes[..received.bytes]);
        Ok(received.bytes > 0 && self.bytes.len() <= 2 * READ_BYTES)
    }

    /// Returns the bytes that were read and not taken.
    pub(crate) fn into_rest(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn next_line(&mut self) -> Option<String> {
        let end = memchr::memchr(b'\n', &self.bytes)?;
        let line = String::from_utf8_lossy(&self.bytes[..end]).into_owned();
        self.bytes.drain(..=end);
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn order_to_keep_is_read_as_it_was_written() {
        let order = KeepOrder {
            secret: "s".to_owned(),
            absence: Duration::from_secs(60),
            idle_absence: Duration::ZERO,
            max_spool_bytes: 1 << 40,
            socket: "/a path/with spaces".to_owned(),
        };
        let line = order.to_line();
        let words = line.strip_suffix('\n').unwrap().strip_prefix("keep ").unwrap();
        assert_eq!(KeepOrder::parse(words), Some(order));
        assert_eq!(KeepOrder::parse("s 1 2"), None);
    }

    #[test]
    fn files_come_with_their_line() {
        let (near, far) = UnixStream::pair().unwrap();
        let file = super::super::super::kept_files::create_file("passed").unwrap();
        super::super::super::kept_files::write_at(&file, b"content", 0).unwrap();
        send_with_files(&near, "one\ntwo\nthr", &[file.as_fd()]).unwrap();
        let mut receiver = LineReceiver::default();
        assert!(receiver.receive(&far).unwrap());
        assert_eq!(
            (receiver.next_line().unwrap(), receiver.next_line().unwrap()),
            ("one".into(), "two".into())
        );
        assert_eq!(receiver.next_line(), None);
        let passed = receiver.files.pop().unwrap();
        assert_eq!(
            super::super::super::kept_files::read_range(&passed, 0, 99).unwrap(),
            b"content"
        );
        drop(near);
        assert!(!receiver.receive(&far).unwrap());
    }
}
