//! The choice of the sessions that are put to sleep when memory runs short: a pure function of the
//! sampled figures. The core still decides whether a chosen session can sleep.

use std::time::Duration;

/// The time that a session must have been idle before it is put to sleep for memory: it may be
/// wanted again at once.
pub(super) const MIN_IDLE_TIME: Duration = Duration::from_secs(3);

/// The figures of one session that decide whether it is put to sleep.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionUsage {
    pub(super) memory: u64,
    /// The time that it has been idle; `None` while it works.
    pub(super) idle_for: Option<Duration>,
    pub(super) comes_back: bool,
    /// The time that it has been idle without a controller; `None` also while a process of the
    /// agent's work runs.
    pub(super) unattended_for: Option<Duration>,
    /// How long it may be idle without a controller.
    pub(super) idle_limit: Option<IdleLimit>,
}

/// How long a session may be idle, by its agent's manifest or else by `session.sleep_after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdleLimit {
    pub(super) limit: Duration,
    pub(super) is_of_manifest: bool,
}

/// The bounds in force.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MemoryCaps {
    pub(super) session: Option<u64>,
    pub(super) total: Option<u64>,
}

/// Why a session is put to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SleepCause {
    /// Idle for as long as its manifest or the settings say.
    Idle(IdleLimit),
    SessionMemory {
        memory: u64,
        cap: u64,
    },
    TotalMemory {
        total: u64,
        cap: u64,
    },
}

impl SessionUsage {
    fn can_sleep(&self) -> bool {
        self.comes_back && self.idle_for.is_some_and(|idle| idle >= MIN_IDLE_TIME)
    }

    /// Is it over its own cap?
    pub(super) fn is_over(&self, caps: MemoryCaps) -> bool {
        caps.session.is_some_and(|cap| self.memory > cap)
    }
}

/// Returns the indices of the sessions to put to sleep, with the cause.
pub(super) fn choose_sleepers(
    standings: &[SessionUsage],
    caps: MemoryCaps,
) -> Vec<(usize, SleepCause)> {
    let mut chosen: Vec<(usize, SleepCause)> = Vec::new();
    for (place, standing) in standings.iter().enumerate() {
        let is_over =
            |limit: &IdleLimit| standing.unattended_for.is_some_and(|idle| idle >= limit.limit);
        let overdue = standing.idle_limit.filter(is_over);
        let memory = standing.memory;
        let cap = caps.session.unwrap_or(u64::MAX);
        match overdue {
            Some(limit) if standing.comes_back => chosen.push((place, SleepCause::Idle(limit))),
            _ if standing.is_over(caps) && standing.can_sleep() => {
                chosen.push((place, SleepCause::SessionMemory { memory, cap }));
            }
            Some(_) | None => {}
        }
    }
    let Some(cap) = caps.total else { return chosen };
    let total: u64 = standings.iter().map(|standing| standing.memory).sum();
    let freed: u64 = chosen
        .iter()
        .filter_map(|(place, _)| standings.get(*place))
        .map(|standing| standing.memory)
        .sum();
    let mut left = total - freed;
    let mut idle: Vec<(usize, &SessionUsage)> = standings
        .iter()
        .enumerate()
        .filter(|(place, standing)| {
            standing.can_sleep() && !chosen.iter().any(|(other, _)| other == place)
        })
        .collect();
    // The session that has been idle for longest goes first.
    idle.sort_by_key(|(_, standing)| std::cmp::Reverse(standing.idle_for));
    for (place, standing) in idle {
        if left <= cap {
            break;
        }
        left -= standing.memory;
        chosen.push((place, SleepCause::TotalMemory { total, cap }));
    }
    chosen
}

