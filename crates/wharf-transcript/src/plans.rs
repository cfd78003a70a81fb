//! The agent's plan: one row per turn, which changes in place.

use wharf_api::{RowBody, RowPlan, RowPlanEntry};
use wharf_json::{Json, ReadError};

use crate::RowStore;
use crate::fold::FoldStep;
use crate::limits::{MAX_PLAN_ENTRIES, MAX_PLAN_ENTRY_BYTES};
use crate::messages::end_run;
use crate::text_rules::{TextRules, clean_word};

/// Takes a `plan`.
pub(crate) fn set_plan(
    step: &mut FoldStep<'_, impl RowStore>,
    update: Json<'_>,
) -> Result<(), ReadError> {
    let entries = update.member("entries")?;
    show_plan(step, entries)
}

/// Takes a `plan_update`, whose plan stands one level deeper.
pub(crate) fn update_plan(
    step: &mut FoldStep<'_, impl RowStore>,
    update: Json<'_>,
) -> Result<(), ReadError> {
    let entries = match update.seek(&["plan", "entries"])? {
        Some(entries) => Some(entries),
        None => update.member("entries")?,
    };
    show_plan(step, entries)
}

fn show_plan(
    step: &mut FoldStep<'_, impl RowStore>,
    entries: Option<Json<'_>>,
) -> Result<(), ReadError> {
    let Some(entries) = entries else { return Ok(()) };
    let mut plan = RowPlan::default();
    for entry in entries.items().filter(|entry| entry.is_object()) {
        let word = |name| Ok::<_, ReadError>(entry.member(name)?.and_then(Json::text));
        let status = word("status")?.map_or_else(|| "pending".to_owned(), |word| clean_word(&word));
        plan.total += 1;
        plan.done += usize::from(status == "completed");
        if plan.entries.len() < MAX_PLAN_ENTRIES {
            let text = step
                .fold
                .texts
                .clean_line(&word("content")?.unwrap_or_default(), MAX_PLAN_ENTRY_BYTES);
            let priority = word("priority")?.map(|word| clean_word(&word));
            plan.entries.push(RowPlanEntry { text, status, priority });
        }
    }
    let summary = summarise_plan(&plan, &step.fold.texts);
    let own = match step.fold.newest_turn() {
        Some(turn) => turn.plan,
        None => step.fold.plan,
    };
    if let Some(number) = own {
        step.change(number, |row| (row.body, row.summary) = (RowBody::Plan(plan), summary));
        // The agent may have removed the plan before.
        step.fold.plan = own;
        return Ok(());
    }
    end_run(step);
    let number = step.create(RowBody::Plan(plan), summary, false);
    step.fold.plan = Some(number);
    if let Some(turn) = step.fold.newest_turn_mut() {
        turn.plan = Some(number);
    }
    Ok(())
}

/// Returns the plan in one line: how far it is, and the step at work.
fn summarise_plan(plan: &RowPlan, texts: &TextRules) -> String {
    let at_work = plan.entries.iter().find(|entry| entry.status == "in_progress");
    let next = at_work.or_else(|| plan.entries.iter().find(|entry| entry.status == "pending"));
    let step = next.map(|entry| format!(": {}", entry.text)).unwrap_or_default();
    texts.summarise(&format!("Plan {}/{}{step}", plan.done, plan.total))
}
