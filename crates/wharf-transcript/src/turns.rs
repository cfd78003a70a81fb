//! Turns from their prompt to their end. Several may be open at once: an agent that queues by
//! itself is given a prompt while it works on another one (rule 7.1).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use wharf_api::ToolCount;
use wharf_core::{EndReason, PromptEnd, PromptId, TurnCancel, TurnLimit};
use wharf_json::{Json, ReadError};

use crate::fold::{Fold, FoldStep};
use crate::messages::end_run;
use crate::prompts::{self, PromptEcho, WaitingPrompt};
use crate::turn_end::{EndFacts, create_end_row};
use crate::turn_files::TurnFiles;
use crate::usage::TurnCost;
use crate::{RowKey, RowNumber, RowStore, notices};

/// A running turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenTurn {
    /// Empty for a turn that the agent began by itself.
    prompt_id: String,
    /// The row of its prompt; of a turn without a prompt the first row that follows.
    row: RowNumber,
    started_at: u64,
    /// The prompt again, if the turn is cut off and repeated.
    prompt: WaitingPrompt,
    /// The prompt's text, and the echo of it that has come; `None` once the echo differs.
    pub(crate) plain: String,
    pub(crate) echo: Option<PromptEcho>,
    pub(crate) plan: Option<RowNumber>,
    pub(crate) tools: ToolCount,
    pub(crate) open_tools: BTreeSet<RowNumber>,
    pub(crate) files: TurnFiles,
    pub(crate) cost: TurnCost,
    cancel: TurnCancel,
}

impl OpenTurn {
    fn new(
        step: &FoldStep<'_, impl RowStore>,
        prompt_id: String,
        mut prompt: WaitingPrompt,
    ) -> Self {
        Self {
            prompt_id,
            row: RowNumber(step.fold.row_count() + 1),
            started_at: step.at.0,
            plain: std::mem::take(&mut prompt.plain),
            prompt,
            echo: Some(PromptEcho::new(&step.fold.texts)),
            plan: None,
            tools: ToolCount::default(),
            open_tools: BTreeSet::new(),
            files: TurnFiles::default(),
            cost: TurnCost::default(),
            cancel: TurnCancel::No,
        }
    }

    /// Returns the prompt's id as rows show it; `None` for a turn that the agent began by itself.
    pub(crate) fn shown_id(&self) -> Option<String> {
        (!self.is_of_agent()).then(|| self.prompt_id.clone())
    }

    const fn is_of_agent(&self) -> bool {
        self.prompt_id.is_empty()
    }
}

impl Fold {
    /// Returns the newest open turn, to which new rows belong.
    pub(crate) fn newest_turn(&self) -> Option<&OpenTurn> {
        self.turns.last()
    }

    pub(crate) fn newest_turn_mut(&mut self) -> Option<&mut OpenTurn> {
        self.turns.last_mut()
    }

    /// Returns the open turn that a row belongs to. An earlier turn of the same prompt is another
    /// one.
    pub(crate) fn turn_of_row(
        &mut self,
        number: RowNumber,
        shown_id: Option<&str>,
    ) -> Option<&mut OpenTurn> {
        let prompt_id = shown_id.unwrap_or_default();
        self.turns
            .iter_mut()
            .find(|turn| turn.prompt_id == prompt_id && turn.row <= number)
    }

    /// Returns the row of the newest turn's prompt.
    pub fn open_turn(&self) -> Option<RowNumber> {
        self.newest_turn().map(|turn| turn.row)
    }
}

/// Takes a turn out of the open ones. Text that was held back until now belongs to the turn that is
/// the newest before that.
fn take_turn(step: &mut FoldStep<'_, impl RowStore>, prompt_id: &str) -> Option<OpenTurn> {
    let place = step.fold.turns.iter().position(|turn| turn.prompt_id == prompt_id)?;
    end_run(step);
    Some(step.fold.turns.remove(place))
}

/// Begins the turn of a prompt.
pub(crate) fn begin_turn(step: &mut FoldStep<'_, impl RowStore>, prompt: &PromptId) {
    cut_off_agent_turn(step, "next_prompt");
    step.fold.unexplained_ends.clear();
    end_run(step);
    // A second start of a running turn is damage.
    take_turn(step, prompt.as_str());
    let waiting = step.fold.waiting.remove(prompt.as_str()).unwrap_or_default();
    let turn = begin_prompt(step, prompt, waiting);
    step.fold.turns.push(turn);
}