impl SleepCause {
    /// Describes the cause for a person and for the log.
    pub(super) fn describe_cause(self) -> String {
        match self {
            Self::Idle(IdleLimit { limit, is_of_manifest }) => {
                let by = if is_of_manifest { "its manifest" } else { "session.sleep_after" };
                format!("put to sleep: idle for {} s, as {by} says", limit.as_secs())
            }
            Self::SessionMemory { memory, cap } => format!(
                "put to sleep: its processes used {} MiB, more than limits.session_memory ({} MiB)",
                to_mib(memory),
                to_mib(cap)
            ),
            Self::TotalMemory { total, cap } => format!(
                "put to sleep, idle for longest: all agents used {} MiB, more than limits.memory ({} MiB)",
                to_mib(total),
                to_mib(cap)
            ),
        }
    }
}

/// Rounded up: "more than 100 MiB" is never told with the figure 100.
fn to_mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session_usage(memory: u64, idle: Option<u64>) -> SessionUsage {
        let idle_for = idle.map(Duration::from_secs);
        SessionUsage {
            memory,
            idle_for,
            unattended_for: idle_for,
            comes_back: true,
            idle_limit: None,
        }
    }

    fn places(chosen: &[(usize, SleepCause)]) -> Vec<usize> {
        chosen.iter().map(|(place, _)| *place).collect()
    }

    #[test]
    fn without_caps_no_session_is_put_to_sleep() {
        assert_eq!(
            choose_sleepers(&[session_usage(u64::MAX / 4, Some(9_999))], MemoryCaps::default()),
            []
        );
    }

    #[test]
    fn longest_idle_session_sleeps_first_and_no_more_than_needed() {
        let all = [
            session_usage(40, Some(10)),
            session_usage(40, Some(99)),
            session_usage(40, Some(50)),
            session_usage(40, None),
        ];
        let caps = |total| MemoryCaps { session: None, total: Some(total) };
        assert!(places(&choose_sleepers(&all, caps(160))).is_empty());
        assert_eq!(places(&choose_sleepers(&all, caps(159))), [1]);
        assert_eq!(places(&choose_sleepers(&all, caps(100))), [1, 2]);
        // The one at work stays, whatever the cap.
        assert_eq!(places(&choose_sleepers(&all, caps(1))), [1, 2, 0]);
    }

    #[test]
    fn a_session_over_its_own_cap_sleeps_only_if_it_is_idle_and_comes_back() {
        let caps = MemoryCaps { session: Some(100), total: None };
        let lost = SessionUsage { comes_back: false, ..session_usage(500, Some(60)) };
        let all = [
            session_usage(100, Some(60)),
            session_usage(101, Some(60)),
            session_usage(500, None),
            lost,
            session_usage(500, Some(1)),
        ];
        assert_eq!(
            choose_sleepers(&all, caps),
            [(1, SleepCause::SessionMemory { memory: 101, cap: 100 })]
        );
        assert!(all[2].is_over(caps) && !all[0].is_over(caps));
    }

    #[test]
    fn sessions_over_their_own_cap_count_for_the_total() {
        let caps = MemoryCaps { session: Some(100), total: Some(120) };
        let all = [session_usage(200, Some(5)), session_usage(50, Some(99))];
        assert_eq!(places(&choose_sleepers(&all, caps)), [0]);
    }

    #[test]
    fn idle_sessions_sleep_only_without_a_controller() {
        let limit = IdleLimit { limit: Duration::from_secs(30), is_of_manifest: true };
        let mut all =
            [session_usage(1, Some(29)), session_usage(1, Some(30)), session_usage(1, None)];
        all.iter_mut().for_each(|standing| standing.idle_limit = Some(limit));
        assert_eq!(choose_sleepers(&all, MemoryCaps::default()), [(1, SleepCause::Idle(limit))]);
        all[1].unattended_for = None;
        assert_eq!(
            choose_sleepers(&all, MemoryCaps::default()),
            [],
            "a client is attached, or a process of its work runs"
        );
        let caps = MemoryCaps { session: Some(0), total: None };
        assert_eq!(places(&choose_sleepers(&all, caps)), [0, 1], "memory counts all the same");
    }
}
