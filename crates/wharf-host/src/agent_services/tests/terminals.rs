//! Commands under the real keeper, through the same door that the agent's requests take.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::super::{FilesAndTerminals, Roots, ServiceError, answer_request, is_served};
use crate::agent::Launch;
use crate::agent::directory_identity::DirectoryIdentity;
use crate::agent::process_records::ProcessRecords;
use crate::agent::process_table::TAG_VARIABLE;

struct Bench {
    temp: tempfile::TempDir,
    tools: FilesAndTerminals,
}

fn bench() -> Bench {
    let temp = tempfile::tempdir().unwrap();
    let cwd = temp.path().join("cwd");
    std::fs::create_dir_all(cwd.join("sub")).unwrap();
    let launch = Launch {
        is_kept: false,
        token_issuer: None,
        log: None,
        program: wharf_testkit::program::find_wharf().unwrap(),
        command: vec!["agent".to_owned()],
        env: BTreeMap::from([("OF_AGENT".to_owned(), "yes".to_owned())]),
        cwd: cwd.clone(),
        sandbox: None,
        tag: format!("test.{}", crate::random_text(12)),
        records: ProcessRecords::new(
            temp.path().join("running"),
            DirectoryIdentity::load_or_create(temp.path()).unwrap(),
        ),
        scope: wharf_config::KeeperScope::None,
        frame_limit: 1 << 20,
        timeout: None,
    };
    Bench {
        tools: FilesAndTerminals::new(Roots::new(cwd, Vec::new()), launch, std::process::id()),
        temp,
    }
}

impl Bench {
    fn cwd(&self) -> PathBuf {
        self.temp.path().join("cwd")
    }

    async fn call(&self, method: &str, params: Value) -> Result<Value, ServiceError> {
        assert!(is_served(method));
        let frame =
            json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        // Longer than the five seconds that a tree has to end.
        tokio::time::timeout(
            Duration::from_secs(30),
            answer_request(&self.tools, method, frame.as_bytes()),
        )
        .await
        .unwrap()
    }

    async fn create(&self, mut params: Value) -> Result<String, ServiceError> {
        params["sessionId"] = "s".into();
        let created = self.call("terminal/create", params).await?;
        Ok(created["terminalId"].as_str().unwrap().to_owned())
    }

    async fn shell(&self, script: &str) -> String {
        self.create(json!({ "command": "sh", "args": ["-c", script] })).await.unwrap()
    }

    async fn on(&self, verb: &str, id: &str) -> Result<Value, ServiceError> {
        self.call(&format!("terminal/{verb}"), json!({ "sessionId": "s", "terminalId": id }))
            .await
    }

    /// Runs to the end and gives the output.
    async fn finish(&self, params: Value) -> Value {
        let id = self.create(params).await.unwrap();
        self.on("wait_for_exit", &id).await.unwrap();
        self.on("output", &id).await.unwrap()
    }

    /// A pipe with a name, `$1` of [`Bench::lively`]: it tells when a script is up, and when nobody
    /// holds it any more.
    fn fifo(&self, name: &str) -> PathBuf {
        let path = self.temp.path().join(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        path
    }

    /// Starts a script that says "up" to file 9 when it is, and waits for that.
    async fn lively(&self, name: &str, script: &str) -> (String, Held) {
        let fifo = self.fifo(name);
        let id =
            self.create(json!({ "command": "sh", "args": ["-c", format!("exec 9>\"$1\"; {script}"), "sh", fifo] }));
        let id = id.await.unwrap();
        let held = blocking(move || {
            let mut held = BufReader::new(std::fs::File::open(fifo).unwrap());
            let mut word = String::new();
            held.read_line(&mut word).unwrap();
            assert_eq!(word, "up\n");
            Held(held)
        });
        (id, held.await)
    }
}

/// Open as long as anything of the script lives.
struct Held(BufReader<std::fs::File>);

impl Held {
    async fn gone(mut self) {
        blocking(move || self.0.read_to_end(&mut Vec::new()).unwrap()).await;
    }
}

async fn blocking<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let run = tokio::task::spawn_blocking(run);
    tokio::time::timeout(Duration::from_secs(30), run).await.unwrap().unwrap()
}

fn code(code: i32) -> Value {
    json!({ "exitCode": code, "signal": null })
}

#[tokio::test]
async fn output_is_kept_in_order_and_the_exit_told_to_all_who_wait() {
    let bench = bench();
    let id = bench.shell("echo out; echo err >&2; echo out again; exit 3").await;
    let waits = tokio::join!(bench.on("wait_for_exit", &id), bench.on("wait_for_exit", &id));
    assert_eq!((waits.0.unwrap(), waits.1.unwrap()), (code(3), code(3)));
    let shown =
        json!({ "output": "out\nerr\nout again\n", "truncated": false, "exitStatus": code(3) });
    assert_eq!(bench.on("output", &id).await.unwrap(), shown);
    assert_eq!(bench.tools.terminals.output_text(&id).as_deref(), Some("out\nerr\nout again\n"));
    assert_eq!(bench.on("wait_for_exit", &id).await.unwrap(), code(3));
}

