//! Measures how long the machine held up a test, for tests of times that the documentation
//! promises.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// How often the watch looks whether it runs.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Measures from its start on for how long its own thread did not run although it should have. A
/// machine that stands still holds the host up too, and its pauses do not count as the host's.
#[derive(Debug)]
pub struct PauseWatch {
    began: Instant,
    paused_micros: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl PauseWatch {
    /// Starts the watch, and the time that is checked.
    pub fn start() -> Self {
        let watch = Self {
            began: Instant::now(),
            paused_micros: Arc::default(),
            is_over: Arc::default(),
        };
        let paused_micros = Arc::clone(&watch.paused_micros);
        let is_over = Arc::clone(&watch.is_over);
        thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let before = Instant::now();
                thread::park_timeout(CHECK_INTERVAL);
                let late = before.elapsed().saturating_sub(CHECK_INTERVAL);
                paused_micros.fetch_add(
                    u64::try_from(late.as_micros()).unwrap_or(u64::MAX),
                    Ordering::Relaxed,
                );
            }
        });
        watch
    }

    /// Returns the promised time and the pauses so far.
    pub fn allow(&self, promised: Duration) -> Duration {
        promised + Duration::from_micros(self.paused_micros.load(Ordering::Relaxed))
    }

    /// Fails if more than the promised time has passed since the start, without the pauses of the
    /// machine.
    pub fn expect_within(&self, promised: Duration, subject: &str) -> Result<()> {
        let took = self.began.elapsed();
        let allowed = self.allow(promised);
        ensure!(
            took <= allowed,
            "{subject} took {took:?}; {promised:?} are promised, {allowed:?} with pauses"
        );
        Ok(())
    }
}

impl Drop for PauseWatch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
