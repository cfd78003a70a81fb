//! The baseline measurement of the benchmark.

use std::time::Duration;

use anyhow::Result;
use wharf_testkit::{limit, program};

#[test]
fn a_burst_and_ticks_are_measured() -> Result<()> {
    let agent = program::scripted_agent()?;
    let burst = limit::measure(&agent, "burst 1000 200")?;
    assert_eq!((burst.messages, burst.latencies.len()), (1000, 0));
    assert!(burst.bytes > 200_000 && burst.per_second() > 0.0);
    let ticks = limit::measure(&agent, "tick 20 100")?;
    assert_eq!((ticks.messages, ticks.latencies.len()), (20, 20));
    assert!(ticks.quantile(0.5) <= ticks.quantile(0.99) && ticks.quantile(0.99) < Some(Duration::from_secs(10)));
    Ok(())
}
