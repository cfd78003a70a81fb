//! Files that are sent with a prompt over REST (rule 17.9).

use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::http::{RestAnswer, RestClient};

use crate::recording::Recording;
use crate::rest::{caller_with_role, spawn_session, wait_until_idle};
use crate::{add_scripted_agent, scripted_host};

const PNG: &str = "\u{89}PNG";

async fn upload(
    http: &RestClient,
    id: &str,
    name: &str,
    kind: &str,
    data: &str,
) -> Result<RestAnswer> {
    http.send(
        "POST",
        &format!("/sessions/{id}/uploads?name={name}"),
        &[("content-type", kind)],
        data,
    )
    .await
}

async fn upload_id(
    http: &RestClient,
    id: &str,
    name: &str,
    kind: &str,
    data: &str,
) -> Result<String> {
    Ok(upload(http, id, name, kind, data).await?.expect(201)?["id"]
        .as_str()
        .context("no id")?
        .to_owned())
}

/// Returns the content of the prompts that the agent got.
fn prompts(recording: &Recording) -> Result<Vec<Value>> {
    let messages = recording.since_start()?.into_iter();
    Ok(messages
        .filter(|message| message["method"] == "session/prompt")
        .map(|m| m["params"]["prompt"].clone())
        .collect())
}

#[tokio::test]
async fn uploads_become_content_that_the_agent_takes() -> Result<()> {
    let recording = Recording::new()?;
    let host = recording.host_options(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let note = upload_id(&http, &id, "note.txt", "text/plain", "remember the milk").await?;
    let gif = upload_id(&http, &id, "a.gif", "image/gif", "GIF89a").await?;
    let blocks = json!([
        { "type": "text", "text": "echo thanks" }, { "type": "upload", "id": note }, { "type": "upload", "id": gif },
    ]);
    http.post(&format!("/sessions/{id}/prompt"), &json!({ "prompt": blocks }))
        .await?
        .expect(200)?;
    wait_until_idle(&http, &id).await?;
    let prompt = prompts(&recording)?.pop().context("no prompt")?;
    assert_eq!(prompt[0], json!({ "type": "text", "text": "echo thanks" }));
    assert_eq!(prompt[1]["resource"]["text"], "remember the milk");
    assert_eq!(prompt[2], json!({ "type": "image", "mimeType": "image/gif", "data": "R0lGODlh" }));

    let folder = host.state_dir().join(format!("workspaces/default/sessions/{id}/uploads"));
    for file in std::fs::read_dir(&folder)? {
        assert_eq!(file?.metadata()?.permissions().mode() & 0o777, 0o600);
    }
    http.delete(&format!("/sessions/{id}")).await?.expect(200)?;
    assert!(!folder.exists(), "they are deleted with the session");
    Ok(())
}

#[tokio::test]
async fn unusable_uploads_are_refused() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let (id, other) = (spawn_session(&http, &host).await?, spawn_session(&http, &host).await?);
    assert_eq!(upload(&http, &id, "a", "text/plain", "").await?.status, 422, "empty");
    assert_eq!(
        upload(&http, &id, "a%2Fb", "text/plain", "x").await?.status,
        422,
        "a slash in the name"
    );
    let kept = upload(&http, &id, "a", "image/png", PNG).await?.expect(201)?;
    assert_eq!(kept["mimeType"], "application/octet-stream", "the bytes decide");
    let theirs = upload_id(&http, &other, "a", "text/plain", "x").await?;
    for unknown in [theirs.as_str(), "upl_", "upl_../../start", "x"] {
        let prompt = json!({ "prompt": [{ "type": "upload", "id": unknown }] });
        let refused = http.post(&format!("/sessions/{id}/prompt"), &prompt).await?;
        assert_eq!(refused.status_and_code(), (422, "unknown_upload".to_owned()), "{unknown}");
    }
    let result = json!({ "protocolVersion": 1, "agentCapabilities": { "promptCapabilities": {} }, "authMethods": [] });
    let answer = format!(r#"initialize={{"jsonrpc":"2.0","id":@ID@,"result":{result}}}"#);
    let options = add_scripted_agent(scripted_host(&[])?, "blind", &["--answer-with", &answer])?;
    let blind_host = options.start_host()?;
    let blind_http = RestClient::new(&blind_host);
    let start = json!({ "adapter": "blind", "cwd": blind_host.directory() });
    let blind = blind_http.post("/sessions/agent", &start).await?.expect(201)?["id"].take();
    let refused =
        upload(&blind_http, blind.as_str().context("no id")?, "a.gif", "image/gif", "GIF89a")
            .await?;
    assert_eq!(refused.status_and_code(), (422, "content_not_accepted".to_owned()));
    let observer = caller_with_role(&host, "observer")?;
    assert_eq!(upload(&observer, &id, "a", "text/plain", "x").await?.status, 403);
    Ok(())
}