#[tokio::test]
async fn a_running_command_shows_what_it_has_so_far() {
    let bench = bench();
    let (id, held) = bench.lively("fifo", "echo so far; echo up >&9; tail -f /dev/null").await;
    // Written before the word, but perhaps not read yet by us.
    let shown = loop {
        let shown = bench.on("output", &id).await.unwrap();
        if shown["output"] != "" {
            break shown;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(shown, json!({ "output": "so far\n", "truncated": false, "exitStatus": null }));
    bench.on("kill", &id).await.unwrap();
    bench.on("kill", &id).await.unwrap();
    assert_eq!(
        bench.on("wait_for_exit", &id).await.unwrap(),
        json!({ "exitCode": null, "signal": "SIGTERM" })
    );
    assert_eq!(bench.on("output", &id).await.unwrap()["output"], "so far\n");
    held.gone().await;
}

#[tokio::test]
async fn the_command_has_nothing_to_read_and_its_own_environment() {
    let bench = bench();
    let shown = bench
        .finish(json!({
            "command": "sh",
            "args": ["-c", format!("cat; echo $OF_AGENT $MINE ${{{TAG_VARIABLE}:+tagged}}; pwd"), 7],
            "env": [{ "name": "MINE", "value": "a b" }, { "name": TAG_VARIABLE, "value": "" }, "nonsense"],
            "cwd": bench.cwd().join("sub"),
            "outputByteLimit": "nonsense",
        }))
        .await;
    let pwd = bench.cwd().join("sub").canonicalize().unwrap();
    assert_eq!(shown["output"], format!("yes a b tagged\n{}\n", pwd.display()));
    let bad = json!({ "command": "true", "env": [{ "name": "A=B", "value": "" }] });
    assert_eq!(bench.create(bad).await.unwrap_err().code(), -32602);
}

#[tokio::test]
async fn a_whole_line_without_arguments_is_given_to_a_shell() {
    let bench = bench();
    let shown = bench.finish(json!({ "command": "echo one two | tr a-z A-Z && pwd" })).await;
    assert_eq!(
        shown["output"],
        format!("ONE TWO\n{}\n", bench.cwd().canonicalize().unwrap().display())
    );
    let shown = bench.finish(json!({ "command": "echo", "args": ["a | b", "$HOME"] })).await;
    assert_eq!(shown["output"], "a | b $HOME\n");
}

#[tokio::test]
async fn long_output_loses_its_beginning_at_a_character() {
    let bench = bench();
    let script = "i=0; while [ $i -lt 5000 ]; do printf '€€€€€€€€'; i=$((i+1)); done; printf end";
    let shown = bench
        .finish(json!({ "command": "sh", "args": ["-c", script], "outputByteLimit": 100 }))
        .await;
    assert_eq!(shown["output"], format!("{}end", "€".repeat(32)));
    assert_eq!(shown["truncated"], true);
    let shown = bench
        .finish(json!({ "command": "head -c 3000000 /dev/zero | tr '\\0' x" }))
        .await;
    assert_eq!(shown["output"].as_str().unwrap().len(), 1 << 20);
    assert_eq!(shown["truncated"], true);
}

#[tokio::test]
async fn signals_have_names() {
    let bench = bench();
    for (name, number) in [("SIGKILL", 9), ("SIGSEGV", 11), ("SIGABRT", 6)] {
        let id = bench.shell(&format!("kill -{number} $$")).await;
        let ended = bench.on("wait_for_exit", &id).await.unwrap();
        assert_eq!(ended, json!({ "exitCode": null, "signal": name }));
    }
}

#[tokio::test]
async fn a_kill_takes_the_whole_tree_even_one_that_ignores_it() {
    let bench = bench();
    let grandchild = "trap '' TERM; echo up >&9; while :; do tail -f /dev/null; done";
    let (id, held) = bench.lively("fifo", &format!("setsid sh -c \"{grandchild}\" & wait")).await;
    bench.on("kill", &id).await.unwrap();
    let ended = bench.on("wait_for_exit", &id).await.unwrap();
    assert_eq!(ended, json!({ "exitCode": null, "signal": "SIGTERM" }));
    held.gone().await;
}

#[tokio::test]
async fn leftovers_of_a_command_end_with_it() {
    let bench = bench();
    let (id, held) = bench.lively("fifo", "tail -f /dev/null & echo up >&9; exit 0").await;
    assert_eq!(bench.on("wait_for_exit", &id).await.unwrap(), code(0));
    held.gone().await;
}

#[tokio::test]
async fn a_release_ends_the_command_and_answers_who_waits() {
    let bench = bench();
    let (id, held) = bench.lively("fifo", "echo up >&9; tail -f /dev/null").await;
    assert_eq!(bench.tools.terminals.keeper_pids().len(), 1);
    let (waited, released) = tokio::join!(bench.on("wait_for_exit", &id), bench.on("release", &id));
    released.unwrap();
    assert_eq!(waited.unwrap(), json!({ "exitCode": null, "signal": "SIGTERM" }));
    held.gone().await;
    for verb in ["output", "wait_for_exit", "kill", "release"] {
        let error = bench.on(verb, &id).await.unwrap_err();
        assert_eq!((error.code(), error.data()), (-32002, Some(json!({ "terminalId": id }))));
    }
    assert_eq!(bench.tools.terminals.output_text(&id), None);
}

#[tokio::test]
async fn the_last_drop_ends_all() {
    let bench = bench();
    let (_, first) = bench.lively("first", "echo up >&9; tail -f /dev/null").await;
    let (_, second) = bench.lively("second", "echo up >&9; tail -f /dev/null").await;
    let Bench { temp, tools } = bench;
    drop(tools);
    first.gone().await;
    second.gone().await;
    drop(temp);
}

#[tokio::test]
async fn closing_ends_all_even_if_someone_waits_and_nothing_starts_after() {
    let bench = bench();
    let (id, held) = bench.lively("fifo", "echo up >&9; tail -f /dev/null").await;
    let (waited, ()) = tokio::join!(bench.on("wait_for_exit", &id), async { bench.tools.close() });
    assert_eq!(waited.unwrap()["signal"], "SIGTERM");
    held.gone().await;
    let late = bench.create(json!({ "command": "true" })).await.unwrap_err();
    assert_eq!(late.to_string(), "the agent is ending; no terminal is started");
}

#[tokio::test]
async fn the_number_is_bounded_until_some_are_released() {
    let bench = bench();
    let mut ids = Vec::new();
    let full = loop {
        match bench.create(json!({ "command": "true" })).await {
            Ok(id) => ids.push(id),
            Err(error) => break error,
        }
    };
    assert_eq!(ids.len(), 64);
    assert_eq!(
        (full.to_string().as_str(), full.code()),
        ("64 terminals are open; release one first", -32603)
    );
    bench.on("wait_for_exit", &ids[0]).await.unwrap();
    bench.on("release", &ids[0]).await.unwrap();
    while bench.create(json!({ "command": "true" })).await.is_err() {
        // The room is given back by a task that ends just after it told the exit.
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn command_that_cannot_start_says_why() {
    let bench = bench();
    let start = |command: &str, cwd: &Path| bench.create(json!({ "command": command, "cwd": cwd }));
    let none = start("no-such-command-here", &bench.cwd()).await.unwrap_err();
    assert!(none.to_string().starts_with("cannot run `no-such-command-here`: "), "{none}");
    let outside = start("true", Path::new("/no/such/place")).await.unwrap_err();
    assert!(matches!(outside, ServiceError::NotFound(_)), "{outside}");
    assert_eq!(start("true", &bench.cwd().join("none")).await.unwrap_err().code(), -32002);
    std::fs::write(bench.cwd().join("file"), "").unwrap();
    let file = start("true", &bench.cwd().join("file")).await.unwrap_err();
    assert!(file.to_string().ends_with("file is not a directory"), "{file}");
    assert_eq!(
        start("", &bench.cwd()).await.unwrap_err().to_string(),
        "bad parameters: the command is empty"
    );
}

#[tokio::test]
async fn a_command_may_run_outside_of_the_roots_where_the_agent_could() {
    let bench = bench();
    for (cwd, real) in [
        (Path::new("/"), "/\n".to_owned()),
        (Path::new("/proc/self/cwd"), {
            // The agent of these tests is the test itself.
            format!("{}\n", std::env::current_dir().unwrap().display())
        }),
    ] {
        let id = bench.create(json!({ "command": "pwd", "cwd": cwd })).await.unwrap();
        bench.call("terminal/wait_for_exit", json!({ "terminalId": id })).await.unwrap();
        let shown = bench.call("terminal/output", json!({ "terminalId": id })).await.unwrap();
        assert_eq!(shown["output"], real);
    }
}

#[tokio::test]
async fn files_go_through_the_same_door() {
    let bench = bench();
    let path = bench.cwd().join("new/file");
    let written = bench.call(
        "fs/write_text_file",
        json!({ "sessionId": "s", "path": path, "content": "1\n2\n3\n" }),
    );
    assert_eq!(written.await.unwrap(), json!({}));
    let part = json!({ "sessionId": "s", "path": path, "line": 2, "limit": 1, "_meta": null });
    assert_eq!(bench.call("fs/read_text_file", part).await.unwrap(), json!({ "content": "2\n" }));
    let odd = json!({ "sessionId": "s", "path": path, "line": -4, "limit": "many" });
    assert_eq!(
        bench.call("fs/read_text_file", odd).await.unwrap(),
        json!({ "content": "1\n2\n3\n" })
    );
    assert_eq!(
        bench
            .call("fs/read_text_file", json!({ "sessionId": "s" }))
            .await
            .unwrap_err()
            .code(),
        -32602
    );
    let unknown = answer_request(&bench.tools, "fs/other", b"{}").await.unwrap_err();
    assert_eq!(unknown.code(), -32601);
}
