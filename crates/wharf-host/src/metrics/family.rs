//! Metrics as data, from which the Prometheus text is made.

use super::numbers::Classes;

/// Numbers of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    pub name: &'static str,
    /// One sentence without its full stop.
    pub help: &'static str,
    pub kind: Kind,
    pub samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Goes up and down.
    Gauge,
    /// Only grows, from the host's start on.
    Counter,
    Histogram,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Holds at most one label: its name and its value. Values are fixed words of Wharf or names of
    /// adapters, never text from a session.
    pub label: Option<(&'static str, String)>,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Whole(u64),
    Real(f64),
    Classes(Classes),
}

impl Family {
    fn new(kind: Kind, name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind, samples: Vec::new() }
    }

    pub fn gauge(name: &'static str, help: &'static str) -> Self {
        Self::new(Kind::Gauge, name, help)
    }

    pub fn counter(name: &'static str, help: &'static str) -> Self {
        Self::new(Kind::Counter, name, help)
    }

    pub fn histogram(name: &'static str, help: &'static str, classes: Classes) -> Self {
        let sample = Sample { label: None, value: Value::Classes(classes) };
        Self {
            samples: vec![sample],
            ..Self::new(Kind::Histogram, name, help)
        }
    }

    /// With its only number.
    #[must_use]
    pub fn of(mut self, value: u64) -> Self {
        self.samples.push(Sample { label: None, value: Value::Whole(value) });
        self
    }

    /// With its only number, in seconds.
    #[must_use]
    pub fn seconds(mut self, millis: u64) -> Self {
        self.samples
            .push(Sample { label: None, value: Value::Real(millis as f64 / 1_000.0) });
        self
    }

    /// With one more number, told apart by a label.
    #[must_use]
    pub fn with(mut self, label: &'static str, word: impl Into<String>, value: Value) -> Self {
        self.samples.push(Sample { label: Some((label, word.into())), value });
        self
    }
}
