//! A watch without a host: how it handles an ask that nobody answers.

use clap::Parser;
use serde_json::json;

use super::*;
use crate::connect::HostAddress;

const LIMIT: Duration = Duration::from_secs(600);

fn options(ask_policy: AskPolicy) -> WatchOptions {
    WatchOptions {
        format: TurnFormat::Lines,
        screen: Screen::PIPE,
        ask_policy,
        timeout: None,
        from_start: true,
        is_attended: false,
    }
}

fn permission(id: u64) -> AnswerableAsk {
    let ask = json!({ "askId": id, "kind": "permission", "options": [], "params": {} });
    AnswerableAsk(serde_json::from_value(ask).unwrap())
}

#[tokio::test]
async fn ask_that_nobody_answers_cancels_the_turn_after_the_limit() {
    let client = HostClient::unconnected(HostAddress::Socket("/nonexistent/wharf.sock".into()));
    let turn = WatchedTurn {
        client: &client,
        session: "sess_1",
        name: "sess_1",
        prompt: "p",
        agent: "a",
    };
    let mut watch = TurnWatch::new(turn, options(AskPolicy::Others(Some(LIMIT))));
    let before = Instant::now();
    watch.leave_open(&permission(7)).await.unwrap();
    let due_at = watch.deadlines.next().unwrap();
    assert!((before + LIMIT..=Instant::now() + LIMIT).contains(&due_at));
    assert_eq!(watch.handle_deadline(before).await.unwrap(), None);
    assert_eq!(watch.deadlines.cancel_reason(), None);
    // There is no host that could take the interrupt.
    watch.handle_deadline(due_at).await.unwrap_err();
    assert_eq!(watch.deadlines.cancel_reason(), Some(&WatchEnd::Unanswered));
}

#[derive(Debug, Parser)]
struct AskArguments {
    #[command(flatten)]
    asks: AskFlags,
}

/// An agent may offer no answer that allows once, and a form never does.
#[tokio::test]
async fn ask_that_allow_cannot_answer_has_a_limit_where_no_person_is_present() {
    let client = HostClient::unconnected(HostAddress::Socket("/nonexistent/wharf.sock".into()));
    let turn = WatchedTurn {
        client: &client,
        session: "sess_1",
        name: "sess_1",
        prompt: "p",
        agent: "a",
    };
    let flags = AskArguments::try_parse_from(["wharf", "--allow"]).unwrap().asks;
    for is_person_present in [false, true] {
        let mut watch = TurnWatch::new(turn, options(flags.ask_policy(is_person_present)));
        watch.leave_open(&permission(7)).await.unwrap();
        assert_eq!(watch.deadlines.next().is_none(), is_person_present);
    }
}

#[tokio::test]
async fn answered_ask_has_no_limit_any_more() {
    let client = HostClient::unconnected(HostAddress::Socket("/nonexistent/wharf.sock".into()));
    let turn = WatchedTurn {
        client: &client,
        session: "sess_1",
        name: "sess_1",
        prompt: "p",
        agent: "a",
    };
    let mut watch = TurnWatch::new(turn, options(AskPolicy::Others(Some(LIMIT))));
    for id in [7, 8] {
        watch.leave_open(&permission(id)).await.unwrap();
    }
    watch.withdraw_ask(7);
    assert!(watch.deadlines.next().is_some(), "the other ask is still open");
    watch.withdraw_ask(8);
    assert_eq!(watch.deadlines.next(), None);
}
