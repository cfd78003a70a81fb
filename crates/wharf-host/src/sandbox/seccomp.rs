//! A filter on system calls for confined processes: limits and priorities of other processes, which
//! Landlock does not cover, cannot be changed. With them an agent could stop its own keeper or the
//! host.
//!
//! The filter sees numbers, not processes: a call that names 0 (the caller) or the confined program
//! itself is let through, any other gets `EPERM`. Everything else is untouched. Programs for 32
//! bits have numbers of their own.

use seccompiler::sock_filter;

/// The calls that are judged, by their numbers on one architecture.
struct JudgedCalls {
    /// As the kernel names the architecture to filters (`AUDIT_ARCH_…`).
    architecture: u32,
    prlimit64: u32,
    setpriority: u32,
    ioprio_set: u32,
    /// `sched_setparam`, `sched_setscheduler`, `sched_setaffinity`, `sched_setattr`: the process is
    /// the first argument.
    scheduling: [u32; 4],
}

#[cfg(target_arch = "x86_64")]
const KNOWN_ARCHITECTURES: &[JudgedCalls] = &[X86_64, I386];
#[cfg(target_arch = "aarch64")]
const KNOWN_ARCHITECTURES: &[JudgedCalls] = &[AARCH64, ARM];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const KNOWN_ARCHITECTURES: &[JudgedCalls] = &[];

#[cfg(any(target_arch = "x86_64", test))]
const X86_64: JudgedCalls = JudgedCalls {
    architecture: 0xC000_003E,
    prlimit64: 302,
    setpriority: 141,
    ioprio_set: 251,
    scheduling: [142, 144, 203, 314],
};
#[cfg(any(target_arch = "x86_64", test))]
const I386: JudgedCalls = JudgedCalls {
    architecture: 0x4000_0003,
    prlimit64: 340,
    setpriority: 97,
    ioprio_set: 289,
    scheduling: [154, 156, 241, 351],
};
#[cfg(any(target_arch = "aarch64", test))]
const AARCH64: JudgedCalls = JudgedCalls {
    architecture: 0xC000_00B7,
    prlimit64: 261,
    setpriority: 140,
    ioprio_set: 30,
    scheduling: [118, 119, 122, 274],
};
#[cfg(any(target_arch = "aarch64", test))]
const ARM: JudgedCalls = JudgedCalls {
    architecture: 0x4000_0028,
    prlimit64: 369,
    setpriority: 97,
    ioprio_set: 314,
    scheduling: [154, 156, 241, 380],
};

/// x86-64 has a second set of numbers (x32), marked by this bit. Hardly a kernel has it, and
/// nothing here judges it.
const X32_BIT: u32 = 0x4000_0000;
/// Of `setpriority` and `ioprio_set`: one process, as against a group or all of a user.
const PRIO_PROCESS: u32 = 0;
const IOPRIO_WHO_PROCESS: u32 = 1;

const LOAD_INSTRUCTION: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_GREATER_OR_EQUAL: u16 = 0x35;
const RETURN_INSTRUCTION: u16 = 0x06;

const ALLOW_CALL: u32 = 0x7fff_0000;
const FAIL_WITH: u32 = 0x0005_0000;
const FAIL_WITH_EPERM: u32 = FAIL_WITH | 1;
const FAIL_WITH_ENOSYS: u32 = FAIL_WITH | 38;

/// Where the number, the architecture and the arguments stand in what a filter sees.
const NUMBER_OFFSET: u32 = 0;
const ARCHITECTURE_OFFSET: u32 = 4;

/// The lower half of an argument, on the little-endian machines that are known here. A pid has no
/// upper half.
const fn argument_offset(place: u32) -> u32 {
    16 + 8 * place
}

const fn upper_half_offset(place: u32) -> u32 {
    argument_offset(place) + 4
}

