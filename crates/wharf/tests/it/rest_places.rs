//! Places to start a session, and what is known of agents before one (rule 17.8).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::http::RestClient;

use crate::rest::{caller_with_role, spawn_session};
use crate::scopes::{register_workspace, start_session, workspace_caller};
use crate::{add_scripted_agent, scripted_host};

#[tokio::test]
async fn places_are_those_that_the_token_may_use() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let (here, other) =
        (register_workspace(&host, "here").await?, register_workspace(&host, "other").await?);
    for slug in ["other", "here", "here"] {
        start_session(&http, &json!({ "workspaceSlug": slug })).await?;
    }
    let all = http.get("/places").await?.expect(200)?;
    let recent = all["recent"].as_array().context("no list")?;
    let cwds: Vec<&Value> = recent.iter().map(|place| &place["cwd"]).collect();
    assert_eq!(cwds, [&json!(here), &json!(other)], "the last used first: {all}");
    assert_eq!(
        (&recent[0]["sessions"], &recent[0]["adapterSlug"]),
        (&json!(2), &json!("scripted"))
    );
    let slugs: Vec<&Value> = all["workspaces"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|known| &known["slug"])
        .collect();
    assert_eq!(slugs, ["here", "other"]);
    assert_eq!(
        http.get("/places?limit=1").await?.expect(200)?["recent"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    let own = workspace_caller(&host, "other")?.get("/places").await?.expect(200)?;
    assert!(!own.to_string().contains(here.to_str().context("not UTF-8")?), "{own}");
    assert_eq!(own["recent"][0]["cwd"], json!(other));
    assert_eq!(own["workspaces"][0]["slug"], "other");
    assert_eq!(caller_with_role(&host, "observer")?.get("/places").await?.status, 403);
    for wrong in ["limit=0", "limit=101"] {
        assert_eq!(http.get(&format!("/places?{wrong}")).await?.status, 422);
    }
    Ok(())
}

#[tokio::test]
async fn adapters_tell_what_is_known_of_their_agents() -> Result<()> {
    let options = add_scripted_agent(scripted_host(&[])?, "locked", &["--auth"])?;
    let host = options.start_host()?;
    let http = RestClient::new(&host);
    let adapter = async |slug: &str| -> Result<Value> {
        let listed = http.get("/adapters").await?.expect(200)?;
        let mut adapters = listed["adapters"].as_array().context("no list")?.iter();
        adapters.find(|adapter| adapter["slug"] == slug).cloned().context("no adapter")
    };
    let before = adapter("scripted").await?;
    assert_eq!(
        (&before["login"], before.get("accepts")),
        (&json!("unknown"), None),
        "it was never started"
    );
    spawn_session(&http, &host).await?;
    let after = adapter("scripted").await?;
    assert_eq!(after["accepts"], json!(["image", "audio", "embedded"]));
    assert_eq!(
        (&after["login"], &after["forks"]),
        (&json!("yes"), &json!(false)),
        "it needs no login"
    );
    assert_eq!(after["agentVersion"], env!("CARGO_PKG_VERSION"));
    let refused = http
        .post("/sessions/agent", &json!({ "adapter": "locked", "cwd": host.directory() }))
        .await?;
    assert_eq!(refused.status, 502, "{}", refused.body);
    assert_eq!(adapter("locked").await?["login"], "no");
    Ok(())
}
