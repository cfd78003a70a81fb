//! A WebSocket client with little overhead, so that a measurement on two cores is of the host and
//! not of its client: blocking, with one buffer from which frames are borrowed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::peer::Peer;

/// The usual size of the kernel's own receive buffer, for few and large reads.
const BUFFER_BYTES: usize = 256 * 1024;
/// Longer than any silence in a benchmark.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const LARGEST_FRAME: usize = 64 * 1024 * 1024;
const LARGEST_ANSWER: usize = 16 * 1024;

const CONTINUATION_OPCODE: u8 = 0;
const TEXT_OPCODE: u8 = 1;
const BINARY_OPCODE: u8 = 2;
const CLOSE_OPCODE: u8 = 8;
const PING_OPCODE: u8 = 9;
const PONG_OPCODE: u8 = 10;

pub(super) struct WebSocket<S> {
    stream: S,
    buffer: Vec<u8>,
    /// The bytes that are read and not returned yet: `buffer[start..end]`.
    start: usize,
    end: usize,
    /// The received part of a message in several frames.
    parts: Vec<u8>,
}

/// The head of a frame: its kind, and the position of its payload from the frame's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    last: bool,
    opcode: u8,
    payload: usize,
    len: usize,
}

impl WebSocket<TcpStream> {
    /// Connects to `ws://authority/acp`.
    pub(super) fn connect(authority: &str, token: &str) -> Result<Self> {
        let stream =
            TcpStream::connect(authority).with_context(|| format!("connecting to {authority}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_write_timeout(Some(READ_TIMEOUT))?;
        let mut socket = Self::new(stream);
        socket.shake_hands(authority, token)?;
        Ok(socket)
    }
}

impl<S: Read + Write> WebSocket<S> {
    fn new(stream: S) -> Self {
        Self {
            stream,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            parts: Vec::new(),
        }
    }

    fn shake_hands(&mut self, authority: &str, token: &str) -> Result<()> {
        // The key only protects against caches, and there is none here.
        let request = format!(
            "GET /acp HTTP/1.1\r\nHost: {authority}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: d2hhcmYgYmVuY2htYXJrIQ==\r\n\
             Authorization: Bearer {token}\r\n\r\n"
        );
        self.stream.write_all(request.as_bytes())?;
        loop {
            let got = &self.buffer[self.start..self.end];
            if let Some(at) = memchr::memmem::find(got, b"\r\n\r\n") {
                let status = got.split(|byte| *byte == b'\r').next().unwrap_or_default();
                ensure!(
                    status.starts_with(b"HTTP/1.1 101"),
                    "the host answered {:?}",
                    String::from_utf8_lossy(status)
                );
                self.start += at + 4;
                return Ok(());
            }
            ensure!(got.len() < LARGEST_ANSWER, "the host's answer to the upgrade has no end");
            self.fill(LARGEST_ANSWER)?;
        }
    }

    /// Reads until a whole frame is in the buffer.
    fn frame(&mut self) -> Result<Head> {
        loop {
            let got = &self.buffer[self.start..self.end];
            let wanted = match parse_head(got)? {
                Some(head) if got.len() >= head.payload + head.len => return Ok(head),
                Some(head) => head.payload + head.len,
                None => 0,
            };
            self.fill(wanted)?;
        }
    }

    /// Reads once, with room for a frame of `wanted` bytes.
    fn fill(&mut self, wanted: usize) -> Result<()> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
        let room = self.buffer.len() - self.start;
        if self.end == self.buffer.len() || room < wanted {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.buffer.len() < wanted {
                self.buffer.resize(wanted, 0);
            }
        }
        let read =
            self.stream.read(&mut self.buffer[self.end..]).context("waiting for the host")?;
        ensure!(read > 0, "the host closed the connection");
        self.end += read;
        Ok(())
    }

    fn send_frame(&mut self, opcode: u8, payload: &[u8]) -> Result<()> {
        let mut frame = Vec::with_capacity(payload.len() + 14);
        frame.push(0x80 | opcode);
        match payload.len() {
            len @ 0..=125 => frame.push(0x80 | len as u8),
            len @ 126..=0xffff => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&(len as u16).to_be_bytes());
            }
            len => {
                frame.push(0x80 | 127);
                frame.extend_from_slice(&(len as u64).to_be_bytes());
            }
        }
        // A mask of zeros is valid and needs no computation.
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(payload);
        self.stream.write_all(&frame).context("sending to the host")
    }
}

impl<S: Read + Write> Peer for WebSocket<S> {
    fn send(&mut self, message: &str) -> Result<()> {
        self.send_frame(TEXT_OPCODE, message.as_bytes())
    }

    fn next(&mut self) -> Result<&[u8]> {
        self.parts.clear();
        loop {
            let head = self.frame()?;
            let from = self.start + head.payload;
            let payload = from..from + head.len;
            self.start = payload.end;
            match head.opcode {
                TEXT_OPCODE | BINARY_OPCODE if head.last => return Ok(&self.buffer[payload]),
                TEXT_OPCODE | BINARY_OPCODE | CONTINUATION_OPCODE => {
                    self.parts.extend_from_slice(&self.buffer[payload]);
                    ensure!(
                        self.parts.len() <= LARGEST_FRAME,
                        "the host sent a message without an end"
                    );
                    if head.last {
                        return Ok(&self.parts);
                    }
                }
                PING_OPCODE => {
                    let echo = self.buffer[payload].to_vec();
                    self.send_frame(PONG_OPCODE, &echo)?;
                }
                PONG_OPCODE => {}
                CLOSE_OPCODE => {
                    bail!(
                        "the host closed the WebSocket: {:?}",
                        String::from_utf8_lossy(&self.buffer[payload])
                    )
                }
                other => bail!("the host sent a frame of the unknown kind {other}"),
            }
        }
    }
}

