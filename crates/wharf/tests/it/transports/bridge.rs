//! A client on the stdin and stdout of `wharf acp`.

use std::process::Stdio;

use anyhow::{Context, Result};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use wharf_testkit::client::{FrameSink, TestClient};
use wharf_testkit::host::TestHost;

use crate::program;

/// Starts the bridge. It exits when its stdin is closed, or with the test.
pub(super) fn connect_bridge(host: &TestHost) -> Result<TestClient> {
    let mut command = program::wharf_command(&["acp", "--no-start", "--state-dir"]);
    command.arg(host.state_dir());
    let mut command = Command::from(command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().context("starting the bridge")?;
    let stdin = child.stdin.take().context("no stdin")?;
    let lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
    let incoming = stream::unfold(Some((child, lines)), next_line).boxed();
    Ok(TestClient::from_transport(Box::new(BridgeInput(Some(stdin))), incoming))
}

type BridgeProcess = (Child, Lines<BufReader<ChildStdout>>);

async fn next_line(
    running: Option<BridgeProcess>,
) -> Option<(Result<String, String>, Option<BridgeProcess>)> {
    let (mut child, mut lines) = running?;
    match lines.next_line().await {
        Ok(Some(line)) => Some((Ok(line), Some((child, lines)))),
        Ok(None) => {
            let status = child.wait().await;
            Some((Err(format!("the bridge ended: {status:?}")), None))
        }
        Err(error) => Some((Err(format!("lost: {error}")), None)),
    }
}

struct BridgeInput(Option<ChildStdin>);

impl FrameSink for BridgeInput {
    fn send(&mut self, text: String) -> BoxFuture<'_, Result<()>> {
        async move {
            let stdin = self.0.as_mut().context("stdin is closed")?;
            stdin.write_all(format!("{text}\n").as_bytes()).await?;
            Ok(stdin.flush().await?)
        }
        .boxed()
    }

    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        self.0 = None;
        async { Ok(()) }.boxed()
    }
}
