//! Verbs that describe, select, set and delete sessions: `ls`, `rm`, `rename`, `label`, `archive`,
//! `set`, `fork`, `kill --all`, `prune`.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;
use wharf_testkit::processes;

use crate::cli::{
    command_for_host, expect_output, run_failing_wharf, run_wharf, start_kept_session,
};
use crate::rest::{wait_for_session, wait_until_idle};
use crate::{add_scripted_agent, parse_pids, scripted_host};

#[tokio::test]
async fn sessions_that_need_a_person_stand_first_and_can_be_selected() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let mut ids = Vec::new();
    for label in ["asking", "done", "fresh"] {
        let id = start_kept_session(&host, &["--label", label])?;
        wait_until_idle(&http, &id).await?;
        ids.push(id);
    }
    run_wharf(&host, &["prompt", "asking", "ask"])?;
    let is = |state: &'static str| move |session: &Value| session["attention"]["state"] == state;
    wait_for_session(&http, &ids[0], "an ask", is("needs_answer")).await?;
    run_wharf(&host, &["prompt", "done", "echo x"])?;
    wait_for_session(&http, &ids[1], "the end of the turn", is("finished")).await?;

    let expected = format!("{}\n{}\n{}\n", ids[0], ids[1], ids[2]);
    for words in [&["ls", "-q"][..], &["ps", "-q"], &["sessions", "--quiet"]] {
        assert_eq!(run_wharf(&host, words)?, expected, "{words:?}");
    }
    let listed = run_wharf(&host, &["ls", "--format", "label,state,attention"])?;
    assert_eq!(
        listed,
        "asking\tneeds answer\tneeds_answer\ndone\tfinished\tfinished\nfresh\tidle\tquiet\n"
    );
    let chosen: Value = serde_json::from_str(&run_wharf(&host, &["ls", "--json", "label,title"])?)?;
    let expected =
        ["asking", "done", "fresh"].map(|label| json!({ "label": label, "title": null }));
    assert_eq!(chosen, json!({ "sessions": expected }));
    for (filter, labels) in [
        ("attention=needs-answer", "asking\n"),
        ("attention=finished", "done\n"),
        ("turn=awaiting_input", "asking\n"),
        ("label=fresh", "fresh\n"),
        ("agent=nobody", ""),
        ("since=1h", "asking\ndone\nfresh\n"),
        ("before=2020-01-01T00:00:00Z", ""),
        ("status=killed", ""),
    ] {
        assert_eq!(
            run_wharf(&host, &["ls", "--format", "label", "--filter", filter])?,
            labels,
            "{filter}"
        );
    }
    for wrong in [
        &["ls", "--filter", "turn=busy"][..],
        &["ls", "--json", "id,colour"],
        &["ls", "--format", "colour"],
    ] {
        run_failing_wharf(&host, wrong, 2)?;
    }
    Ok(())
}

#[tokio::test]
async fn empty_list_says_how_to_start_a_session() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let notes = |words: &[&str]| -> Result<String> {
        let output = command_for_host(&host, words).output()?;
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
        Ok(String::from_utf8(output.stderr)?)
    };
    assert_eq!(notes(&["ls"])?, "no live sessions. Start one: wharf run demo tour\n");
    let id = start_kept_session(&host, &[])?;
    wait_until_idle(&RestClient::new(&host), &id).await?;
    run_wharf(&host, &["kill", &id])?;
    assert_eq!(
        notes(&["ls"])?,
        "no live sessions (1 ended: wharf ls -a). Start one: wharf run demo tour\n"
    );
    assert_eq!(notes(&["ls", "-q"])?, "");
    assert!(notes(&["ls", "--filter", "agent=demo"])?.contains("no session fits"));
    assert_eq!(
        run_wharf(&host, &["ls", "-q", "--filter", "status=killed"])?,
        format!("{id}\n"),
        "ended ones too"
    );
    Ok(())
}