/// Returns the head of the first frame in `bytes`; `None` if it is incomplete.
fn parse_head(bytes: &[u8]) -> Result<Option<Head>> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    ensure!(first & 0x70 == 0, "the host uses a WebSocket extension that was not agreed on");
    ensure!(second & 0x80 == 0, "the host masks its frames");
    let (payload, len) = match second & 0x7f {
        126 => match rest.first_chunk() {
            Some(len) => (4, usize::from(u16::from_be_bytes(*len))),
            None => return Ok(None),
        },
        127 => match rest.first_chunk() {
            Some(len) => (10, usize::try_from(u64::from_be_bytes(*len))?),
            None => return Ok(None),
        },
        len => (2, usize::from(len)),
    };
    ensure!(len <= LARGEST_FRAME, "the host sent a frame of {len} bytes");
    Ok(Some(Head { last: first & 0x80 != 0, opcode: first & 0x0f, payload, len }))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// Returns `input` in pieces of at most `piece` bytes and keeps all written bytes.
    struct Wire {
        input: io::Cursor<Vec<u8>>,
        piece: usize,
        written: Vec<u8>,
    }

    impl Read for Wire {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let len = out.len().min(self.piece);
            self.input.read(&mut out[..len])
        }
    }

    impl Write for Wire {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.written.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn socket(input: Vec<u8>, piece: usize) -> WebSocket<Wire> {
        WebSocket::new(Wire { input: io::Cursor::new(input), piece, written: Vec::new() })
    }

    /// Returns a frame as a server sends it.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![first];
        match payload.len() {
            len @ 0..=125 => frame.push(len as u8),
            len @ 126..=0xffff => {
                frame.push(126);
                frame.extend_from_slice(&(len as u16).to_be_bytes());
            }
            len => {
                frame.push(127);
                frame.extend_from_slice(&(len as u64).to_be_bytes());
            }
        }
        frame.extend_from_slice(payload);
        frame
    }

    #[test]
    fn frames_of_every_length_form_arrive_whole_however_they_are_cut() {
        let payloads = [0, 1, 125, 126, 300, 65_535, 65_536, 700_000].map(|len| vec![b'x'; len]);
        let input: Vec<u8> = payloads.iter().flat_map(|payload| frame(0x81, payload)).collect();
        for piece in [1, 7, 4_096, 1 << 20] {
            let mut socket = socket(input.clone(), piece);
            for payload in &payloads {
                assert_eq!(socket.next().unwrap(), payload.as_slice());
            }
            assert!(socket.next().unwrap_err().to_string().contains("closed"));
        }
    }

    #[test]
    fn a_message_in_several_frames_is_put_together_around_a_ping() {
        let input =
            [frame(0x01, b"one "), frame(0x89, b"?"), frame(0x00, b"two "), frame(0x80, b"three")]
                .concat();
        let mut socket = socket(input, 3);
        assert_eq!(socket.next().unwrap(), b"one two three");
        assert_eq!(socket.stream.written, [0x8a, 0x81, 0, 0, 0, 0, b'?']);
    }

    #[test]
    fn sent_frames_are_masked_and_carry_their_length() {
        let mut socket = socket(Vec::new(), 1);
        socket.send("hi").unwrap();
        assert_eq!(socket.stream.written, [0x81, 0x82, 0, 0, 0, 0, b'h', b'i']);
        socket.stream.written.clear();
        socket.send(&"x".repeat(300)).unwrap();
        assert_eq!(socket.stream.written[..4], [0x81, 0xfe, 1, 44]);
    }

    #[test]
    fn a_close_or_a_masked_or_compressed_frame_is_an_error() {
        for input in [
            frame(0x88, b"\x03\xe8bye"),
            vec![0x81, 0x80, 0, 0, 0, 0],
            vec![0xc1, 0],
            vec![0x83, 0],
        ] {
            assert!(socket(input, 10).next().is_err());
        }
    }

    #[test]
    fn the_handshake_keeps_the_bytes_that_follow_it() {
        let mut input = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n".to_vec();
        input.extend(frame(0x81, b"first"));
        let mut socket = socket(input, 1 << 20);
        socket.shake_hands("127.0.0.1:1", "secret").unwrap();
        assert_eq!(socket.next().unwrap(), b"first");
        assert!(socket.stream.written.ends_with(b"Authorization: Bearer secret\r\n\r\n"));
    }

    #[test]
    fn a_refused_upgrade_tells_its_status() {
        let mut socket = socket(b"HTTP/1.1 401 Unauthorized\r\n\r\n".to_vec(), 5);
        let error = socket.shake_hands("127.0.0.1:1", "wrong").unwrap_err();
        assert!(error.to_string().contains("401"), "{error}");
    }
}
