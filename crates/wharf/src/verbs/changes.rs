//! `wharf changes`: the files that a session's tool calls have changed, and their diffs.

use clap::Args;
use wharf_api::{
    ChangedFile, ChangedFileList, ChangedFileStatus, FileDiff, RowBody, RowPage, ToolState,
};
use wharf_render::style::{Screen, TextStyle};
use wharf_render::text::{format_ago, to_printable, to_printable_line};

use crate::client::{HostCall, HostClient, query_part, url_path};
use crate::exit::Exit;
use crate::format::table::{TextTable, join_with_tabs, plain_cell, styled_cell};
use crate::format::times;
use crate::global::GlobalOptions;
use crate::turn_ref::{TurnRef, find_turn};
use crate::{output, session_ref};

/// The most files that the host lists.
const MAX_FILES: usize = 1_000;
/// The most rows that the host gives at once.
const MAX_PAGE_ROWS: usize = 200;

#[derive(Debug, Args)]
pub(crate) struct ChangesVerb {
    /// Which session [default: the newest of the current directory].
    id: Option<String>,
    /// Only the changes of this turn: its number, `last`, or the id of its prompt.
    #[arg(long, value_name = "N")]
    turn: Option<TurnRef>,
    /// Show the changed lines.
    #[arg(long, conflicts_with = "json")]
    diff: bool,
    /// The JSON of the host.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(global: &GlobalOptions, verb: ChangesVerb) -> anyhow::Result<Exit> {
    let client = global.connect_client().await?;
    let session = session_ref::find_session(&client, verb.id.as_deref()).await?;
    let turn = match &verb.turn {
        Some(meant) => Some(find_turn(&client, &session.id, meant).await?),
        None => None,
    };
    if verb.diff {
        return show_diffs(&client, global.screen(), &session.id, turn.as_deref()).await;
    }
    let path = url_path(&["sessions", &session.id, "changes"]);
    let call =
        HostCall::get(format!("{path}?limit={MAX_FILES}{}", query_part("turn", turn.as_deref())));
    let answer = client.send_call(&call).await?;
    if verb.json {
        output::print_line(answer.text().trim_end());
    } else {
        print_files(global.screen(), &answer.json()?);
    }
    Ok(Exit::Ok)
}

fn print_files(screen: Screen, list: &ChangedFileList) {
    if !screen.terminal {
        list.files.iter().for_each(|file| output::print_line(&plain_file(file)));
    } else if list.files.is_empty() {
        output::print_note("the agent has reported no change of a file");
    } else {
        file_table(list)
            .to_lines(screen)
            .iter()
            .for_each(|line| output::print_line(line));
        output::print_line(&screen.paint(TextStyle::Strong, &describe_sum(list)));
    }
    if list.total > list.files.len() {
        output::print_note(&format!(
            "only the {} files that were changed last are shown",
            list.files.len()
        ));
    }
    if list.partial {
        output::print_note("there may be more changes than were counted");
    }
}

/// Returns the last line of the table: how many files and lines were changed.
fn describe_sum(list: &ChangedFileList) -> String {
    let files = if list.total == 1 { "file" } else { "files" };
    format!("{} {files}, +{} −{} lines", list.total, list.added, list.removed)
}

fn file_table(list: &ChangedFileList) -> TextTable {
    let mut table = TextTable::new(&["FILE", "ADDED", "REMOVED", "CHANGED", "STATUS"]);
    let now = times::now_millis();
    for file in &list.files {
        let about = if file.exact { "" } else { "~" };
        let style = match file.status {
            ChangedFileStatus::Created => TextStyle::Good,
            ChangedFileStatus::Deleted => TextStyle::Bad,
            ChangedFileStatus::Changed | ChangedFileStatus::Other(_) => TextStyle::Plain,
        };
        table.add_row([
            plain_cell(&file.path),
            styled_cell(TextStyle::Good, format!("{about}+{}", file.added)),
            styled_cell(TextStyle::Bad, format!("{about}−{}", file.removed)),
            styled_cell(TextStyle::Faint, format_ago(&file.changed_at, now)),
            styled_cell(style, file.status.as_str()),
        ]);
    }
    table
}

/// Returns the tab-separated line of a file. The columns are part of the interface: see
/// docs/cli.md.
fn plain_file(file: &ChangedFile) -> String {
    let added = file.added.to_string();
    let removed = file.removed.to_string();
    let turns = file.turn_count.to_string();
    let exact = if file.exact { "exact" } else { "estimated" };
    join_with_tabs([
        file.status.as_str(),
        &file.path,
        &added,
        &removed,
        exact,
        &turns,
        &file.changed_at,
    ])
}

