//! Files outside of the roots, by a real process.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::super::{FilesAndTerminals, Roots, ServiceError, answer_request};
use crate::agent::Launch;
use crate::agent::directory_identity::DirectoryIdentity;
use crate::agent::process_records::ProcessRecords;
use crate::agent::process_table::descendant_pids;

fn tools(dir: &Path, program: std::path::PathBuf) -> FilesAndTerminals {
    let cwd = dir.join("cwd");
    std::fs::create_dir_all(&cwd).unwrap();
    let launch = Launch {
        is_kept: false,
        token_issuer: None,
        log: None,
        program,
        command: vec!["agent".to_owned()],
        env: BTreeMap::new(),
        cwd: cwd.clone(),
        sandbox: None,
        tag: format!("test.{}", crate::random_text(12)),
        records: ProcessRecords::new(
            dir.join("running"),
            DirectoryIdentity::load_or_create(dir).unwrap(),
        ),
        scope: wharf_config::KeeperScope::None,
        frame_limit: 1 << 20,
        timeout: None,
    };
    FilesAndTerminals::new(Roots::new(cwd, Vec::new()), launch, std::process::id())
}

fn request(method: &str, params: &serde_json::Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

#[tokio::test]
async fn large_and_odd_files_are_read_and_written_outside_of_the_roots() {
    let temp = tempfile::tempdir().unwrap();
    let tools = tools(temp.path(), wharf_testkit::program::find_wharf().unwrap());
    let path = temp.path().join("large");
    // As large as a file may be, every character escaped in JSON.
    let text = "\"\n".repeat(1 << 19);
    let write = request("fs/write_text_file", &json!({ "path": path, "content": text }));
    answer_request(&tools, "fs/write_text_file", write.as_bytes()).await.unwrap();
    let read = request("fs/read_text_file", &json!({ "path": path }));
    assert_eq!(
        answer_request(&tools, "fs/read_text_file", read.as_bytes()).await.unwrap()["content"],
        text
    );
    let part = request("fs/read_text_file", &json!({ "path": path, "line": 3, "limit": 2 }));
    assert_eq!(
        answer_request(&tools, "fs/read_text_file", part.as_bytes()).await.unwrap()["content"],
        "\"\n\"\n"
    );
    std::fs::write(&path, "x".repeat((1 << 20) + 1)).unwrap();
    let error = answer_request(&tools, "fs/read_text_file", read.as_bytes()).await.unwrap_err();
    assert!(error.to_string().contains("is larger than 1048576 bytes"), "{error}");
    std::fs::write(&path, [0xff]).unwrap();
    let error = answer_request(&tools, "fs/read_text_file", read.as_bytes()).await.unwrap_err();
    assert!(
        matches!(&error, ServiceError::Outsiders { code: -32602, message, .. } if message.contains("UTF-8")),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_process_that_hangs_ends_with_the_agent() {
    let temp = tempfile::tempdir().unwrap();
    let wharf = wharf_testkit::program::find_wharf().unwrap();
    let (program, started) = (temp.path().join("program"), temp.path().join("started"));
    // The keeper is real; the process that is to serve the file never answers.
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = __files ]; then echo > {}; exec tail -f /dev/null; fi\nexec {} \"$@\"\n",
        started.display(),
        wharf.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let tools = tools(temp.path(), program);
    let read = request("fs/read_text_file", &json!({ "path": "/etc/hostname" }));
    let working = {
        let tools = tools.clone();
        tokio::spawn(
            async move { answer_request(&tools, "fs/read_text_file", read.as_bytes()).await },
        )
    };
    let look = wharf_testkit::polling::poll_until(wharf_testkit::WAIT_LIMIT, || {
        Ok(started.exists().then_some(()))
    })
    .await;
    assert!(look.unwrap().is_some(), "it was not started");
    let running = descendant_pids(std::process::id());
    tools.close();
    let error = tokio::time::timeout(Duration::from_secs(5), working)
        .await
        .unwrap()
        .unwrap()
        .unwrap_err();
    assert!(error.to_string().contains("the agent is ending"), "{error}");
    let gone = move || wharf_testkit::processes::wait_gone(&running, wharf_testkit::WAIT_LIMIT);
    assert_eq!(tokio::task::spawn_blocking(gone).await.unwrap(), Ok(()));
}