/// Returns the turn of a prompt, with its first row.
fn begin_prompt(
    step: &mut FoldStep<'_, impl RowStore>,
    prompt: &PromptId,
    waiting: WaitingPrompt,
) -> OpenTurn {
    let row = prompts::create_row(step, &waiting, prompt);
    step.rows.set_key(RowKey::Turn { prompt: prompt.to_string() }, row);
    OpenTurn { row, ..OpenTurn::new(step, prompt.to_string(), waiting) }
}

/// Notes that a client or a limit wanted a running turn to end.
pub(crate) fn note_cancel(
    step: &mut FoldStep<'_, impl RowStore>,
    prompt: &PromptId,
    limit: Option<TurnLimit>,
) {
    if let Some(turn) = step.fold.turns.iter_mut().find(|turn| turn.prompt_id == prompt.as_str()) {
        turn.cancel = TurnCancel::requested(limit);
    }
}

/// Ends a prompt: a running turn, or a prompt whose turn never began.
pub(crate) fn end_prompt(
    step: &mut FoldStep<'_, impl RowStore>,
    prompt: &PromptId,
    end: &PromptEnd,
) {
    if let Some(turn) = take_turn(step, prompt.as_str()) {
        let facts = EndFacts::of_end(end, turn.cancel, &step.fold.texts);
        end_turn(step, turn, facts);
        return;
    }
    let Some(waiting) = step.fold.waiting.remove(prompt.as_str()) else { return };
    if matches!(end, PromptEnd::Removed { .. }) {
        return;
    }
    end_run(step);
    let turn = begin_prompt(step, prompt, waiting);
    let facts = EndFacts::of_end(end, TurnCancel::No, &step.fold.texts);
    create_end_row(step, turn, facts, None);
}

/// Ends a turn that a crash cut off, and puts its prompt back into the queue.
pub(crate) fn requeue(step: &mut FoldStep<'_, impl RowStore>, prompt: &PromptId) {
    let Some(turn) = take_turn(step, prompt.as_str()) else { return };
    let mut again = turn.prompt.clone();
    again.plain.clone_from(&turn.plain);
    again.content.again = true;
    step.fold.waiting.insert(prompt.to_string(), again);
    end_turn(step, turn, EndFacts::requeued());
}

/// Adds the end of a turn that ran until now. A clock that was set back gives a duration of 0.
fn end_turn(step: &mut FoldStep<'_, impl RowStore>, turn: OpenTurn, facts: EndFacts<'_>) {
    let duration = step.at.0.saturating_sub(turn.started_at);
    create_end_row(step, turn, facts, Some(duration));
}

/// Ends a turn that the agent began by itself and will not end any more.
fn cut_off_agent_turn(step: &mut FoldStep<'_, impl RowStore>, reason: &str) {
    let Some(turn) = take_turn(step, "") else { return };
    end_turn(step, turn, EndFacts::cut_off(reason));
}

/// Notes that an agent runs: ends of earlier turns are not its doing.
pub(crate) fn note_agent_start(step: &mut FoldStep<'_, impl RowStore>) {
    cut_off_agent_turn(step, "agent_exited");
    step.fold.unexplained_ends.clear();
}

/// Notes that the agent is gone, and with it the turn that it began by itself.
pub(crate) fn note_agent_end(step: &mut FoldStep<'_, impl RowStore>, reason: EndReason) {
    let reason = match reason {
        EndReason::AgentExited | EndReason::Unresponsive | EndReason::StartFailed => "agent_exited",
        EndReason::HostShutdown => "host_shutdown",
        EndReason::HostRestarted => "host_restarted",
        EndReason::User
        | EndReason::Finished
        | EndReason::Closed
        | EndReason::Idle
        | EndReason::Memory
        | EndReason::LogFull => "session_ended",
    };
    cut_off_agent_turn(step, reason);
}

/// Takes the state of v2: turns without a prompt, and work in the background.
pub(crate) fn state_update(
    step: &mut FoldStep<'_, impl RowStore>,
    update: Json<'_>,
) -> Result<(), ReadError> {
    let state = update.text_at(&["state"])?.unwrap_or_default();
    let background = update.member("background")?.map_or(0, |work| work.items().count() as u64);
    match &*state {
        "running" if step.fold.turns.is_empty() => {
            end_run(step);
            let turn = OpenTurn::new(step, String::new(), WaitingPrompt::default());
            step.fold.turns.push(turn);
        }
        "idle" if step.fold.newest_turn().is_some_and(OpenTurn::is_of_agent) => {
            let reason = update.text_at(&["stopReason"])?.unwrap_or("end_turn".into());
            if let Some(turn) = take_turn(step, "") {
                end_turn(step, turn, EndFacts::stopped(&reason, update));
            }
        }
        _ => {}
    }
    if std::mem::replace(&mut step.fold.background, background) != background {
        notices::background_work(step, background);
    }
    Ok(())
}
