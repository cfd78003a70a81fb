//! The epochs that the logs of a state directory hold.

use std::fs::File;
use std::io;
use std::path::Path;

use super::dirs;
use super::points::SegmentIndex;
use super::segment::{read_header, scan_segment};

/// Returns the largest epoch in the logs below `root`, 0 if there is none. Changes nothing. A log
/// that cannot be read counts as having none.
pub(crate) fn find_largest_epoch(root: &Path) -> io::Result<u64> {
    let logs = dirs::list_logs(root, 0)?;
    let epochs = logs
        .iter()
        .map(|log| read_log_epoch(&dirs::log_dir(&dirs::session_dir(root, &log.id))));
    Ok(epochs.filter_map(Result::ok).max().unwrap_or(0))
}

/// Epochs never fall within a log: the last record has the largest one.
fn read_log_epoch(dir: &Path) -> io::Result<u64> {
    let mut largest = 0;
    for segment in dirs::list_segments(dir)?.iter().rev() {
        let file = File::open(dir.join(dirs::segment_name(segment.first)))?;
        let header = read_header(&file)?.map_or(0, |header| header.epoch);
        let scan = scan_segment(&file, segment.first, segment.bytes, SegmentIndex::default())?;
        let last = scan.and_then(|scan| scan.last).map(|(_, epoch)| epoch);
        largest = largest.max(header).max(last.unwrap_or(0));
        // Only the last segment may be without records.
        if last.is_some() {
            break;
        }
    }
    Ok(largest)
}
