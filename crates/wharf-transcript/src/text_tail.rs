//! The end of a text that is too large for its row. It depends on the whole text only, however many
//! pieces that came in.

use wharf_api::RowCut;

/// The end of a text has one to two of these, so that a text which grows loses a block now and
/// then, not a character each time.
const BLOCK_BYTES: usize = 2 * 1024;

/// Appends text to the end of a text that is cut. `head` are the bytes that the row shows of its
/// beginning, and `whole` those of the whole text with this piece. Returns true if the tail has
/// lost its beginning.
pub(crate) fn grow_tail(cut: &mut RowCut, head: usize, whole: u64, piece: &str) -> bool {
    let tail = cut.tail.get_or_insert_default();
    tail.push_str(piece);
    let whole = usize::try_from(whole).unwrap_or(usize::MAX);
    let start = whole.saturating_sub(tail.len());
    let wanted = (whole / BLOCK_BYTES).saturating_sub(1).saturating_mul(BLOCK_BYTES).max(head);
    if wanted <= start {
        return false;
    }
    let dropped = tail.ceil_char_boundary((wanted - start).min(tail.len()));
    tail.drain(..dropped);
    dropped > 0
}

/// Sets the tail of a text that is cut, of which this is the whole.
pub(crate) fn set_tail(cut: &mut RowCut, head: usize, whole: &str) {
    cut.tail = None;
    let rest = whole.get(head..).unwrap_or_default();
    grow_tail(cut, head, whole.len() as u64, rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(text: &str, head: usize, step: usize) -> String {
        let mut cut = RowCut::default();
        let mut end = head;
        while end < text.len() {
            let next = text.ceil_char_boundary((end + step).min(text.len()));
            grow_tail(&mut cut, head, next as u64, &text[end..next]);
            end = next;
        }
        cut.tail.unwrap_or_default()
    }

    #[test]
    fn tail_is_the_same_in_pieces_of_any_size() {
        let text: String = (0..9_000).map(|n| ['a', 'é', '日', '🚀', '\n'][n % 5]).collect();
        for len in [1, 500, 2_047, 2_048, 4_095, 4_096, 4_097, 10_000, text.len()] {
            let text = &text[..text.floor_char_boundary(len)];
            let mut whole = RowCut::default();
            set_tail(&mut whole, 0, text);
            for step in [1, 7, 100, 3_000] {
                assert_eq!(
                    Some(grown(text, 0, step)),
                    whole.tail,
                    "{len} bytes in steps of {step}"
                );
            }
        }
    }

    #[test]
    fn tail_follows_the_head_until_there_is_a_gap_and_is_bounded() {
        let text = "0123456789".repeat(2_000);
        let mut cut = RowCut::default();
        set_tail(&mut cut, 1_000, &text[..1_500]);
        assert_eq!(cut.tail.as_deref(), Some(&text[1_000..1_500]));
        for len in [5_000, 6_143, 6_144, 20_000] {
            set_tail(&mut cut, 1_000, &text[..len]);
            let tail = cut.tail.as_deref().unwrap();
            assert!(
                text[..len].ends_with(tail)
                    && (BLOCK_BYTES..=2 * BLOCK_BYTES).contains(&tail.len()),
                "{len}"
            );
        }
    }
}
