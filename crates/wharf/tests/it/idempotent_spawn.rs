//! A request with an idempotency key, repeated until it is answered, is carried out once, whenever
//! the host dies (rule 7.5).

use anyhow::{Context, Result, ensure};
use serde_json::json;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;
use wharf_testkit::random::TestRandom;
use wharf_testkit::{WAIT_LIMIT, polling};

use crate::{cwd, log, scripted_host};

const KILL_ROUNDS: usize = 8;

/// The progress of a request when the host is killed.
#[derive(Clone, Copy, Debug)]
enum KillMoment {
    Sent,
    /// The session's directory exists.
    DirectoryCreated,
    /// The session's first event is in its log.
    SessionLogged,
    /// The prompt is in the log.
    Accepted,
    Answered,
}

const KILL_MOMENTS: [KillMoment; 5] = [
    KillMoment::Sent,
    KillMoment::DirectoryCreated,
    KillMoment::SessionLogged,
    KillMoment::Accepted,
    KillMoment::Answered,
];

impl KillMoment {
    fn has_come(self, host: &TestHost, known: &[String], answered: bool) -> Result<bool> {
        let sessions = log::all_sessions(host).unwrap_or_default();
        let new = sessions.iter().find(|session| !known.contains(session));
        let has = |kind: &str| {
            new.map_or(Ok(false), |new| Ok(!log::list_events(host, new, kind)?.is_empty()))
        };
        match self {
            Self::Sent => Ok(true),
            Self::DirectoryCreated => Ok(new.is_some()),
            Self::SessionLogged => has("created"),
            Self::Accepted => has("prompt_accepted"),
            Self::Answered => Ok(answered),
        }
    }
}

#[tokio::test]
async fn repeated_spawn_with_prompt_happens_once_when_the_host_is_killed_at_any_moment()
-> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let mut host = scripted_host(&[])?.start_host()?;
    let mut known: Vec<String> = Vec::new();
    for round in 0..KILL_ROUNDS {
        let moment = KILL_MOMENTS[dice.next_below(KILL_MOMENTS.len() as u64) as usize];
        let (key, body) = (
            format!("key-{round}"),
            json!({ "adapter": "scripted", "cwd": cwd(&host)?, "prompt": "echo once" }),
        );
        let there = log::all_sessions(&host).unwrap_or_default();
        let http = RestClient::new(&host);
        let sent = tokio::spawn({
            let (key, body) = (key.clone(), body.clone());
            async move { http.post_with("/sessions/agent", ("idempotency-key", &key), &body).await }
        });
        let come = polling::poll_until(WAIT_LIMIT, || {
            Ok(moment.has_come(&host, &there, sent.is_finished())?.then_some(()))
        })
        .await?;
        come.with_context(|| format!("{moment:?} did not come"))?;
        host.kill()?;
        let _ = sent.await?;
        host.restart()?;
        let again = RestClient::new(&host)
            .post_with("/sessions/agent", ("idempotency-key", &key), &body)
            .await?;
        ensure!(matches!(again.status, 200 | 201), "{moment:?}: {} {}", again.status, again.body);
        let session = again.json()["id"].as_str().context("no id")?.to_owned();
        ensure!(!known.contains(&session), "{moment:?}: that is another one's");
        // A session whose agent was never up when the host died cannot come back; the repeated
        // request says so and runs nothing.
        let lost =
            again.json()["endReason"] == "host_restarted" && again.json()["resumable"] == false;
        if !lost {
            log::expect_event(&host, &session, "prompt_ended", |_| true)
                .await
                .with_context(|| format!("{moment:?}"))?;
        }
        known.push(session.clone());
        let sessions = log::all_sessions(&host)?;
        let listed = RestClient::new(&host).get("/sessions?limit=100").await?.expect(200)?;
        let listed = listed["sessions"].as_array().map_or(0, Vec::len);
        ensure!(sessions.len() <= known.len() + 1, "{moment:?}: {} are left", sessions.len());
        ensure!(
            listed == known.len(),
            "{moment:?}: {listed} listed, {} known, {} there",
            known.len(),
            sessions.len()
        );
        let accepted = log::list_events(&host, &session, "prompt_accepted")?.len();
        let ended = log::list_events(&host, &session, "prompt_ended")?.len();
        let expected = if lost && accepted == 0 { (0, 0) } else { (1, 1) };
        ensure!((accepted, ended) == expected, "{moment:?}: {accepted} accepted, {ended} ended");
    }
    Ok(())
}
