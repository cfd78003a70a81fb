//! The baseline measurement of the benchmark.

use std::time::Duration;

use anyhow::Result;
use wharf_testkit::{pipe_baseline, program};

#[test]
fn a_burst_and_ticks_are_measured() -> Result<()> {
    let agent = program::find_scripted_agent()?;
    let burst = pipe_baseline::measure_pipe(&agent, "burst 1000 200")?;
    assert_eq!((burst.messages, burst.latencies.len()), (1000, 0));
    assert!(burst.bytes > 200_000 && burst.per_second() > 0.0);
    let ticks = pipe_baseline::measure_pipe(&agent, "tick 20 100")?;
    assert_eq!((ticks.messages, ticks.latencies.len()), (20, 20));
    assert!(
        ticks.latency_quantile(0.5) <= ticks.latency_quantile(0.99)
            && ticks.latency_quantile(0.99) < Some(Duration::from_secs(10))
    );
    Ok(())
}