#[tokio::test]
async fn title_label_and_archive_are_changed() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = start_kept_session(&host, &[])?;
    wait_until_idle(&http, &id).await?;
    assert_eq!(run_wharf(&host, &["label", &id, "docs"])?, format!("{id} is called \"docs\"\n"));
    assert_eq!(
        run_wharf(&host, &["rename", "docs", "The", "handbook"])?,
        format!("{id} is now \"The handbook\"\n")
    );
    let shown: Value =
        serde_json::from_str(&run_wharf(&host, &["rename", "docs", "Other", "--json"])?)?;
    assert_eq!((&shown["label"], &shown["title"]), (&json!("docs"), &json!("Other")));
    assert_eq!(run_wharf(&host, &["rename", "docs", "--clear"])?, format!("{id} has no title\n"));
    run_failing_wharf(&host, &["rename", "docs"], 2)?;

    assert_eq!(run_wharf(&host, &["archive", "docs"])?, format!("{id} archived\n"));
    assert_eq!(run_wharf(&host, &["ls", "-q"])?, "", "the archive is not listed");
    assert_eq!(run_wharf(&host, &["ls", "-q", "--filter", "archived=true"])?, format!("{id}\n"));
    run_failing_wharf(&host, &["archive", "docs", "nobody"], 4)?;
    assert_eq!(
        run_wharf(&host, &["archive", "--undo", "docs"])?,
        format!("{id} is out of the archive\n")
    );
    assert_eq!(run_wharf(&host, &["ls", "-q"])?, format!("{id}\n"));
    assert_eq!(run_wharf(&host, &["label", "docs", "--clear"])?, format!("{id} has no label\n"));
    run_failing_wharf(&host, &["show", "docs"], 4)?;
    Ok(())
}

