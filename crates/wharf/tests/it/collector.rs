//! A small OTLP collector: receives exports and keeps them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use wharf_testkit::look;

use crate::rest::{send_prompt, spawn_session, wait_until_idle};
use crate::{add_scripted_agent, add_section, scripted_host};
use wharf_testkit::http::Http;

type ReceivedExports = Arc<Mutex<Vec<(String, String)>>>;

#[derive(Debug)]
pub(crate) struct Collector {
    address: String,
    taken: ReceivedExports,
}

impl Collector {
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, taken) = (listener.local_addr()?.to_string(), ReceivedExports::default());
        let keep = Arc::clone(&taken);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = accept_request(stream, &keep).await;
            }
        });
        Ok(Self { address, taken })
    }

    /// Returns the section of the configuration that makes a host export to this collector.
    pub(crate) fn section(&self) -> String {
        format!("[otlp]\nendpoint = \"http://{}\"\ninterval = \"100ms\"", self.address)
    }

    /// Returns path and body of all requests so far.
    pub(crate) fn taken(&self) -> Vec<(String, String)> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the first body for this path that matches.
    pub(crate) async fn expect(&self, path: &str, is: impl Fn(&Value) -> bool) -> Result<Value> {
        let found = look::until(Duration::from_secs(20), || {
            let bodies = self.taken().into_iter().filter(|(to, _)| to == path);
            Ok(bodies.filter_map(|(_, body)| serde_json::from_str(&body).ok()).find(|body| is(body)))
        });
        found.await?.with_context(|| format!("no such request to {path}"))
    }
}

async fn accept_request(stream: TcpStream, taken: &ReceivedExports) -> Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut first, mut length, mut json) = (String::new(), 0, false);
    stream.read_line(&mut first).await?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let line = line.trim_end().to_ascii_lowercase();
        match line.split_once(": ") {
            Some(("content-length", value)) => length = value.parse()?,
            Some(("content-type", value)) => json = value == "application/json",
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    anyhow::ensure!(json && first.starts_with("POST "), "{first}");
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    taken.lock().unwrap_or_else(PoisonError::into_inner).push((path, String::from_utf8(body)?));
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}").await?;
    Ok(())
}

fn find_metric<'a>(body: &'a Value, name: &str) -> Option<&'a Value> {
    let metrics = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array()?;
    metrics.iter().find(|metric| metric["name"] == name)
}

fn find_named<'a>(list: &'a Value, key: &str) -> &'a Value {
    let found = list.as_array().and_then(|list| list.iter().find(|one| one["key"] == key));
    found.map_or(&Value::Null, |one| &one["value"])
}

fn is_hex(value: &Value, digits: usize) -> bool {
    let text = value.as_str().unwrap_or_default();
    text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit()) && text.bytes().any(|b| b != b'0')
}

