//! How well a path fits a query, and the best paths so far.

use super::FoundFile;

/// A longer query fits nothing that a person means.
const MAX_QUERY_CHARS: usize = 200;

/// A part of a name or path, as a person types it. Case does not matter.
#[derive(Clone, Debug)]
pub(super) struct FileNameQuery {
    text: String,
    is_path: bool,
}

/// The quality of a match: the smallest is the best. The kind of match, then how deep and how long
/// the path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank(u8, usize, usize);

impl FileNameQuery {
    pub(super) fn new(text: &str) -> Self {
        let text: String =
            text.trim().trim_start_matches("./").chars().take(MAX_QUERY_CHARS).collect();
        Self { is_path: text.contains('/'), text: text.to_lowercase() }
    }

    /// Returns the rank of a path, given by its names; `None` if it does not fit.
    pub(super) fn rank(&self, names: &[String]) -> Option<Rank> {
        let name = names.last()?.to_lowercase();
        let whole = names.join("/").to_lowercase();
        let wanted = self.text.as_str();
        let kind = match () {
            () if wanted.is_empty() => 0,
            () if !self.is_path && name == wanted => 0,
            () if !self.is_path && name.starts_with(wanted) => 1,
            () if self.is_path && whole.starts_with(wanted) => 1,
            () if !self.is_path && name.contains(wanted) => 2,
            () if whole.contains(wanted) => 3,
            () if has_letters(&name, wanted) => 4,
            () if has_letters(&whole, wanted) => 5,
            () => return None,
        };
        Some(Rank(kind, names.len(), whole.len()))
    }
}

/// Tells whether the letters stand in the text in their order.
fn has_letters(text: &str, letters: &str) -> bool {
    let mut rest = text.chars();
    letters.chars().all(|letter| rest.any(|found| found == letter))
}

/// The best matches, bounded.
#[derive(Debug)]
pub(super) struct BestMatches {
    limit: usize,
    kept: Vec<(Rank, FoundFile)>,
    pub(super) is_partial: bool,
}

impl BestMatches {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, kept: Vec::new(), is_partial: false }
    }

    pub(super) fn push(&mut self, rank: Rank, file: FoundFile) {
        self.kept.push((rank, file));
        if self.kept.len() >= 8 * self.limit.max(8) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        // Files of the first root, whose paths are relative, come before those of the others.
        let order = |file: &FoundFile| (file.path.starts_with('/'), file.path.clone());
        self.kept
            .sort_by(|(one, a), (other, b)| one.cmp(other).then_with(|| order(a).cmp(&order(b))));
        self.kept.truncate(self.limit);
    }

    /// Takes the best matches, the best first.
    pub(super) fn take(&mut self) -> Vec<FoundFile> {
        self.cut();
        std::mem::take(&mut self.kept).into_iter().map(|(_, file)| file).collect()
    }
}
