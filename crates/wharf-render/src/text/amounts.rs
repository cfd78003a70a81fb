//! Numbers in few columns.

use wharf_api::UsageCost;

/// Returns a count in at most four digits: `940`, `18.2k`, `1.2M`.
pub fn format_count(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}.{}k", count / 1_000, count % 1_000 / 100),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

/// Returns an amount of money: `$0.70`, `EUR 0.0710`.
pub fn format_cost(cost: &UsageCost) -> String {
    let sign = if cost.currency == "USD" { "$".to_owned() } else { format!("{} ", cost.currency) };
    sign + &cost.format_amount()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short() {
        assert_eq!([0, 999, 18_249, 1_250_000].map(format_count), ["0", "999", "18.2k", "1.2M"]);
        assert_eq!(
            format_cost(&UsageCost { amount: 0.071, currency: "EUR".to_owned() }),
            "EUR 0.0710"
        );
    }
}
