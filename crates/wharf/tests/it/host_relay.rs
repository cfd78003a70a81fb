//! A relay before the socket of a host, which treats some of the calls as a busy or a frozen host
//! would.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{UnixListener, UnixStream};

/// How a call is treated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallFate {
    Passed,
    /// The caller is told that the host is busy.
    Refused,
    /// The caller waits for ever.
    Held,
}

/// The socket of a host behind a relay. The relay ends when this is dropped.
pub(crate) struct HostRelay(tokio::task::JoinHandle<()>);

impl HostRelay {
    /// Takes the place of the socket at this path. `choose_fate` gets the first line of each
    /// request.
    pub(crate) fn put_before(
        path: &Path,
        choose_fate: impl Fn(&str) -> CallFate + Send + Sync + 'static,
    ) -> Result<Self> {
        let aside = path.with_extension("aside");
        std::fs::rename(path, &aside)?;
        let listener = UnixListener::bind(path)?;
        let choose_fate = Arc::new(choose_fate);
        Ok(Self(tokio::spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                let choose_fate = Arc::clone(&choose_fate);
                tokio::spawn(relay_call(caller, aside.clone(), move |line| choose_fate(line)));
            }
        })))
    }
}

impl Drop for HostRelay {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn relay_call(
    mut caller: UnixStream,
    host: PathBuf,
    choose_fate: impl Fn(&str) -> CallFate,
) -> Result<()> {
    let mut begin = vec![0; 16 << 10];
    let length = caller.read(&mut begin).await?;
    let head = String::from_utf8_lossy(&begin[..length]).into_owned();
    match choose_fate(head.lines().next().unwrap_or_default()) {
        CallFate::Passed => {}
        CallFate::Refused => {
            let body = r#"{"type":"about:blank","title":"busy","status":503,"code":"overloaded"}"#;
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            return Ok(caller.write_all(answer.as_bytes()).await?);
        }
        CallFate::Held => {
            // Until the caller is gone.
            while caller.read(&mut begin).await? > 0 {}
            return Ok(());
        }
    }
    let mut host = UnixStream::connect(host).await?;
    host.write_all(&begin[..length]).await?;
    copy_bidirectional(&mut caller, &mut host).await?;
    Ok(())
}
