//! Measures the throughput of a stream at full rate with a reader of rows, beside the same stream
//! with an ACP client.

use std::io::Read as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::compare::{Binary, in_round, print_compared};
use super::http::{open_request, send_json};
use super::stats::{Series, round_figure};
use super::traffic::{Pace, Party, Traffic};
use super::{Bench, UPDATE_BYTES, per_second};
use crate::output::print_progress;

const TARGET_RATIO: f64 = 0.8;
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const BUFFER_BYTES: usize = 256 * 1024;

/// The reader whose time counts, and its company.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    /// An ACP client alone.
    Acp,
    /// A stream of rows alone; the prompt comes by REST.
    Rows,
    /// An ACP client beside a stream of rows.
    AcpBesideRows,
}

impl Bench {
    pub(super) fn rows_burst(&self) -> Result<()> {
        let traffic = Traffic::Burst {
            updates: self.plan.burst,
            size: UPDATE_BYTES,
            pace: Pace::Single,
        };
        let readers = [Reader::Acp, Reader::Rows, Reader::AcpBesideRows];
        let mut sides = self.sides::<_, Series>(&readers);
        for round in 0..self.plan.repeats {
            print_progress(&format!("rows_burst, round {}", round + 1));
            for side in in_round(round, &mut sides) {
                let rate = self.read_burst(side.binary, side.variant, traffic)?;
                side.figures.push(rate);
            }
        }
        let binaries = self.binaries.len();
        let of = |reader: usize, binary: usize| &sides[reader * binaries + binary].figures;
        let line = json!({
            "measure": "rows_burst", "updates": traffic.updates(), "size": UPDATE_BYTES, "target_ratio": TARGET_RATIO,
        });
        print_compared(
            line,
            (0..binaries).map(|binary| {
                let (acp, rows, beside) = (of(0, binary), of(1, binary), of(2, binary));
                let ratio = rows.median() / acp.median();
                json!({
                    "acp_per_second": acp.to_json(), "rows_per_second": rows.to_json(),
                    "acp_beside_rows_per_second": beside.to_json(), "ratio": round_figure(ratio),
                    "beside_ratio": round_figure(beside.median() / acp.median()), "within_target": ratio >= TARGET_RATIO,
                })
            }),
        );
        Ok(())
    }

    /// Returns the updates per second that a reader sees.
    fn read_burst(&self, binary: &Binary, reader: Reader, traffic: Traffic) -> Result<f64> {
        let host = self.host(binary)?;
        let rate = if reader == Reader::Rows {
            let spawned = send_json(
                &host,
                "POST",
                "/sessions/agent",
                &json!({ "adapter": "agent", "cwd": self.cwd() }),
            )?;
            let session = spawned["id"].as_str().context("no session was made")?.to_owned();
            let rows = RowReader::open(open_request(
                &host,
                "GET",
                &format!("/sessions/{session}/rows/stream"),
                None,
            )?)?;
            let began = Instant::now();
            send_json(
                &host,
                "POST",
                &format!("/sessions/{session}/prompt"),
                &json!({ "prompt": traffic.prompt() }),
            )?;
            rows.read_until_turn_end()?;
            traffic.updates() as f64 / began.elapsed().as_secs_f64()
        } else {
            let mut party = Party::gather(&host, &self.cwd(), 1)?;
            let path = format!("/sessions/{}/rows/stream", party.session());
            let mut rows = None;
            if reader == Reader::AcpBesideRows {
                let stream = RowReader::open(open_request(&host, "GET", &path, None)?)?;
                rows = Some(std::thread::spawn(move || stream.read_until_turn_end()));
            }
            let seen = party.run(traffic)?;
            if let Some(rows) = rows {
                rows.join().map_err(|_| anyhow::anyhow!("the reader of rows panicked"))??;
            }
            per_second(traffic, &seen)
        };
        host.stop()?;
        Ok(rate)
    }
}

/// A reader of a stream of rows that looks only for the end of a turn, so that the host is measured
/// and not its client.
struct RowReader {
    stream: TcpStream,
    buffer: Vec<u8>,
    len: usize,
}

impl RowReader {
    /// Waits for the head of the answer.
    fn open(stream: TcpStream) -> Result<Self> {
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        let mut reader = Self { stream, buffer: vec![0; BUFFER_BYTES], len: 0 };
        reader.read_until(b"event: page")?;
        Ok(reader)
    }

    fn read_until_turn_end(mut self) -> Result<()> {
        self.read_until(br#""kind":"turn_end""#)
    }

    /// Reads until the bytes have come; the bytes before them are dropped.
    fn read_until(&mut self, wanted: &[u8]) -> Result<()> {
        loop {
            let got = &self.buffer[..self.len];
            if let Some(at) = memchr::memmem::find(got, wanted) {
                let rest = at + wanted.len();
                self.buffer.copy_within(rest..self.len, 0);
                self.len -= rest;
                return Ok(());
            }
            // The wanted bytes may have begun at the end of the buffer.
            let kept = self.len.min(wanted.len() - 1);
            self.buffer.copy_within(self.len - kept..self.len, 0);
            let read = self.stream.read(&mut self.buffer[kept..]).context("waiting for rows")?;
            ensure!(read > 0, "the stream of rows ended");
            self.len = kept + read;
        }
    }
}