/// Puts this thread, and all that it becomes and starts, under the filter.
pub(super) fn apply() -> Result<(), String> {
    if KNOWN_ARCHITECTURES.is_empty() {
        return Err(
            "the sandbox's filter for system calls supports x86-64 and arm64 only".to_owned()
        );
    }
    let program = assemble_program(KNOWN_ARCHITECTURES, std::process::id());
    seccompiler::apply_filter(&program).map_err(|error| {
        format!("the kernel refuses the filter for system calls (seccomp): {error}")
    })
}

fn load_word(offset: u32) -> sock_filter {
    sock_filter { code: LOAD_INSTRUCTION, jt: 0, jf: 0, k: offset }
}

fn return_action(with: u32) -> sock_filter {
    sock_filter { code: RETURN_INSTRUCTION, jt: 0, jf: 0, k: with }
}

/// Jumps over `then` or over `otherwise` instructions.
fn jump_if(code: u16, value: u32, then: usize, otherwise: usize) -> sock_filter {
    // No part of this program is that long; the tests run all of it.
    let [jt, jf] = [then, otherwise].map(|count| u8::try_from(count).unwrap_or(u8::MAX));
    sock_filter { code, jt, jf, k: value }
}

/// The whole program. Each architecture's part answers; whatever comes from another one is unknown
/// to the filter.
fn assemble_program(architectures: &[JudgedCalls], own: u32) -> Vec<sock_filter> {
    let mut program = vec![load_word(ARCHITECTURE_OFFSET)];
    for calls in architectures {
        let part = judge_calls(calls, own);
        program.push(jump_if(JUMP_IF_EQUAL, calls.architecture, 0, part.len()));
        program.extend(part);
    }
    program.push(return_action(FAIL_WITH_ENOSYS));
    program
}

fn judge_calls(calls: &JudgedCalls, own: u32) -> Vec<sock_filter> {
    let mut part = vec![
        load_word(NUMBER_OFFSET),
        jump_if(JUMP_IF_GREATER_OR_EQUAL, X32_BIT, 0, 1),
        return_action(FAIL_WITH_ENOSYS),
    ];
    let mut rule = |number: u32, judgement: Vec<sock_filter>| {
        part.push(jump_if(JUMP_IF_EQUAL, number, 0, judgement.len()));
        part.extend(judgement);
    };
    rule(calls.prlimit64, [allow_reading(2), judge_process(0, own)].concat());
    rule(calls.setpriority, [require_argument(0, PRIO_PROCESS), judge_process(1, own)].concat());
    rule(
        calls.ioprio_set,
        [require_argument(0, IOPRIO_WHO_PROCESS), judge_process(1, own)].concat(),
    );
    for number in calls.scheduling {
        rule(number, judge_process(0, own));
    }
    part.push(return_action(ALLOW_CALL));
    part
}

/// Lets the call through if its argument names the caller or this program.
fn judge_process(place: u32, own: u32) -> Vec<sock_filter> {
    vec![
        load_word(argument_offset(place)),
        jump_if(JUMP_IF_EQUAL, 0, 2, 0),
        jump_if(JUMP_IF_EQUAL, own, 1, 0),
        return_action(FAIL_WITH_EPERM),
        return_action(ALLOW_CALL),
    ]
}

/// Goes on only if the argument has this value.
fn require_argument(place: u32, value: u32) -> Vec<sock_filter> {
    vec![
        load_word(argument_offset(place)),
        jump_if(JUMP_IF_EQUAL, value, 1, 0),
        return_action(FAIL_WITH_EPERM),
    ]
}

