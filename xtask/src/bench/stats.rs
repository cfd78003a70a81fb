//! Statistics: medians of repetitions, percentiles of samples.

use serde_json::{Value, json};

/// The repetitions of one figure.
#[derive(Clone, Debug, Default)]
pub(super) struct Series(Vec<f64>);

impl Series {
    pub(super) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(super) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        percentile(&sorted, 0.5)
    }

    pub(super) fn max(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }

    /// Returns the median, then every value in the order of measuring.
    pub(super) fn to_json(&self) -> Value {
        json!({"median": round_figure(self.median()), "values": self.0.iter().map(|value| round_figure(*value)).collect::<Vec<_>>()})
    }
}

/// Returns the nearest rank in a sorted slice; 0 for an empty one.
pub(super) fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// Rounds to three decimals below ten and to none above a thousand: more digits would not be
/// meaningful.
pub(super) fn round_figure(value: f64) -> f64 {
    let digits = if value.abs() >= 1_000.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        3
    };
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        let mut series = Series::default();
        for value in [9.0, 1.0, 5.0] {
            series.push(value);
        }
        assert_eq!(series.median(), 5.0);
        assert_eq!(series.to_json(), json!({"median": 5.0, "values": [9.0, 1.0, 5.0]}));
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let sorted: Vec<f64> = (1..=1_000).map(f64::from).collect();
        assert_eq!(percentile(&sorted, 0.5), 500.0);
        assert_eq!(percentile(&sorted, 0.99), 990.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }

    #[test]
    fn figures_are_rounded() {
        assert_eq!(
            (round_figure(123_456.7), round_figure(12.345), round_figure(0.123_456)),
            (123_457.0, 12.3, 0.123)
        );
    }
}
