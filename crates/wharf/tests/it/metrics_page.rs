//! A small parser of Prometheus' text format that refuses malformed lines.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use wharf_testkit::http::RestClient;

/// The values of a page, by name with labels.
#[derive(Debug, Default)]
pub(crate) struct MetricsPage {
    numbers: BTreeMap<String, f64>,
    kinds: BTreeMap<String, String>,
}

impl MetricsPage {
    /// Fetches the page and parses it.
    pub(crate) async fn of(http: &RestClient) -> Result<Self> {
        let answer = http.get("/metrics").await?;
        ensure!(answer.status == 200, "{}", answer.body);
        ensure!(
            answer.header("content-type") == Some("text/plain; version=0.0.4; charset=utf-8"),
            "its type"
        );
        Self::parse(&answer.body)
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        ensure!(text.ends_with('\n'), "the last line has no end");
        let mut page = Self::default();
        let mut helped = BTreeSet::new();
        for line in text.lines() {
            page.parse_line(line, &mut helped)
                .with_context(|| format!("in the line {line:?}"))?;
        }
        let kinds: BTreeSet<&String> = page.kinds.keys().collect();
        ensure!(
            helped.iter().collect::<BTreeSet<_>>() == kinds,
            "HELP and TYPE do not go together"
        );
        Ok(page)
    }

    fn parse_line(&mut self, line: &str, helped: &mut BTreeSet<String>) -> Result<()> {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').context("no text")?;
            ensure!(name.starts_with("wharf_") && text.ends_with('.'), "no sentence");
            ensure!(helped.insert(name.to_owned()), "it is there twice");
            return Ok(());
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').context("no kind")?;
            ensure!(["gauge", "counter", "histogram"].contains(&kind), "an unknown kind");
            ensure!(
                (kind == "counter") == name.ends_with("_total"),
                "a counter, and no other, ends with _total"
            );
            ensure!(
                self.kinds.insert(name.to_owned(), kind.to_owned()).is_none(),
                "it is there twice"
            );
            return Ok(());
        }
        let (name, value) = line.rsplit_once(' ').context("no value")?;
        let value: f64 = value.parse()?;
        ensure!(value.is_finite() && value >= 0.0, "an odd value");
        let bare = name.split('{').next().unwrap_or_default();
        ensure!(bare.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "an odd name");
        if let Some(labels) = name.strip_prefix(bare).filter(|labels| !labels.is_empty()) {
            let inner = labels
                .strip_prefix('{')
                .and_then(|rest| rest.strip_suffix('}'))
                .context("labels")?;
            let (label, word) = inner.split_once('=').context("no label")?;
            ensure!(label.bytes().all(|b| b.is_ascii_lowercase()), "an odd label");
            ensure!(word.len() >= 2 && word.starts_with('"') && word.ends_with('"'), "no quotes");
        }
        let part = |end| {
            bare.strip_suffix(end)
                .filter(|family| self.kinds.get(*family).is_some_and(|k| k == "histogram"))
        };
        let family = ["_bucket", "_sum", "_count"].into_iter().find_map(part).unwrap_or(bare);
        ensure!(self.kinds.contains_key(family), "no TYPE before it");
        if self.numbers.insert(name.to_owned(), value).is_some() {
            bail!("it is there twice");
        }
        Ok(())
    }

    /// Returns the value with this name.
    pub(crate) fn get(&self, name: &str) -> Result<f64> {
        self.numbers
            .get(name)
            .copied()
            .with_context(|| format!("no {name} in {:#?}", self.numbers))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.kinds.keys()
    }

    /// Checks that no counter has decreased.
    pub(crate) fn grew_from(&self, before: &Self) -> Result<()> {
        for (name, was) in &before.numbers {
            let family = name.split('{').next().unwrap_or_default();
            let counts = family.ends_with("_total")
                || family.ends_with("_bucket")
                || family.ends_with("_count");
            ensure!(!counts || self.get(name)? >= *was, "{name} fell from {was}");
        }
        Ok(())
    }
}

#[test]
fn metrics_parser_refuses_malformed_lines() {
    let head = "# HELP wharf_a_total One.\n# TYPE wharf_a_total counter\n";
    assert!(MetricsPage::parse(&format!("{head}wharf_a_total{{x=\"y\"}} 1\n")).is_ok());
    for wrong in [
        "wharf_a_total 1",
        "wharf_a_total x\n",
        "wharf_b 1\n",
        "wharf_a_total{x=y} 1\n",
        "wharf_a_total{x} 1\n",
    ] {
        assert!(MetricsPage::parse(&format!("{head}{wrong}")).is_err(), "{wrong}");
    }
    assert!(MetricsPage::parse(&format!("{head}{head}")).is_err());
    assert!(MetricsPage::parse("# TYPE wharf_a gauge\nwharf_a 1\n").is_err(), "no HELP");
}