#[tokio::test]
async fn settings_of_a_living_session_are_listed_and_set() -> Result<()> {
    let host = scripted_host(&["--models"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = start_kept_session(&host, &["--label", "docs"])?;
    wait_until_idle(&http, &id).await?;
    let settings = http.get(&format!("/sessions/{id}/settings")).await?.expect(200)?;
    let json: Value = serde_json::from_str(&run_wharf(&host, &["set", "docs", "--json"])?)?;
    assert_eq!(json, settings);
    let modes = settings["modes"]["all"].as_array().context("no modes")?;
    let current = settings["modes"]["current"].as_str().context("no mode")?;
    let other = modes
        .iter()
        .filter_map(|mode| mode["id"].as_str())
        .find(|mode| *mode != current)
        .context("one mode")?;
    let listed = run_wharf(&host, &["set", "docs", "mode"])?;
    assert!(listed.contains(&format!("mode\tcurrent\t{current}\t")), "{listed}");
    assert_eq!(
        run_wharf(&host, &["set", "docs", "mode", other])?,
        format!("{id} mode is {other}\n")
    );
    let after = http.get(&format!("/sessions/{id}/settings")).await?.expect(200)?;
    assert_eq!(after["modes"]["current"], other);
    let refused = run_failing_wharf(&host, &["set", "docs", "mode", "novel"], 2)?;
    assert!(refused.contains("novel") && refused.contains(other), "{refused}");
    run_failing_wharf(&host, &["set", "docs", "option", "novel", "x"], 4)?;
    run_failing_wharf(&host, &["set", "docs", "colour", "red"], 2)?;
    Ok(())
}

#[tokio::test]
async fn fork_copies_a_session_where_the_agent_can() -> Result<()> {
    let host =
        add_scripted_agent(scripted_host(&["--fork", "--resume"])?, "plain", &[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = start_kept_session(&host, &["--label", "source"])?;
    wait_until_idle(&http, &id).await?;
    let copy = run_wharf(&host, &["fork", "source", "--label", "copy"])?;
    assert!(copy.ends_with(&format!(" is a copy of {id}\n")), "{copy}");
    let shown: Value = serde_json::from_str(&run_wharf(&host, &["show", "copy", "--json"])?)?;
    assert_eq!(shown["forkedFrom"]["sessionId"], id.as_str());
    let other = run_wharf(&host, &["run", "plain", "--keep", "--label", "other"])?;
    wait_until_idle(&http, other.trim()).await?;
    assert!(run_failing_wharf(&host, &["fork", "other"], 5)?.contains("cannot"));
    Ok(())
}

/// The agents ignore the end of stdin and SIGTERM, so that their processes outlive the sessions'
/// end in the log by seconds.
#[tokio::test]
async fn kill_returns_when_the_processes_are_gone() -> Result<()> {
    let host = scripted_host(&["--ignore-eof", "--ignore-term"])?.start_host()?;
    let id = start_kept_session(&host, &[])?;
    let pid = agent_pid(&host, &id).await?;
    let killed = run_wharf(&host, &["kill", &id])?;
    assert!(!processes::is_alive(pid), "the agent is left after: {killed}");
    assert_eq!(killed, format!("{id} killed\n"));
    Ok(())
}

/// Returns the pid of the session's agent, once it is idle.
async fn agent_pid(host: &TestHost, id: &str) -> Result<u32> {
    wait_until_idle(&RestClient::new(host), id).await?;
    let said = run_wharf(host, &["prompt", id, "--wait", "pid"])?;
    said.lines().flat_map(parse_pids).next().with_context(|| said.clone())
}

#[tokio::test]
async fn all_living_sessions_are_killed_after_consent() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let ids = [start_kept_session(&host, &[])?, start_kept_session(&host, &[])?];
    for id in &ids {
        wait_until_idle(&RestClient::new(&host), id).await?;
    }
    assert!(run_failing_wharf(&host, &["kill", "--all"], 2)?.contains("--yes"));
    let killed = run_wharf(&host, &["kill", "--all", "--yes"])?;
    let mut lines: Vec<&str> = killed.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ids.map(|id| format!("{id} killed")));
    let again = command_for_host(&host, &["kill", "--all", "--yes"]).output()?;
    assert!(
        again.status.success()
            && String::from_utf8_lossy(&again.stderr).contains("no session lives")
    );
    Ok(())
}

#[tokio::test]
async fn prune_forgets_old_ended_sessions_and_lists_them_first() -> Result<()> {
    let host = scripted_host(&["--resume"])?.start_host()?;
    let http = RestClient::new(&host);
    let ended = start_kept_session(&host, &["--label", "ended"])?;
    let alive = start_kept_session(&host, &["--label", "alive"])?;
    for id in [&ended, &alive] {
        wait_until_idle(&http, id).await?;
    }
    run_wharf(&host, &["kill", "ended"])?;
    run_failing_wharf(&host, &["prune"], 2)?;
    run_failing_wharf(&host, &["prune", "--older-than", "never"], 2)?;
    let none = command_for_host(&host, &["prune", "--older-than", "1h", "--yes"]).output()?;
    assert!(
        String::from_utf8_lossy(&none.stderr).contains("no ended session is that old"),
        "{none:?}"
    );
    let listed = run_wharf(&host, &["prune", "--older-than", "0s", "--dry-run"])?;
    let session = http.get(&format!("/sessions/{ended}")).await?.expect(200)?;
    let ended_at = session["endedAt"].as_str().context("no end")?;
    assert_eq!(
        listed,
        format!("{ended}\tkilled\tscripted\t{ended_at}\tended\n"),
        "{alive} is alive"
    );
    assert!(run_failing_wharf(&host, &["prune", "--older-than", "0s"], 2)?.contains("--yes"));
    assert_eq!(
        run_wharf(&host, &["prune", "--older-than", "0s", "--yes"])?,
        format!("{ended} forgotten\n")
    );
    assert_eq!(run_wharf(&host, &["ls", "-aq"])?, format!("{alive}\n"));
    assert_eq!(
        expect_output(command_for_host(&host, &["rm", "-y", "alive"]).output()?, 0)?,
        format!("{alive} forgotten\n")
    );
    Ok(())
}

#[test]
fn invisible_characters_are_named_in_one_way() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let id = start_kept_session(&host, &[])?;
    let odd = "no\u{200b}such";
    for arguments in [
        &["show", odd][..],
        &["context", "use", odd],
        &["run", "scripted", "x", "-o", odd],
        &["ls", "-f", odd],
    ] {
        let output = command_for_host(&host, arguments).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("200b"), "{arguments:?}: {said}");
    }
    let said = run_failing_wharf(&host, &["show", odd], 4)?;
    assert!(said.contains("no session is called \"no[U+200B]such\""), "{said}");
    assert_eq!(
        run_wharf(&host, &["rename", &id, odd])?,
        format!("{id} is now \"no[U+200B]such\"\n")
    );
    assert_eq!(
        run_wharf(&host, &["label", &id, odd])?,
        format!("{id} is called \"no[U+200B]such\"\n")
    );
    Ok(())
}