/// Prints the diffs of all completed tool calls, the oldest first.
async fn show_diffs(
    client: &HostClient,
    screen: Screen,
    session: &str,
    turn: Option<&str>,
) -> anyhow::Result<Exit> {
    let path = url_path(&["sessions", session, "rows"]);
    let diffs = read_diffs(client, &path, turn).await?;
    if diffs.is_empty() && screen.terminal {
        output::print_note("the agent has reported no change of a file");
    }
    for line in diffs.iter().flat_map(|diff| diff_lines(screen, diff)) {
        if output::try_print_line(&line).is_err() {
            break;
        }
    }
    Ok(Exit::Ok)
}

/// Reads the diffs of completed tool calls, of one turn or of all. Those of other tool calls are
/// intentions (rule 13.10).
async fn read_diffs(
    client: &HostClient,
    path: &str,
    turn: Option<&str>,
) -> anyhow::Result<Vec<FileDiff>> {
    let turn_part = query_part("turn", turn);
    let mut pages: Vec<Vec<FileDiff>> = Vec::new();
    let mut cursor = String::new();
    loop {
        let call =
            HostCall::get(format!("{path}?limit={MAX_PAGE_ROWS}&kinds=tool{turn_part}{cursor}"));
        let page: RowPage = client.fetch_json(&call).await?;
        let mut diffs = Vec::new();
        for row in page.rows {
            if let RowBody::Tool(tool) = row.body
                && tool.state == ToolState::Completed
            {
                diffs.extend(tool.diffs);
            }
        }
        pages.push(diffs);
        // A turn is read from its beginning, a session from its end.
        let next = if turn.is_some() { ("after", page.after) } else { ("before", page.before) };
        match next {
            (name, Some(next)) => cursor = query_part(name, Some(&next)),
            (_, None) => break,
        }
    }
    if turn.is_none() {
        pages.reverse();
    }
    Ok(pages.concat())
}

/// Returns a diff in the form of `diff -u`. Most agents tell no line numbers.
fn diff_lines(screen: Screen, diff: &FileDiff) -> Vec<String> {
    let path = to_printable(&diff.path);
    let mut lines = vec![
        screen.paint(TextStyle::Strong, &format!("--- {path}")),
        screen.paint(TextStyle::Strong, &format!("+++ {path}")),
    ];
    for hunk in &diff.hunks {
        let range = match (hunk.old, hunk.new) {
            (Some([old, old_count]), Some([new, new_count])) => {
                format!("@@ -{old},{old_count} +{new},{new_count} @@")
            }
            _ => "@@".to_owned(),
        };
        lines.push(screen.paint(TextStyle::Busy, &range));
        lines.extend(hunk.lines.iter().map(|line| {
            let style = match line.chars().next() {
                Some('+') => TextStyle::Good,
                Some('-') => TextStyle::Bad,
                _ => TextStyle::Plain,
            };
            screen.paint(style, &to_printable_line(line))
        }));
    }
    if let Some(cut) = &diff.cut {
        let missing = cut.missing_lines.map_or_else(String::new, |missing| format!("{missing} "));
        lines.push(screen.paint(TextStyle::Faint, &format!("\\ {missing}lines are left out here")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use wharf_api::{DiffHunk, FileChange, RowCut};

    use super::*;

    #[test]
    fn sum_of_changes_counts_one_file_as_one() {
        let list = |total| ChangedFileList {
            fold: 1,
            session: "sess_1".to_owned(),
            as_of: "1-1".to_owned(),
            files: Vec::new(),
            total,
            added: 1,
            removed: 1,
            partial: false,
        };
        assert_eq!(describe_sum(&list(1)), "1 file, +1 −1 lines");
        assert_eq!(describe_sum(&list(2)), "2 files, +1 −1 lines");
    }

    #[test]
    fn diff_has_the_common_form_and_tells_what_is_left_out() {
        let hunk = |old, new, lines: &[&str]| DiffHunk {
            old,
            new,
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        };
        let diff = FileDiff {
            path: "src/a\u{1b}[2J.rs".to_owned(),
            change: FileChange::Modify,
            added: 1,
            removed: 1,
            numbered: false,
            hunks: vec![
                hunk(None, None, &[" same", "-old", "+new\t\u{1b}[31m"]),
                hunk(Some([3, 0]), Some([3, 1]), &["+x"]),
            ],
            cut: Some(RowCut { bytes: 9, missing_lines: Some(7), tail: None, whole: None }),
        };
        assert_eq!(
            diff_lines(Screen::PIPE, &diff),
            [
                "--- src/a.rs",
                "+++ src/a.rs",
                "@@",
                " same",
                "-old",
                "+new\t",
                "@@ -3,0 +3,1 @@",
                "+x",
                "\\ 7 lines are left out here"
            ]
        );
        let colour = Screen { colour: true, ..Screen::TERMINAL };
        assert_eq!(diff_lines(colour, &diff)[4], "\x1b[31m-old\x1b[0m");
    }
}
