//! Measures the first build: the CPU time of `cargo build --release` into an empty target
//! directory, and the size of its binary.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::json;

use super::print_measure;
use super::stats::round_figure;
use crate::output::print_progress;
use crate::process::{cargo_command, run_checked};

const TARGET_CPU_SECONDS: f64 = 450.0;
const TARGET_BINARY_MB: f64 = 30.0;
/// The unit of CPU times in `/proc`: Linux reports them to programs in hundredths of a second on
/// every machine.
const TICKS_PER_SECOND: f64 = 100.0;

/// Builds the default package in `dir`, which is deleted afterwards, and prints the figures beside
/// their targets.
///
/// The crates are fetched first, since a slow network is not part of the figures.
pub(super) fn measure(root: &Path, dir: &Path) -> Result<()> {
    run_checked(cargo_command(root).args(["fetch", "--quiet", "--locked"]))?;
    print_progress("building for release into an empty directory");
    let (cpu_before, began) = (children_cpu_seconds()?, Instant::now());
    // A wrapper may be a compiler cache. It is turned off, because it would make every build but
    // the first one fast.
    let built = run_checked(
        cargo_command(root)
            .args(["build", "--quiet", "--release", "--locked", "--target-dir"])
            .arg(dir)
            .env("RUSTC_WRAPPER", ""),
    );
    let cpu_seconds = children_cpu_seconds()? - cpu_before;
    let wall_seconds = began.elapsed().as_secs_f64();
    let binary = dir.join("release").join("wharf");
    let binary_bytes = built.and_then(|()| {
        fs::metadata(&binary)
            .map(|metadata| metadata.len())
            .with_context(|| format!("finding {}", binary.display()))
    });
    fs::remove_dir_all(dir).with_context(|| format!("deleting {}", dir.display()))?;
    let binary_mb = binary_bytes? as f64 / 1e6;
    print_measure(json!({
        "measure": "build", "cpu_seconds": round_figure(cpu_seconds), "target_cpu_seconds": TARGET_CPU_SECONDS,
        "binary_mb": round_figure(binary_mb), "target_binary_mb": TARGET_BINARY_MB,
        "holds": cpu_seconds <= TARGET_CPU_SECONDS && binary_mb <= TARGET_BINARY_MB,
        // The wall time depends on the other programs that run on the machine.
        "wall_seconds": round_figure(wall_seconds),
    }));
    Ok(())
}

/// Returns the CPU time, user and system, of all child processes that have ended, with their own
/// children.
fn children_cpu_seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat").context("reading /proc/self/stat")?;
    parse_children_ticks(&stat)
        .map(|ticks| ticks as f64 / TICKS_PER_SECOND)
        .context("parsing /proc/self/stat")
}

/// Returns `cutime` plus `cstime`, the 16th and the 17th field. The second field is the program's
/// name in parentheses and may contain blanks, so the fields are counted from the last parenthesis.
fn parse_children_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(13).map(str::parse::<u64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_ticks_are_found_behind_a_name_with_blanks() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194304 100 200 0 0 11 12 1300 140 20 0 1 0 99";
        assert_eq!(parse_children_ticks(stat), Some(1_440));
        assert_eq!(parse_children_ticks("7 (a) S 1"), None);
    }

    #[test]
    fn cpu_time_of_children_is_readable() {
        assert!(children_cpu_seconds().unwrap() >= 0.0);
    }
}
