//! The use of an agent by an editor, from the first connection to the last, over any transport.

use agent_client_protocol::DynConnectTo;
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    CloseSessionRequest, SessionId, SessionUpdate, SetSessionModeRequest, StopReason,
};
use agent_client_protocol_http::HttpClient;
use anyhow::{Context, Result, ensure};
use reqwest::ClientBuilder;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use wharf_testkit::host::{HostOptions, TestHost};

use crate::editor::{Editor, HostTransport};

/// Returns the SDK's client for this address, with the host's token and without a proxy.
pub(crate) fn transport(
    host: &TestHost,
    url: &str,
    configure: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Result<HostTransport> {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, format!("Bearer {}", host.token()).parse()?);
    let builder = HttpClient::builder_with_endpoint(url)
        .configure_http(|http| configure(http.no_proxy().default_headers(headers)));
    Ok(DynConnectTo::new(builder.build()?))
}

/// Runs the whole scenario against a new host; `way` creates the transport for each connection.
pub(crate) async fn run(way: impl Fn(&TestHost) -> Result<HostTransport>) -> Result<()> {
    let host = HostOptions::with_scripted_agent(&["--close", "--resume"])?.start_host()?;
    let first = Editor::connect(way(&host)?).await?;
    let session = open_session(&first, &host).await?;
    check_streaming(&first, &session).await?;
    check_permissions(&first, &session).await?;
    check_cancels(&first, &session).await?;
    let told = first.chunk_texts();
    first.leave().await?;

    let second = Editor::connect(way(&host)?).await?;
    check_return(&second, &session, &host, &told).await?;
    let third = Editor::connect(way(&host)?).await?;
    check_sharing(&second, &third, &session, &host).await?;
    let fourth = Editor::connect(way(&host)?).await?;
    check_resume(fourth, &session, &host).await?;
    check_close(second, third, &session).await?;
    check_end(&session, &host).await
}

async fn open_session(editor: &Editor, host: &TestHost) -> Result<SessionId> {
    let agent = editor.initialize().await?;
    assert_eq!(agent.protocol_version, ProtocolVersion::V1);
    let can = agent.agent_capabilities;
    assert!(can.load_session && can.prompt_capabilities.image, "{can:?}");
    let sessions = &can.session_capabilities;
    assert!(
        sessions.list.is_some() && sessions.close.is_some() && sessions.resume.is_some(),
        "{sessions:?}"
    );
    assert_eq!(agent.agent_info.context("no agentInfo")?.name, "wharf-scripted-agent");

    let opened = editor.open_session(host.directory()).await?;
    assert_eq!(opened.modes.context("no modes")?.current_mode_id.to_string(), "ask");
    assert_eq!(opened.config_options.context("no options")?.len(), 1);
    Ok(opened.session_id)
}

async fn check_streaming(editor: &Editor, session: &SessionId) -> Result<()> {
    editor.call_method(SetSessionModeRequest::new(session.clone(), "auto")).await?;
    let script = "think hm; plan; tool; title A talk; usage; commands; stream 200 300; mode";
    assert_eq!(editor.send_prompt(session, script).await?, StopReason::EndTurn);
    let texts = editor.chunk_texts();
    let numbers: Vec<&str> = texts
        .iter()
        .filter_map(|text| text.split_once(' '))
        .map(|(first, _)| first)
        .collect();
    let expected: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    assert_eq!(numbers[..200], expected, "the chunks, all before the answer and in order");
    assert!(numbers[200].starts_with("mode=auto"), "{numbers:?}");
    assert!(editor.has_update(|update| matches!(update, SessionUpdate::AgentThoughtChunk(_))));
    assert!(editor.has_update(|update| matches!(update, SessionUpdate::Plan(_))));
    assert!(editor.has_update(|update| matches!(update, SessionUpdate::ToolCall(_))));
    assert!(editor.has_update(|update| matches!(update, SessionUpdate::SessionInfoUpdate(_))));
    assert!(editor.has_update(|update| matches!(update, SessionUpdate::UsageUpdate(_))));
    assert!(
        editor.has_update(|update| matches!(update, SessionUpdate::AvailableCommandsUpdate(_)))
    );
    assert!(editor.heard_only_of(session));
    Ok(())
}

async fn check_permissions(editor: &Editor, session: &SessionId) -> Result<()> {
    assert_eq!(
        editor.send_prompt(session, "ask 2; id0; stringid; echo permitted").await?,
        StopReason::EndTurn
    );
    let texts = editor.chunk_texts();
    let told = &texts[texts.len() - 5..];
    assert_eq!(told[..4], ["chosen: allow_once"; 4]);
    assert_eq!(told[4], "permitted");
    Ok(())
}