#[tokio::test]
async fn metrics_and_turns_are_exported_by_otlp() -> Result<()> {
    let collector = Collector::start().await?;
    let host = add_section(add_scripted_agent(scripted_host(&[])?, "other", &[])?, &collector.section()).start()?;
    let http = Http::new(&host);
    let id = spawn_session(&http, &host).await?;
    send_prompt(&http, &id, "pause 30; echo done").await?;
    wait_until_idle(&http, &id).await?;

    let is_told = |body: &Value| {
        find_metric(body, "wharf_turns_started_total")
            .is_some_and(|turns| turns["sum"]["dataPoints"][0]["asInt"] == "1")
    };
    let body = collector.expect("/v1/metrics", is_told).await?;
    let resource = &body["resourceMetrics"][0]["resource"]["attributes"];
    assert_eq!(find_named(resource, "service.name")["stringValue"], "wharf");
    assert_eq!(find_named(resource, "service.version")["stringValue"], env!("CARGO_PKG_VERSION"));
    assert!(is_hex(&find_named(resource, "service.instance.id")["stringValue"], 16), "{resource}");
    let turns = &find_metric(&body, "wharf_turns_started_total").context("no turns")?["sum"];
    assert_eq!((&turns["aggregationTemporality"], &turns["isMonotonic"]), (&2.into(), &true.into()));
    let point = &turns["dataPoints"][0];
    let at = |name: &str| point[name].as_str().and_then(|nanos| nanos.parse::<u128>().ok());
    assert!(at("startTimeUnixNano") > Some(1_700_000_000_000_000_000) && at("timeUnixNano") >= at("startTimeUnixNano"));
    let sessions = &find_metric(&body, "wharf_sessions").context("no sessions")?["gauge"]["dataPoints"];
    let running = sessions
        .as_array()
        .context("no points")?
        .iter()
        .find(|point| find_named(&point["attributes"], "status")["stringValue"] == "running");
    assert_eq!(running.context("none runs")?["asInt"], "1");
    let append = &find_metric(&body, "wharf_append_seconds").context("no histogram")?["histogram"]["dataPoints"][0];
    let counts: Vec<u64> = append["bucketCounts"]
        .as_array()
        .context("no counts")?
        .iter()
        .filter_map(|count| count.as_str()?.parse().ok())
        .collect();
    assert_eq!(counts.len(), append["explicitBounds"].as_array().map_or(0, Vec::len) + 1);
    assert_eq!(append["count"], counts.iter().sum::<u64>().to_string());
    assert!(append["sum"].as_f64() > Some(0.0), "{append}");

    let trace = collector.expect("/v1/traces", |_| true).await?;
    let span = &trace["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert!(is_hex(&span["traceId"], 32) && is_hex(&span["spanId"], 16), "{span}");
    assert_eq!((&span["name"], &span["kind"], &span["status"]["code"]), (&"turn".into(), &1.into(), &1.into()));
    let attributes = &span["attributes"];
    assert_eq!(find_named(attributes, "wharf.session")["stringValue"], *id);
    assert_eq!(find_named(attributes, "wharf.adapter")["stringValue"], "scripted");
    assert_eq!(find_named(attributes, "wharf.outcome")["stringValue"], "end_turn");
    assert!(find_named(attributes, "wharf.queue_millis")["intValue"].is_string(), "{attributes}");
    let nanos = |name: &str| span[name].as_str().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or_default();
    assert!(nanos("endTimeUnixNano") - nanos("startTimeUnixNano") >= 29_000_000, "{span}");
    Ok(())
}

#[tokio::test]
async fn host_works_when_the_collector_is_unreachable() -> Result<()> {
    let nobody = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let otlp = format!("[otlp]\nendpoint = \"http://{nobody}\"\ninterval = \"50ms\"");
    let mut host = add_section(scripted_host(&[])?, &otlp).start()?;
    let http = Http::new(&host);
    let id = spawn_session(&http, &host).await?;
    send_prompt(&http, &id, "echo done").await?;
    wait_until_idle(&http, &id).await?;
    let said =
        look::until(Duration::from_secs(20), || Ok(host.stderr().contains("metrics cannot be exported").then_some(())));
    said.await?.context("it does not say so")?;
    assert!(host.terminate()?.success());
    assert_eq!(host.stderr().matches("metrics cannot be exported").count(), 1, "said once");
    Ok(())
}

#[test]
fn an_endpoint_that_cannot_be_used_is_an_error_at_the_start() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("config.toml");
    for wrong in ["https://collector.example", "127.0.0.1:4318", "http://", "http://user:key@collector"] {
        std::fs::write(&file, format!("[otlp]\nendpoint = \"{wrong}\"\n"))?;
        let config = file.to_str().context("a path")?;
        let told = crate::program::run_failing_serve(dir.path(), &["--config", config])?;
        assert!(told.contains("otlp.endpoint") && told.contains("http://127.0.0.1:4318"), "{told}");
    }
    Ok(())
}
