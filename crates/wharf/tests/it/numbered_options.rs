//! Options of permissions whose ids are numbers (rule 12.3). ACP has texts there, and some agents
//! number their options.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::http::RestClient;

use crate::{log, open_session, scripted_host, stop_reason};

/// Options whose ids are numbers, as some agents number them.
const NUMBERED_OPTIONS: &str = r#"[{"optionId":1,"name":"Yes","kind":"allow_once"},{"optionId":2.0,"name":"No","kind":"reject_once"},{"optionId":"3","name":"Never","kind":"reject_always"}]"#;

#[tokio::test]
async fn option_id_that_is_a_number_is_answered_in_the_agents_own_spelling() -> Result<()> {
    let host = scripted_host(&["--session-id", "agent-1"])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let http = RestClient::new(&host);
    let ask = format!(
        r#"ext session/request_permission {{"sessionId":"agent-1","toolCall":{{"toolCallId":"t"}},"options":{NUMBERED_OPTIONS}}}"#
    );
    // A client answers with the number or with its text; REST has texts alone.
    for (answer, told, option) in [
        (Some("1"), "1", "1"),
        (Some(r#""1""#), "1", "1"),
        (Some("2"), "2.0", "2"),
        (Some("3"), r#""3""#, "3"),
        (None, "2.0", "2"),
    ] {
        let running = client.start_prompt(&session, &ask).await;
        let asked = client.expect_request("session/request_permission").await;
        match answer {
            Some(answer) => {
                let result =
                    format!(r#"{{"outcome":{{"outcome":"selected","optionId":{answer}}}}}"#);
                client
                    .send_raw(&format!(
                        r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#,
                        asked.id()
                    ))
                    .await;
            }
            None => {
                let open =
                    http.get(&format!("/sessions/{session}/asks")).await?.expect(200)?["asks"][0]
                        .take();
                let ids: Vec<_> =
                    (0..3).map(|place| open["options"][place]["optionId"].clone()).collect();
                assert_eq!(ids, ["1", "2", "3"], "{open}");
                let path = format!("/sessions/{session}/asks/{}", open["askId"]);
                http.post(&path, &json!({ "optionId": option })).await?.expect(200)?;
            }
        }
        assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
        let resolved = log::list_events(&host, &session, "ask_resolved")?
            .pop()
            .context("not resolved")?;
        assert_eq!(resolved["outcome"]["option"], option, "{resolved}");
        let told_value: Value = serde_json::from_str(told)?;
        let logged = &resolved["outcome"]["answer"]["result"]["outcome"]["optionId"];
        assert_eq!(*logged, told_value, "the log has what the agent was told");
        let said = client.chunk_texts().pop().context("the agent said nothing")?;
        assert_eq!(said, format!("chosen: {}", told.trim_matches('"')));
    }
    Ok(())
}

#[tokio::test]
async fn option_id_that_is_no_word_is_refused_and_reported() -> Result<()> {
    let host = scripted_host(&["--session-id", "agent-1"])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    for id in ["null", "true", "[1]", r#"{"id":1}"#] {
        let ask = format!(
            r#"ext session/request_permission {{"sessionId":"agent-1","options":[{{"optionId":{id},"name":"Yes"}}]}}"#
        );
        assert_eq!(stop_reason(client.send_prompt(&session, &ask).await)?, "end_turn", "{id}");
        let said = client.chunk_texts().pop().context("the agent said nothing")?;
        ensure!(said.contains("-32602"), "{id}: {said}");
    }
    assert_eq!(log::list_events(&host, &session, "agent_faulted")?.len(), 4);
    Ok(())
}
