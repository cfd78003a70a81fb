//! Rule: one crate opens the updates of agents. Two readers of the same member differ one day.

use std::path::Path;

use super::Finding;
use super::source::Source;

const RULE: &str = "update-reader";
/// The tag of an update, and the way to it.
const SIGNS: [&str; 2] = ["sessionUpdate", "\"params\", \"update\""];
/// The crate that opens updates; an agent and the test tools, which write them.
const FREE_CRATES: [&str; 4] =
    ["crates/wharf-acp", "crates/wharf-conformance", "crates/wharf-demo", "crates/wharf-testkit"];
/// The files that make updates of Wharf's own, or change one that Wharf has made.
const MAKERS: [&str; 4] = [
    "crates/wharf-core/src/session/notice.rs",
    "crates/wharf-host/src/session/agent_connection/active_settings.rs",
    "crates/wharf-host/src/session/terminal_transcript.rs",
    "crates/wharf-server/src/acp/updates.rs",
];
/// The files of the core that count tokens and costs. The core cannot use the crate that opens
/// updates, which needs the words of the core.
const COUNTERS: [&str; 3] = [
    "crates/wharf-core/src/session/reported_cost.rs",
    "crates/wharf-core/src/session/reported_usage.rs",
    "crates/wharf-core/src/session/silent_meaning.rs",
];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    if !source.path.starts_with("crates")
        || FREE_CRATES.iter().any(|free| source.path.starts_with(free))
        || MAKERS.iter().chain(&COUNTERS).any(|path| source.path == Path::new(path))
    {
        return Vec::new();
    }
    let places = SIGNS.iter().flat_map(|sign| source.text.match_indices(sign));
    places
        .map(|(at, _)| at)
        .filter(|at| !is_comment(source, *at) && !source.is_test_at(*at))
        .map(|at| {
            let message = "only wharf-acp opens updates: ask its `AgentUpdate` or `Payload`";
            Finding::failure(&source.path, source.line_of(at), RULE, message.to_owned())
        })
        .collect()
}

fn is_comment(source: &Source, at: usize) -> bool {
    let line = source.text[..at].rfind('\n').map_or(0, |end| end + 1);
    source.text[line..].trim_start().starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let source = Source::new(Path::new(path), text.to_owned());
        check(&source).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn tag_and_path_of_an_update_are_for_the_crate_that_opens_it_and_for_makers() {
        let text = "// sessionUpdate\nlet a = \"sessionUpdate\";\nat(&[\"params\", \"update\"]);\n";
        assert_eq!(lines("crates/wharf-server/src/acp/show.rs", text), [2, 3]);
        for path in [FREE_CRATES[0], FREE_CRATES[2]] {
            assert_eq!(lines(&format!("{path}/src/a.rs"), text), [0; 0]);
        }
        assert_eq!(lines(MAKERS[0], text), [0; 0]);
        assert_eq!(lines(COUNTERS[0], text), [0; 0]);
        let test = "#[cfg(test)]\nmod tests { const A: &str = \"sessionUpdate\"; }\n";
        assert_eq!(lines("crates/wharf-host/src/a.rs", test), [0; 0]);
    }
}
