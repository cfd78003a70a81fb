//! OTLP's JSON: metrics, and a span for each turn. Numbers of 64 bits are strings there, ids are hexadecimal.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value as Json, json};
use wharf_host::core::Millis;
use wharf_host::metrics::{Classes, Family, Kind, Sample, TurnSpan, Value};

use crate::running::VERSION;

/// All that is counted is counted from the start on.
const CUMULATIVE: u8 = 2;
const INTERNAL: u8 = 1;
const OK: u8 = 1;
const ERROR: u8 = 2;

/// Who tells: this host, from this start on.
#[derive(Debug)]
pub(super) struct Teller {
    instance: String,
    since: String,
}

impl Teller {
    pub(super) fn new() -> Self {
        Self { instance: random_hex(8), since: now() }
    }

    fn resource(&self) -> Json {
        let attributes = [
            attribute("service.name", "wharf"),
            attribute("service.version", VERSION),
            attribute("service.instance.id", &self.instance),
        ];
        json!({ "attributes": attributes })
    }

    /// The body of a request to `/v1/metrics`.
    pub(super) fn metrics(&self, families: &[Family]) -> Json {
        let now = now();
        let metrics: Vec<Json> = families.iter().map(|family| self.metric(family, &now)).collect();
        let scope = json!({ "scope": { "name": "wharf", "version": VERSION }, "metrics": metrics });
        json!({ "resourceMetrics": [{ "resource": self.resource(), "scopeMetrics": [scope] }] })
    }

    fn metric(&self, family: &Family, now: &str) -> Json {
        let points: Vec<Json> = family.samples.iter().map(|sample| self.point(sample, now)).collect();
        let mut metric = json!({ "name": family.name, "description": format!("{}.", family.help) });
        match family.kind {
            Kind::Gauge => metric["gauge"] = json!({ "dataPoints": points }),
            Kind::Counter => {
                metric["sum"] =
                    json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true });
            }
            Kind::Histogram => {
                metric["histogram"] = json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE });
            }
        }
        metric
    }

    fn point(&self, sample: &Sample, now: &str) -> Json {
        let mut point = json!({ "startTimeUnixNano": self.since, "timeUnixNano": now });
        if let Some((label, word)) = &sample.label {
            point["attributes"] = json!([attribute(label, word)]);
        }
        match &sample.value {
            Value::Whole(value) => point["asInt"] = value.to_string().into(),
            Value::Real(value) => point["asDouble"] = (*value).into(),
            Value::Classes(Classes { bounds, counts, sum }) => {
                let count: u64 = counts.iter().sum();
                point["count"] = count.to_string().into();
                point["sum"] = (*sum).into();
                point["bucketCounts"] = counts.iter().map(u64::to_string).collect();
                point["explicitBounds"] = json!(bounds);
            }
        }
        point
    }

    /// The body of a request to `/v1/traces`: each turn is a trace of its own.
    pub(super) fn traces(&self, turns: &[TurnSpan]) -> Json {
        let spans: Vec<Json> = turns.iter().map(span).collect();
        let scope = json!({ "scope": { "name": "wharf", "version": VERSION }, "spans": spans });
        json!({ "resourceSpans": [{ "resource": self.resource(), "scopeSpans": [scope] }] })
    }
}

fn span(turn: &TurnSpan) -> Json {
    let began = turn.started_at.unwrap_or(turn.accepted_at);
    let waited = began.0.saturating_sub(turn.accepted_at.0);
    let well =
        matches!(turn.outcome, "end_turn" | "max_tokens" | "max_turn_requests" | "refusal" | "cancelled" | "other");
    json!({
        "traceId": random_hex(16),
        "spanId": random_hex(8),
        "name": "turn",
        "kind": INTERNAL,
        "startTimeUnixNano": nanos(began),
        "endTimeUnixNano": nanos(turn.ended_at.max(began)),
        "attributes": [
            attribute("wharf.session", &turn.session),
            attribute("wharf.adapter", &turn.adapter),
            attribute("wharf.outcome", turn.outcome),
            json!({ "key": "wharf.queue_millis", "value": { "intValue": waited.to_string() } }),
        ],
        "status": { "code": if well { OK } else { ERROR } },
    })
}

fn attribute(key: &str, value: &str) -> Json {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn nanos(at: Millis) -> String {
    (u128::from(at.0) * 1_000_000).to_string()
}

fn now() -> String {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

/// Never all zero, which would mean "none".
fn random_hex(bytes: usize) -> String {
    let mut random = vec![0_u8; bytes];
    if getrandom::fill(&mut random).is_err() {
        random.fill(1);
    }
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}
