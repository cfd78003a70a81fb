//! Reads the processes that call a keeper side by side: a silent one holds up no other.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use super::host_check::{check_hello, check_process};

/// How long a caller may take over its first line. A host sends it at once, but its machine may be
/// very busy.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_HELLO_BYTES: usize = 256;
/// How many callers the keeper reads at once. When one more calls, the keeper refuses the caller
/// that has been silent for longest.
const MAX_CALLERS: usize = 32;
/// How long no caller is accepted after that has failed, as without open files. Until then the
/// socket would wake the keeper all the time.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The outcome for one caller.
#[derive(Debug)]
pub(super) enum CallerVerdict {
    Host(UnixStream),
    /// The pid of a process that is not a host.
    Refused(u32),
}

/// A caller that may be a host and has not said so yet.
#[derive(Debug)]
struct Caller {
    socket: UnixStream,
    pid: u32,
    hello: Vec<u8>,
    give_up_at: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Callers {
    /// In the order in which they came.
    waiting: VecDeque<Caller>,
    accepts_again_at: Option<Instant>,
}

impl Callers {
    /// Returns the sockets of the callers that are read.
    pub(super) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.waiting.iter().map(|caller| caller.socket.as_fd())
    }

    /// Returns true if new callers are accepted now.
    pub(super) fn is_open(&self) -> bool {
        self.accepts_again_at.is_none()
    }

    /// Returns when something is to be done though no caller speaks.
    pub(super) fn next_time(&self) -> Option<Instant> {
        self.waiting
            .front()
            .map(|caller| caller.give_up_at)
            .into_iter()
            .chain(self.accepts_again_at)
            .min()
    }

    /// Accepts the processes that call. Returns those that are refused at once.
    pub(super) fn accept(&mut self, listener: &UnixListener, now: Instant) -> Vec<CallerVerdict> {
        let mut verdicts = Vec::new();
        for _ in 0..MAX_CALLERS {
            match accept_caller(listener, now) {
                Ok(caller) if check_process(&caller.socket, caller.pid).is_err() => {
                    verdicts.push(CallerVerdict::Refused(caller.pid));
                }
                Ok(caller) => {
                    if self.waiting.len() == MAX_CALLERS {
                        verdicts.extend(
                            self.waiting
                                .pop_front()
                                .map(|caller| CallerVerdict::Refused(caller.pid)),
                        );
                    }
                    self.waiting.push_back(caller);
                }
                Err(ErrorKind::WouldBlock) => break,
                Err(_) => {
                    self.accepts_again_at = Some(now + ACCEPT_PAUSE);
                    break;
                }
            }
        }
        verdicts
    }

    /// Reads from the callers. A caller is a host if it has said hello with this secret.
    pub(super) fn read(&mut self, secret: &str, now: Instant) -> Vec<CallerVerdict> {
        self.accepts_again_at.take_if(|at| *at <= now);
        let mut verdicts = Vec::new();
        for mut caller in std::mem::take(&mut self.waiting) {
            match caller.read_line() {
                Ok(true) if check_hello(&caller.hello, secret) => {
                    verdicts.push(CallerVerdict::Host(caller.socket))
                }
                Err(ErrorKind::WouldBlock) if now < caller.give_up_at => {
                    self.waiting.push_back(caller)
                }
                Ok(_) | Err(_) => verdicts.push(CallerVerdict::Refused(caller.pid)),
            }
        }
        verdicts
    }
}

impl Caller {
    /// Reads up to the end of the first line, and nothing behind it. Returns false if there is no
    /// such line.
    fn read_line(&mut self) -> Result<bool, ErrorKind> {
        let mut byte = [0];
        while self.hello.len() < MAX_HELLO_BYTES {
            match self.socket.read(&mut byte) {
                Ok(0) => return Ok(false),
                Ok(_) if byte[0] == b'\n' => {
                    // From now on the keeper talks to a host, which reads.
                    return self
                        .socket
                        .set_nonblocking(false)
                        .map(|()| true)
                        .map_err(|error| error.kind());
                }
                Ok(_) => self.hello.push(byte[0]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.kind()),
            }
        }
        Ok(false)
    }
}

fn accept_caller(listener: &UnixListener, now: Instant) -> Result<Caller, ErrorKind> {
    let accept = || {
        let (socket, _) = listener.accept()?;
        socket.set_nonblocking(true)?;
        let pid = rustix::net::sockopt::socket_peercred(&socket)?
            .pid
            .as_raw_nonzero()
            .get()
            .unsigned_abs();
        Ok(Caller {
            socket,
            pid,
            hello: Vec::new(),
            give_up_at: now + HELLO_TIMEOUT,
        })
    };
    accept().map_err(|error: std::io::Error| error.kind())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::protocol::{HELLO, PROTOCOL_VERSION};
    use super::*;

    fn listen() -> (tempfile::TempDir, UnixListener) {
        let temp = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(temp.path().join("s")).unwrap();
        listener.set_nonblocking(true).unwrap();
        (temp, listener)
    }

    fn call(directory: &tempfile::TempDir) -> UnixStream {
        UnixStream::connect(directory.path().join("s")).unwrap()
    }

    #[test]
    fn host_is_heard_behind_more_silent_callers_than_are_read() {
        let (temp, listener) = listen();
        let mut callers = Callers::default();
        let now = Instant::now();
        let _silent: Vec<UnixStream> = (0..MAX_CALLERS).map(|_| call(&temp)).collect();
        assert_eq!(callers.accept(&listener, now).len(), 0);
        let mut host = call(&temp);
        host.write_all(format!("{HELLO} {PROTOCOL_VERSION} sec").as_bytes()).unwrap();
        assert_eq!(callers.accept(&listener, now).len(), 1, "the oldest makes room");
        assert_eq!(callers.read("secret", now).len(), 0, "half a line");
        host.write_all(b"ret\nmore").unwrap();
        let verdicts = callers.read("secret", now);
        let [CallerVerdict::Host(socket)] = &verdicts[..] else { panic!("{verdicts:?}") };
        let mut rest = [0; 4];
        (&*socket).read_exact(&mut rest).unwrap();
        assert_eq!(&rest, b"more", "the words behind the line are the host's");
        assert_eq!(
            callers.read("secret", now + HELLO_TIMEOUT).len(),
            MAX_CALLERS - 1,
            "all others are too late"
        );
        assert!(callers.next_time().is_none(), "nothing is left to wait for");
    }

    #[test]
    fn wrong_and_endless_words_are_refused() {
        let (temp, listener) = listen();
        let mut callers = Callers::default();
        let now = Instant::now();
        for words in ["hello 1 wrong\n".to_owned(), "x".repeat(MAX_HELLO_BYTES), String::new()] {
            let mut caller = call(&temp);
            caller.write_all(words.as_bytes()).unwrap();
            drop(caller);
            assert_eq!(callers.accept(&listener, now).len(), 0);
            let verdicts = callers.read("secret", now);
            assert!(
                matches!(verdicts[..], [CallerVerdict::Refused(pid)] if pid == std::process::id()),
                "{verdicts:?}"
            );
        }
    }
}