/// Cancels while the agent works, and while it waits for a permission.
async fn check_cancels(editor: &Editor, session: &SessionId) -> Result<()> {
    let working = editor.send_prompt(session, "echo on it; hang");
    let cancelling = async {
        editor.wait_until_text("on it").await?;
        editor.cancel_turn(session)
    };
    let (stopped, cancelled) = tokio::join!(working, cancelling);
    cancelled?;
    assert_eq!(stopped?, StopReason::Cancelled);

    editor.leave_asks_to_others();
    let asking = editor.send_prompt(session, "ask");
    let cancelling = async {
        editor.wait_until("ask", |seen| seen.asks.len() == 5).await?;
        editor.cancel_turn(session)?;
        editor.wait_until("withdrawal", |seen| seen.withdrawn == 1).await
    };
    let (stopped, cancelled) = tokio::join!(asking, cancelling);
    cancelled?;
    assert_eq!(stopped?, StopReason::Cancelled);
    Ok(())
}

/// Checks that the session outlived its connection: it is listed, and loading it replays the
/// conversation.
async fn check_return(
    editor: &Editor,
    session: &SessionId,
    host: &TestHost,
    told: &[String],
) -> Result<()> {
    editor.initialize().await?;
    let listed = editor.list_sessions().await?;
    let entry = listed
        .iter()
        .find(|entry| entry.session_id == *session)
        .context("the session is not listed")?;
    assert_eq!((entry.cwd.as_path(), entry.title.as_deref()), (host.directory(), Some("A talk")));
    let loaded = editor.load_session(session, host.directory()).await?;
    assert_eq!(loaded.modes.context("no modes")?.current_mode_id.to_string(), "auto");
    assert_eq!(editor.chunk_texts(), told, "the replay, all of it before the answer");
    assert_eq!(editor.prompt_texts().len(), 4, "{:?}", editor.prompt_texts());
    assert!(editor.heard_only_of(session));
    Ok(())
}

/// Shares a session between two clients: messages of one reach the other, and one of them answers a
/// permission.
async fn check_sharing(
    here: &Editor,
    there: &Editor,
    session: &SessionId,
    host: &TestHost,
) -> Result<()> {
    there.initialize().await?;
    there.load_session(session, host.directory()).await?;
    here.leave_asks_to_others();
    assert_eq!(
        there.send_prompt(session, "echo hello; ask; echo shared").await?,
        StopReason::EndTurn
    );
    here.wait_until_text("shared").await?;
    here.wait_until("withdrawal", |seen| seen.withdrawn == 1).await?;
    let shown = here.prompt_texts();
    assert_eq!(shown.last().map(String::as_str), Some("echo hello; ask; echo shared"));
    let told = ["hello", "chosen: allow_once", "shared"];
    assert!(here.chunk_texts().ends_with(&told.map(str::to_owned)), "{:?}", here.chunk_texts());
    assert_eq!(here.chunk_texts(), there.chunk_texts());
    Ok(())
}

/// Joins the session again without its past, and goes on with it.
async fn check_resume(editor: Editor, session: &SessionId, host: &TestHost) -> Result<()> {
    editor.initialize().await?;
    let resumed = editor.resume_session(session, host.directory()).await?;
    assert_eq!(resumed.modes.context("no modes")?.current_mode_id.to_string(), "auto");
    assert_eq!(editor.send_prompt(session, "echo back").await?, StopReason::EndTurn);
    assert_eq!(editor.chunk_texts(), ["back"], "a resume replays nothing");
    editor.leave().await
}

/// Checks that the last close has ended the session.
#[expect(clippy::disallowed_methods, reason = "it reads what Wharf wrote")]
async fn check_end(session: &SessionId, host: &TestHost) -> Result<()> {
    let url = format!("{}/sessions/{session}", host.url());
    let client = ClientBuilder::new().no_proxy().build()?;
    let answer = client.get(url).bearer_auth(host.token()).send().await?.error_for_status()?;
    let ended: serde_json::Value = serde_json::from_str(&answer.text().await?)?;
    assert_eq!(
        (&ended["status"], &ended["endReason"]),
        (&"killed".into(), &"closed".into()),
        "{ended}"
    );
    Ok(())
}

/// Closes the session on one of two connections, which leaves it to the other, and then on the
/// other, which ends it.
async fn check_close(last: Editor, other: Editor, session: &SessionId) -> Result<()> {
    other.call_method(CloseSessionRequest::new(session.clone())).await?;
    assert_eq!(last.send_prompt(session, "echo still here").await?, StopReason::EndTurn);
    ensure!(
        !other.chunk_texts().contains(&"still here".to_owned()),
        "a closed session still talks"
    );
    last.call_method(CloseSessionRequest::new(session.clone())).await?;
    other.leave().await?;
    last.leave().await
}
