//! Measures two binaries in the same rounds, so that a slow period of the machine affects both.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};

use super::host::Host;
use super::stats::round_figure;
use super::{Bench, print_measure};

/// A `wharf` binary under measurement.
pub(super) struct Binary {
    pub(super) wharf: PathBuf,
    /// A part of the paths of its files: `new` or `old`.
    pub(super) name: &'static str,
}

/// The figures of one binary in one variant of a measure.
pub(super) struct Side<'a, V, F> {
    pub(super) binary: &'a Binary,
    pub(super) variant: V,
    pub(super) figures: F,
}

impl Bench {
    /// Returns the sides of a measure: for each variant all binaries, the new one first.
    pub(super) fn sides<V: Copy, F: Default>(&self, variants: &[V]) -> Vec<Side<'_, V, F>> {
        let sides = variants.iter().flat_map(|variant| {
            self.binaries.iter().map(|binary| Side {
                binary,
                variant: *variant,
                figures: F::default(),
            })
        });
        sides.collect()
    }

    /// Starts a new host for every run, so that memory and log are empty.
    pub(super) fn host(&self, binary: &Binary) -> Result<Host> {
        Host::start(&binary.wharf, &self.agent, &self.dir.join(binary.name))
    }
}

/// Returns the sides in the order of a round. Every second round is reversed, so that no binary is
/// always the first.
pub(super) fn in_round<T>(round: usize, sides: &mut [T]) -> Vec<&mut T> {
    let mut order: Vec<&mut T> = sides.iter_mut().collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// Prints a measure: `line` has what all sides share, `sides` the figures of each binary, the new
/// one first.
pub(super) fn print_compared(line: Value, sides: impl IntoIterator<Item = Value>) {
    print_measure(compare_sides(line, sides));
}

/// Adds the figures of the new binary to the line. Those of the old one, if there is one, follow
/// under `against`, and the ratio of each median, new to old, under `new_to_old`.
fn compare_sides(mut line: Value, sides: impl IntoIterator<Item = Value>) -> Value {
    let mut sides = sides.into_iter();
    let new = sides.next().unwrap_or_default();
    if let Some(old) = sides.next() {
        let mut ratios = json!({});
        for (name, figure) in new.as_object().into_iter().flatten() {
            if let (Some(new), Some(old)) =
                (figure["median"].as_f64(), old[name]["median"].as_f64())
            {
                ratios[name] = round_figure(new / old).into();
            }
        }
        line["against"] = old;
        line["new_to_old"] = ratios;
    }
    for (name, figure) in new.as_object().into_iter().flatten() {
        line[name] = figure.clone();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_binary_has_its_figures_alone() {
        let figures = json!({"p50_us": {"median": 3.0, "values": [3.0]}, "holds": true});
        let line = compare_sides(json!({"measure": "tick"}), [figures]);
        assert_eq!(
            line,
            json!({"measure": "tick", "p50_us": {"median": 3.0, "values": [3.0]}, "holds": true})
        );
    }

    #[test]
    fn second_binary_has_its_figures_and_ratios_of_medians() {
        let side = |median: f64| json!({"p50_us": {"median": median}, "holds": true});
        let line = compare_sides(json!({"measure": "tick"}), [side(3.0), side(2.0)]);
        let against = json!({"p50_us": {"median": 2.0}, "holds": true});
        let expected = json!({
            "measure": "tick", "p50_us": {"median": 3.0}, "holds": true, "against": against, "new_to_old": {"p50_us": 1.5},
        });
        assert_eq!(line, expected);
    }

    #[test]
    fn every_second_round_is_reversed() {
        let order = |round| {
            in_round(round, &mut [1, 2, 3])
                .into_iter()
                .map(|side| *side)
                .collect::<Vec<_>>()
        };
        assert_eq!((order(0), order(1), order(2)), (vec![1, 2, 3], vec![3, 2, 1], vec![1, 2, 3]));
    }
}
