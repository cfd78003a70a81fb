//! The baseline of the benchmark: the scripted agent's traffic straight from its pipe.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::program;

/// The frames received between a prompt and its answer.
#[derive(Debug, Default, Clone)]
pub struct TrafficMeasurement {
    pub messages: u64,
    pub bytes: u64,
    pub elapsed: Duration,
    /// The latencies of the messages that carry their sending time (`tick`).
    pub latencies: Vec<Duration>,
}

impl TrafficMeasurement {
    /// Counts one received frame.
    pub fn count_frame(&mut self, frame: &[u8]) {
        self.messages += 1;
        self.bytes += frame.len() as u64;
        self.latencies.extend(tick_latency(frame));
    }

    pub fn per_second(&self) -> f64 {
        self.messages as f64 / self.elapsed.as_secs_f64().max(f64::EPSILON)
    }

    /// Returns the latency that this share of the messages did not exceed: 0.5 for the median.
    pub fn latency_quantile(&self, share: f64) -> Option<Duration> {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        sorted.get((last as f64 * share).round() as usize).copied()
    }
}

/// Returns the time since the agent sent this `tick`.
pub fn tick_latency(frame: &[u8]) -> Option<Duration> {
    const TICK_MARK: &[u8] = b"\"text\":\"tick ";
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    // A tick is short; long lines of a burst are not searched.
    let start = (frame.len() < 400)
        .then(|| frame.windows(TICK_MARK.len()).position(|part| part == TICK_MARK))??
        + TICK_MARK.len();
    let text = frame[start..].split(|byte| *byte == b'"').next()?;
    let nanos = std::str::from_utf8(text).ok()?.split(' ').nth(1)?.parse().ok()?;
    Some(now.saturating_sub(Duration::from_nanos(nanos)))
}

/// Runs one script in a new agent and reads its stdout line by line, as a host has to.
pub fn measure_pipe(agent: &Path, script: &str) -> Result<TrafficMeasurement> {
    let mut command = program::new_command(agent);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting the agent")?;
    let outcome = run_conversation(&mut child, script);
    let _ = child.kill();
    let _ = child.wait();
    outcome
}

fn run_conversation(child: &mut Child, script: &str) -> Result<TrafficMeasurement> {
    let mut stdin = child.stdin.take().context("taking the agent's stdin")?;
    let mut stdout = BufReader::with_capacity(
        64 * 1024,
        child.stdout.take().context("taking the agent's stdout")?,
    );
    let opened = call_method(
        &mut stdin,
        &mut stdout,
        "session/new",
        json!({ "cwd": "/", "mcpServers": [] }),
    )?;
    let session = &opened["result"]["sessionId"];
    let prompt = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": script }] });
    let started_at = Instant::now();
    send_request(&mut stdin, "session/prompt", prompt)?;
    let mut measured = TrafficMeasurement::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        if stdout.read_until(b'\n', &mut line)? == 0 {
            bail!("the agent ended before its answer");
        }
        // The agent writes members in alphabetical order, so this line is the response.
        if line.starts_with(b"{\"id\"") {
            measured.elapsed = started_at.elapsed();
            return Ok(measured);
        }
        measured.count_frame(&line);
    }
}

fn send_request(stdin: &mut ChildStdin, method: &str, params: Value) -> Result<()> {
    let frame = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    stdin.write_all(format!("{frame}\n").as_bytes()).context("writing to the agent")
}

fn call_method(
    stdin: &mut ChildStdin,
    stdout: &mut BufReader<ChildStdout>,
    method: &str,
    params: Value,
) -> Result<Value> {
    send_request(stdin, method, params)?;
    let mut line = String::new();
    stdout.read_line(&mut line)?;
    serde_json::from_str(&line).context("reading the agent's answer")
}
