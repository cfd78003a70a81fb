//! The baseline of a probe: the same pace over a socket whose other end is a thread that sends
//! every byte back. Its time is the machine's.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// Measures round trips at this pace until told to stop. Returns the duration of each in
/// microseconds.
pub(super) fn measure_echoes(every: Duration, stop: &AtomicBool) -> Result<Vec<f64>> {
    let listener = TcpListener::bind("127.0.0.1:0").context("listening for the echo")?;
    let mut near = TcpStream::connect(listener.local_addr()?).context("connecting to the echo")?;
    let (mut far, _) = listener.accept().context("accepting the echo")?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    // The thread ends with the other side.
    thread::spawn(move || {
        let mut byte = [0];
        while far.read_exact(&mut byte).is_ok() && far.write_all(&byte).is_ok() {}
    });
    let (began, mut latencies) = (Instant::now(), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let due_at = began + every * u32::try_from(latencies.len()).unwrap_or(u32::MAX);
        let from = super::status::wait_until_due(due_at, latencies.last());
        near.write_all(b"x")?;
        near.read_exact(&mut [0])?;
        latencies.push(from.elapsed().as_secs_f64() * 1e6);
    }
    Ok(latencies)
}
