//! Files for completion over REST (rule 17.6).

use std::os::unix::fs::symlink;

use anyhow::Result;
use serde_json::{Value, json};
use wharf_testkit::http::RestClient;

use crate::rest::{caller_with_role, spawn_session};
use crate::scopes::{register_workspace, workspace_caller};
use crate::scripted_host;

fn paths(answer: &Value) -> Vec<&str> {
    answer["files"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|file| file["path"].as_str())
        .collect()
}

#[tokio::test]
async fn files_of_a_session_are_found_without_ignored_ones_and_links_outside() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let (root, outside) = (host.directory(), tempfile::tempdir()?);
    std::fs::create_dir_all(root.join("src/parser"))?;
    for file in ["src/parser/quokka.rs", "src/quokka.log", "quokka.md"] {
        std::fs::write(root.join(file), "")?;
    }
    std::fs::write(root.join(".gitignore"), "*.log")?;
    std::fs::write(outside.path().join("quokka-secret"), "")?;
    symlink(outside.path(), root.join("quokka-link"))?;
    symlink(outside.path().join("quokka-secret"), root.join("quokka-file-link"))?;
    let id = spawn_session(&http, &host).await?;
    let found = http.get(&format!("/sessions/{id}/files?q=quokka")).await?.expect(200)?;
    if found["partial"] == false {
        assert_eq!(paths(&found), ["quokka.md", "src/parser/quokka.rs"], "{found}");
    }
    assert!(
        paths(&found).iter().all(|path| !path.contains("link") && !path.contains("log")),
        "{found}"
    );
    let one = http
        .get(&format!("/sessions/{id}/files?q=parser/&limit=1"))
        .await?
        .expect(200)?;
    let file = json!({ "path": "src/parser/quokka.rs", "absolute": root.join("src/parser/quokka.rs"), "kind": "file" });
    assert!(one["partial"] == true || one["files"] == json!([file]), "{one}");
    for wrong in ["limit=0", "limit=101", "limit=x"] {
        assert_eq!(
            http.get(&format!("/sessions/{id}/files?{wrong}")).await?.status,
            422,
            "{wrong}"
        );
    }
    let observer = caller_with_role(&host, "observer")?;
    let refused = observer.get(&format!("/sessions/{id}/files")).await?;
    assert_eq!(refused.status_and_code(), (403, "observer".to_owned()));
    Ok(())
}

#[tokio::test]
async fn files_before_a_session_are_found_in_directories_of_the_caller_only() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (here, other) =
        (register_workspace(&host, "here").await?, register_workspace(&host, "other").await?);
    std::fs::write(here.join("mine.txt"), "")?;
    std::fs::write(other.join("theirs.txt"), "")?;
    symlink(&other, here.join("way-out"))?;
    let own = workspace_caller(&host, "here")?;
    let find = async |http: &RestClient, cwd: &std::path::Path| {
        http.get(&format!("/files?cwd={}&q=txt", cwd.display())).await
    };
    let found = find(&own, &here).await?.expect(200)?;
    assert!(found["partial"] == true || paths(&found) == ["mine.txt"], "{found}");
    for outside in [
        other.as_path(),
        &here.join("way-out"),
        &here.join("../other"),
        "/etc".as_ref(),
        "/nowhere".as_ref(),
    ] {
        let refused = find(&own, outside).await?;
        assert_eq!(
            refused.status_and_code(),
            (403, "cwd_not_allowed".to_owned()),
            "{}",
            outside.display()
        );
    }
    let admin = RestClient::new(&host);
    assert_eq!(find(&admin, &other).await?.status, 200);
    for (cwd, code) in [("/nowhere", "invalid_cwd"), ("relative", "invalid_cwd")] {
        assert_eq!(
            find(&admin, cwd.as_ref()).await?.status_and_code(),
            (422, code.to_owned()),
            "{cwd}"
        );
    }
    assert_eq!(admin.get("/files").await?.status, 422);
    assert_eq!(find(&caller_with_role(&host, "observer")?, &here).await?.status, 403);
    Ok(())
}
