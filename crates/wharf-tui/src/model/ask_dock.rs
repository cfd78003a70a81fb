//! The ask that is in view below the transcript, and the option that is selected.

use std::time::Duration;

use wharf_api::{AskOption, AskState, RowAsk};

/// Keys do nothing for this time after a card has appeared, so that a key that was on its way does
/// not answer it.
pub(crate) const ANSWER_GUARD: Duration = Duration::from_millis(400);
/// An ask that another client answered stays in view for this time.
const RESOLVED_TIME: Duration = Duration::from_secs(2);

/// An ask that is over without an answer from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedAsk {
    pub(crate) title: String,
    /// The outcome and the person, in words.
    pub(crate) outcome: String,
    pub(crate) until: Duration,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct AskDock {
    /// The ask in view, and since when it is.
    pub(crate) shown: Option<(u64, Duration)>,
    pub(crate) option: usize,
    /// Lines of the subject above the screen.
    pub(crate) scroll: usize,
    /// The ask whose answer is on its way.
    pub(crate) answering: Option<u64>,
    /// The ask that was in view and was answered elsewhere. It covers the next one for a moment.
    pub(crate) resolved: Option<ResolvedAsk>,
}

impl AskDock {
    /// Returns the ask in view and its place among the open ones.
    pub(crate) fn current<'a>(&self, asks: &[&'a RowAsk]) -> Option<(usize, &'a RowAsk)> {
        let (shown, _) = self.shown?;
        asks.iter().copied().enumerate().find(|(_, ask)| ask.ask_id == shown)
    }

    /// Keeps the ask in view, or takes the oldest open one if it is gone.
    pub(crate) fn follow(&mut self, asks: &[&RowAsk], now: Duration) {
        if self.current(asks).is_none() {
            self.show(asks.first().copied(), now);
        }
    }

    /// Shows an ask. The option that allows once is selected, since Enter must not allow more than
    /// that by accident.
    pub(crate) fn show(&mut self, ask: Option<&RowAsk>, now: Duration) {
        let shown = ask.map(|ask| (ask.ask_id, now));
        let once =
            ask.and_then(|ask| ask.options.iter().position(|option| option.kind == "allow_once"));
        let option = once.unwrap_or_default();
        *self = Self {
            shown,
            option,
            scroll: 0,
            answering: self.answering,
            resolved: self.resolved.take(),
        };
    }

    /// Notes that the ask in view is over, so that its outcome is shown for a moment.
    pub(crate) fn note_resolved(&mut self, ask: &RowAsk, now: Duration) {
        self.resolved = Some(ResolvedAsk {
            title: ask.subject.title.clone(),
            outcome: describe_outcome(ask),
            until: now + RESOLVED_TIME,
        });
    }

    /// Removes the outcome whose time is over. The card below it counts as new.
    pub(crate) fn drop_expired(&mut self, now: Duration) {
        if self.resolved.as_ref().is_some_and(|resolved| resolved.until <= now) {
            self.resolved = None;
            self.shown = self.shown.map(|(ask, _)| (ask, now));
        }
    }

    /// Returns true if a card is in view.
    pub(crate) const fn has_card(&self) -> bool {
        self.shown.is_some() || self.resolved.is_some()
    }

    /// Returns true if keys act on the card already.
    pub(crate) fn takes_keys(&self, now: Duration) -> bool {
        self.resolved.is_none() && self.shown.is_some_and(|(_, since)| now >= since + ANSWER_GUARD)
    }
}

/// Returns the option of this kind if there is exactly one: only then a letter means it.
pub(crate) fn only_option<'a>(options: &'a [AskOption], kind: &str) -> Option<&'a AskOption> {
    let mut of_kind = options.iter().filter(|option| option.kind == kind);
    of_kind.next().filter(|_| of_kind.next().is_none())
}

/// Returns the one key of an option: a letter if it is the only one of its kind, else its number.
pub(crate) fn option_key(options: &[AskOption], place: usize) -> Option<char> {
    let option = options.get(place)?;
    let letter = match option.kind.as_str() {
        "allow_once" => Some('a'),
        "allow_always" => Some('A'),
        "reject_once" => Some('d'),
        _ => None,
    };
    let digit = || u32::try_from(place + 1).ok().and_then(|number| char::from_digit(number, 10));
    letter.filter(|_| only_option(options, &option.kind).is_some()).or_else(digit)
}

/// A way to answer a question that has a form or a link instead of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormAnswer {
    CopyLink,
    FillIn,
    /// The person has opened the link and completed the request there.
    AcceptLink,
    Decline,
}

/// Returns the ways to answer a question without options, each with its key.
pub(crate) fn form_answers(ask: &RowAsk) -> Vec<(char, FormAnswer)> {
    let form = ask.form.as_ref();
    let schema = form.and_then(|form| form.schema.as_ref());
    let has_fields = schema
        .and_then(|schema| schema.get("properties")?.as_object())
        .is_some_and(|all| !all.is_empty());
    match (form.is_some_and(|form| form.url.is_some()), has_fields) {
        (true, true) => {
            vec![('1', FormAnswer::CopyLink), ('2', FormAnswer::FillIn), ('d', FormAnswer::Decline)]
        }
        (true, false) => vec![
            ('1', FormAnswer::CopyLink),
            ('a', FormAnswer::AcceptLink),
            ('d', FormAnswer::Decline),
        ],
        (false, _) => vec![('1', FormAnswer::FillIn), ('d', FormAnswer::Decline)],
    }
}

fn describe_outcome(ask: &RowAsk) -> String {
    let answer = ask.answer.as_ref();
    let chosen = answer.and_then(|answer| answer.name.as_deref().or(answer.option.as_deref()));
    let outcome = match &ask.state {
        AskState::Open | AskState::Answered => chosen.unwrap_or("answered").to_owned(),
        AskState::Declined => "declined".to_owned(),
        AskState::Cancelled => "cancelled".to_owned(),
        AskState::Withdrawn => "withdrawn by the agent".to_owned(),
        AskState::AgentGone => "not answered: the agent is gone".to_owned(),
        AskState::Other(newer) => newer.to_string(),
    };
    let by = answer.and_then(|answer| answer.by.as_ref());
    let by = by.and_then(|by| by.name.as_deref().or(by.client.as_deref()));
    by.map_or_else(|| outcome.clone(), |by| format!("{outcome} · by {by}"))
}