/// Lets the call through if the pointer to the new value is null: then it only reads.
fn allow_reading(place: u32) -> Vec<sock_filter> {
    vec![
        load_word(argument_offset(place)),
        jump_if(JUMP_IF_EQUAL, 0, 0, 3),
        load_word(upper_half_offset(place)),
        jump_if(JUMP_IF_EQUAL, 0, 0, 1),
        return_action(ALLOW_CALL),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 4_711;
    const OTHER: u64 = 1;
    const POINTER: u64 = 0x7f00_0000_0000;

    /// Runs the program as the kernel does.
    fn judge(program: &[sock_filter], architecture: u32, number: u32, arguments: [u64; 3]) -> u32 {
        let mut data = [number.to_le_bytes(), architecture.to_le_bytes()].concat();
        data.extend([0; 8]);
        data.extend(arguments.iter().flat_map(|argument| argument.to_le_bytes()));
        let mut at = 0;
        let mut value = 0;
        loop {
            let sock_filter { code, jt, jf, k } = program[at].clone();
            let step = |jumps: bool| 1 + usize::from(if jumps { jt } else { jf });
            at += match code {
                LOAD_INSTRUCTION => {
                    let offset = k as usize;
                    value = u32::from_le_bytes(data[offset..offset + 4].try_into().unwrap());
                    1
                }
                JUMP_IF_EQUAL => step(value == k),
                JUMP_IF_GREATER_OR_EQUAL => step(value >= k),
                RETURN_INSTRUCTION => return k,
                _ => panic!("unknown instruction {code:#x}"),
            };
        }
    }

    fn for_each_architecture(check: impl Fn(&JudgedCalls, &dyn Fn(u32, [u64; 3]) -> u32)) {
        for pair in [&[X86_64, I386], &[AARCH64, ARM]] {
            let program = assemble_program(pair, OWN);
            for calls in pair {
                check(calls, &|number, arguments| {
                    judge(&program, calls.architecture, number, arguments)
                });
            }
        }
    }

    #[test]
    fn calls_on_other_processes_fail_and_calls_on_the_caller_pass() {
        for_each_architecture(|calls, judge| {
            let own = u64::from(OWN);
            for number in calls.scheduling {
                assert_eq!(judge(number, [OTHER, 0, POINTER]), FAIL_WITH_EPERM, "{number}");
                assert_eq!(
                    [judge(number, [0, 0, POINTER]), judge(number, [own, 0, POINTER])],
                    [ALLOW_CALL; 2],
                    "{number}"
                );
                // The kernel reads a pid of 32 bits, whatever stands above it.
                assert_eq!(judge(number, [OTHER | 1 << 32, 0, 0]), FAIL_WITH_EPERM);
                assert_eq!(judge(number, [1 << 32, 0, 0]), ALLOW_CALL);
            }
            assert_eq!(judge(calls.prlimit64, [OTHER, 7, POINTER]), FAIL_WITH_EPERM);
            assert_eq!(judge(calls.prlimit64, [OTHER, 7, 0x1000]), FAIL_WITH_EPERM);
            assert_eq!(judge(calls.prlimit64, [OTHER, 7, 0]), ALLOW_CALL, "it only reads");
            assert_eq!(judge(calls.prlimit64, [0, 7, POINTER]), ALLOW_CALL);
            assert_eq!(judge(calls.prlimit64, [own, 7, POINTER]), ALLOW_CALL);
            for (number, process, others) in
                [(calls.setpriority, 0, [1, 2]), (calls.ioprio_set, 1, [2, 3])]
            {
                assert_eq!(judge(number, [process, OTHER, 5]), FAIL_WITH_EPERM);
                assert_eq!(
                    [judge(number, [process, 0, 5]), judge(number, [process, own, 5])],
                    [ALLOW_CALL; 2]
                );
                // A group may be the host's, and a user is everything.
                assert_eq!(others.map(|which| judge(number, [which, 0, 5])), [FAIL_WITH_EPERM; 2]);
            }
        });
    }

    #[test]
    fn other_calls_pass_and_unknown_architectures_have_no_calls() {
        for_each_architecture(|calls, judge| {
            let judged = [
                calls.scheduling.as_slice(),
                &[calls.prlimit64, calls.setpriority, calls.ioprio_set],
            ]
            .concat();
            for number in (0..500).filter(|number| !judged.contains(number)) {
                assert_eq!(judge(number, [OTHER, OTHER, POINTER]), ALLOW_CALL, "{number}");
            }
            assert_eq!(judge(X32_BIT | calls.prlimit64, [OTHER, 7, POINTER]), FAIL_WITH_ENOSYS);
        });
        assert_eq!(
            judge(&assemble_program(&[X86_64], OWN), I386.architecture, 1, [0; 3]),
            FAIL_WITH_ENOSYS
        );
    }
}
