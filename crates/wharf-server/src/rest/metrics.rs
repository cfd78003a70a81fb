//! The host in numbers, in Prometheus' text format. Numbers and states only: nothing of what was said.

use std::fmt::Write;

use axum::extract::State;
use axum::http::{HeaderName, header};
use wharf_host::core::Status;
use wharf_host::{Descriptor, TurnWord};

use crate::App;
use crate::calls::Caller;

const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Sessions by state, turns, prompts that wait and clients, in Prometheus' text format.
#[utoipa::path(
    get, path = "/metrics", tag = "host",
    responses((status = 200, description = "One number a line", body = String, content_type = "text/plain"))
)]
pub(super) async fn metrics(State(app): State<App>, caller: Caller) -> ([(HeaderName, &'static str); 1], String) {
    let known = app.seen_by(&caller.identity).descriptors();
    let count = |is: &dyn Fn(&Descriptor) -> bool| known.iter().filter(|known| is(known)).count();
    let mut text = String::new();
    family(&mut text, "wharf_sessions", "Sessions by status");
    for status in [Status::Starting, Status::Running, Status::Exited, Status::Killed, Status::Error] {
        let word = serde_json::to_string(&status).unwrap_or_default();
        sample(&mut text, &format!("wharf_sessions{{status={word}}}"), count(&|known| known.status == status));
    }
    family(&mut text, "wharf_turns", "Turns under way, by what they wait for");
    for (word, turn) in [("running", TurnWord::Running), ("awaiting_input", TurnWord::AwaitingInput)] {
        sample(&mut text, &format!("wharf_turns{{state=\"{word}\"}}"), count(&|known| known.turn == turn));
    }
    family(&mut text, "wharf_prompts_queued", "Prompts that wait for their turn");
    sample(&mut text, "wharf_prompts_queued", known.iter().map(|known| known.queued).sum());
    family(&mut text, "wharf_clients", "Clients attached to sessions");
    sample(&mut text, "wharf_clients", known.iter().map(|known| known.clients).sum());
    ([(header::CONTENT_TYPE, FORMAT)], text)
}

fn family(text: &mut String, name: &str, help: &str) {
    let _ = write!(text, "# HELP {name} {help}.\n# TYPE {name} gauge\n");
}

fn sample(text: &mut String, name: &str, value: usize) {
    let _ = writeln!(text, "{name} {value}");
}
