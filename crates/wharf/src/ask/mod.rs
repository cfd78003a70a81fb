//! Open asks as the host lists them, and the answers that a person can give.

mod form;

use serde_json::Value;
use wharf_api::{
    AnswerAction, AnswerArgs, Answered, AskList, AskOption, AskSubject, AskType, OpenAsk,
};
use wharf_render::style::Screen;
use wharf_render::text::{quote, to_printable};

use crate::client::{HostCall, HostClient, url_path};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::transcript::{ask_choices, ask_subject};

pub(crate) use form::{Form, FormFilling, FormStep};

/// An open ask, with the answers that can be given.
#[derive(Clone, Debug)]
pub(crate) struct AnswerableAsk(pub(crate) OpenAsk);

/// One answer that can be given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AskChoice {
    pub(crate) id: String,
    pub(crate) name: String,
    /// `allow_once`, `reject_always` …; empty for an elicitation.
    pub(crate) kind: String,
    body: AnswerArgs,
}

/// A question for a person at the terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AskQuestion {
    pub(crate) lines: Vec<String>,
    /// The answer is typed on the same line.
    pub(crate) prompt: String,
}

impl AskQuestion {
    pub(crate) fn print(&self) {
        output::print_styled_note(&self.lines);
        output::print_question(&self.prompt);
    }
}

/// Lists the open asks of a session.
pub(crate) async fn list_open_asks(
    client: &HostClient,
    session: &str,
) -> anyhow::Result<Vec<AnswerableAsk>> {
    let AskList { asks } = client
        .fetch_json(&HostCall::get(url_path(&["sessions", session, "asks"])))
        .await?;
    Ok(asks.into_iter().map(AnswerableAsk).collect())
}

/// Sends an answer to the host.
pub(crate) async fn send_answer(
    client: &HostClient,
    session: &str,
    ask: &AnswerableAsk,
    choice: &AskChoice,
) -> anyhow::Result<Answered> {
    client
        .fetch_json(&HostCall::post(
            url_path(&["sessions", session, "asks", &ask.id()]),
            &choice.body,
        ))
        .await
}

impl AnswerableAsk {
    pub(crate) fn id(&self) -> String {
        self.0.ask_id.to_string()
    }

    /// Returns the subject of the ask in the agent's words.
    pub(crate) fn subject(&self) -> &str {
        let params = &self.0.params;
        let tool = self.0.tool_call.as_ref().unwrap_or(&params["toolCall"]);
        let words = [&tool["title"], &params["message"], &tool["kind"], &tool["toolCallId"]];
        words.into_iter().find_map(Value::as_str).unwrap_or(self.0.kind.as_str())
    }

    /// Returns the subject with everything that a person needs to decide. An older host sends none.
    pub(crate) fn whole_subject(&self) -> AskSubject {
        let title = || AskSubject { title: self.subject().to_owned(), ..AskSubject::default() };
        self.0.subject.clone().unwrap_or_else(title)
    }

    /// Returns the ask as lines: its subject, the fields of a form, then the answers with their
    /// numbers.
    pub(crate) fn to_lines(&self, screen: Screen) -> Vec<String> {
        let choices = self.choices();
        let named = choices.iter().map(|choice| (choice.name.as_str(), choice.kind.as_str()));
        let mut lines = ask_subject(&self.whole_subject(), screen);
        lines.extend(self.form().iter().flat_map(Form::to_lines));
        lines.extend(ask_choices(named));
        lines
    }

    /// Returns the question that a person at the terminal answers with a choice.
    pub(crate) fn choice_question(&self, screen: Screen) -> AskQuestion {
        AskQuestion {
            lines: self.to_lines(screen),
            prompt: "  your answer: ".to_owned(),
        }
    }

    /// Returns the question for the present field of a form, with the subject of the form before
    /// it.
    pub(crate) fn form_question(&self, filling: &FormFilling, screen: Screen) -> AskQuestion {
        let AskQuestion { lines, prompt } = filling.question();
        let mut all_lines = ask_subject(&self.whole_subject(), screen);
        all_lines.push(FormFilling::instruction());
        all_lines.extend(lines);
        AskQuestion { lines: all_lines, prompt }
    }

    /// Returns the fields that the ask wants a person to fill in, if it is a form.
    pub(crate) fn form(&self) -> Option<Form> {
        if self.is_permission() { None } else { Form::read(&self.0.params["requestedSchema"]) }
    }

    /// Returns the answers as `wharf answer` takes them, for a note about an ask that stays open.
    pub(crate) fn describe_answers(&self) -> String {
        match self.form() {
            Some(form) => format!("accept {} (or decline, cancel)", form.describe_pairs()),
            None => {
                self.choices().iter().map(AskChoice::printable_id).collect::<Vec<_>>().join("|")
            }
        }
    }

    /// Returns the possible answers, without the cancellation of a permission.
    pub(crate) fn choices(&self) -> Vec<AskChoice> {
        if !self.is_permission() {
            return [AnswerAction::Accept, AnswerAction::Decline, AnswerAction::Cancel]
                .map(action_choice)
                .into();
        }
        let choice = |AskOption { option_id, name, kind }: &AskOption| AskChoice {
            id: option_id.clone(),
            name: name.clone(),
            kind: kind.clone(),
            body: AnswerArgs { option_id: Some(option_id.clone()), ..AnswerArgs::default() },
        };
        self.0.options.iter().map(choice).collect()
    }

    pub(crate) fn is_permission(&self) -> bool {
        !self.0.options.is_empty() || self.0.kind == AskType::Permission
    }

    /// Returns the choice with this id, name or number, that a word such as `allow` means by its
    /// kind, or with a beginning that no other choice has.
    pub(crate) fn find_choice(&self, meant: &str) -> Result<AskChoice, Failure> {
        let choices = self.choices();
        let meant_low = meant.to_lowercase();
        let words = |choice: &AskChoice| [choice.id.to_lowercase(), choice.name.to_lowercase()];
        let exact = choices.iter().find(|choice| choice.id == meant);
        let exact =
            exact.or_else(|| choices.iter().find(|choice| words(choice).contains(&meant_low)));
        let numbered = choice_at_place(&choices, meant);
        if let (Some(exact), Some(numbered)) = (exact, numbered)
            && exact != numbered
        {
            return Err(self.two_readings(meant, exact, numbered));
        }
        if let Some(choice) = exact.or(numbered) {
            return Ok(choice.clone());
        }
        if let Some(choice) = self.find_meaning(&meant_low) {
            return Ok(choice);
        }
        let begins =
            |choice: &&AskChoice| words(choice).iter().any(|word| word.starts_with(&meant_low));
        let found: Vec<&AskChoice> = choices.iter().filter(begins).collect();
        match found[..] {
            [one] if !meant.is_empty() => Ok(one.clone()),
            [] if meant == "cancel" => Ok(cancel_choice()),
            _ => {
                let offered: Vec<String> = choices
                    .iter()
                    .map(|choice| format!("{} ({})", choice.printable_id(), quote(&choice.name)))
                    .collect();
                let fits = if found.len() > 1 { "fits several answers" } else { "is not offered" };
                let words = format!(
                    "{meant} {fits}; ask {} offers: {}, or cancel",
                    self.id(),
                    offered.join(", "),
                    meant = quote(meant)
                );
                Err(Failure::new(Exit::Usage, words))
            }
        }
    }

    /// Returns the choice that a line means which was typed below the numbered choices: a number is
    /// a place, whatever the ids are, since they are not shown.
    pub(crate) fn find_typed_choice(&self, line: &str) -> Result<AskChoice, Failure> {
        if line.is_empty() || !line.bytes().all(|byte| byte.is_ascii_digit()) {
            return self.find_choice(line);
        }
        let choices = self.choices();
        let named = || choices.iter().find(|choice| choice.name == line);
        choice_at_place(&choices, line).or_else(named).cloned().ok_or_else(|| {
            let words = format!(
                "{line} is not one of the numbers 1 to {}; the ask stays open",
                choices.len()
            );
            Failure::new(Exit::Usage, words)
        })
    }

    /// Refuses a number that is the id or the name of one choice and the place of another.
    fn two_readings(&self, meant: &str, exact: &AskChoice, numbered: &AskChoice) -> Failure {
        let kind = if exact.id.eq_ignore_ascii_case(meant) { "id" } else { "name" };
        let exact = quote(&exact.name);
        let numbered = quote(&numbered.name);
        let words = format!(
            "{meant} is the {kind} of {exact} and the number of {numbered} in ask {}; give the name of the answer",
            self.id(),
            meant = quote(meant)
        );
        Failure::new(Exit::Usage, words)
    }

    /// Returns the choice that a common word means. `allow` is never for good.
    fn find_meaning(&self, word: &str) -> Option<AskChoice> {
        match word {
            "allow" | "yes" | "y" if self.is_permission() => self.consent_choice(),
            "allow" | "yes" | "y" => Some(action_choice(AnswerAction::Accept)),
            "always" => self.find_kind("allow_always"),
            "deny" | "no" | "n" | "reject" => Some(self.refusal_choice()),
            _ => None,
        }
    }

    /// Returns the choice that refuses once, or else the next milder refusal than cancelling.
    pub(crate) fn refusal_choice(&self) -> AskChoice {
        if !self.is_permission() {
            return action_choice(AnswerAction::Decline);
        }
        self.find_kind("reject_once")
            .or_else(|| self.find_kind("reject_always"))
            .unwrap_or_else(cancel_choice)
    }

    /// Returns the choice that allows once, or `None` without such a choice. Never returns a choice
    /// that allows always.
    pub(crate) fn consent_choice(&self) -> Option<AskChoice> {
        self.find_kind("allow_once")
    }

    /// Returns the answer that accepts a form with this content.
    pub(crate) fn acceptance(content: Value) -> AskChoice {
        action_choice(AnswerAction::Accept).with_content(content)
    }

    fn find_kind(&self, kind: &str) -> Option<AskChoice> {
        self.choices().into_iter().find(|choice| choice.kind == kind)
    }
}

impl AskChoice {
    /// Returns the id without control characters: the agent chose it.
    pub(crate) fn printable_id(&self) -> String {
        to_printable(&self.id)
    }

    /// Returns true if the choice accepts a form.
    pub(crate) fn is_acceptance(&self) -> bool {
        self.body.action == Some(AnswerAction::Accept)
    }

    /// Sets the content of a form.
    pub(crate) fn with_content(mut self, content: Value) -> Self {
        self.body.content = Some(content);
        self
    }
}

/// Returns the choice with this number; the first one is 1.
fn choice_at_place<'a>(choices: &'a [AskChoice], number: &str) -> Option<&'a AskChoice> {
    choices.get(number.parse::<usize>().ok()?.checked_sub(1)?)
}

fn action_choice(action: AnswerAction) -> AskChoice {
    let word = match action {
        AnswerAction::Accept => "accept",
        AnswerAction::Decline => "decline",
        AnswerAction::Cancel => "cancel",
    };
    let body = AnswerArgs { action: Some(action), ..AnswerArgs::default() };
    AskChoice {
        id: word.to_owned(),
        name: word.to_owned(),
        kind: String::new(),
        body,
    }
}

fn cancel_choice() -> AskChoice {
    let id = "cancel".to_owned();
    let name = "cancel".to_owned();
    AskChoice {
        id,
        name,
        kind: String::new(),
        body: AnswerArgs { cancel: Some(true), ..AnswerArgs::default() },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ask(value: Value) -> AnswerableAsk {
        AnswerableAsk(serde_json::from_value(value).unwrap())
    }

    fn body(choice: &AskChoice) -> Value {
        serde_json::to_value(&choice.body).unwrap()
    }

    fn permission() -> AnswerableAsk {
        let option = |id: &str, name: &str, kind: &str| json!({ "optionId": id, "name": name, "kind": kind });
        let options = [
            option("allow-once", "Allow", "allow_once"),
            option("allow-always", "Always allow", "allow_always"),
            option("no", "Reject", "reject_once"),
        ];
        let tool = json!({ "title": "rm -rf build", "toolCallId": "t1" });
        ask(
            json!({ "askId": 7, "kind": "permission", "options": options, "toolCall": tool, "params": {} }),
        )
    }

    fn elicitation() -> AnswerableAsk {
        let params = json!({ "message": "Which branch?" });
        ask(json!({ "askId": 8, "kind": "elicitation", "options": [], "params": params }))
    }

    #[test]
    fn an_answer_is_meant_by_id_name_or_beginning() {
        let id = |meant: &str| {
            permission()
                .find_choice(meant)
                .map(|choice| choice.id)
                .map_err(|error| error.to_string())
        };
        for (meant, chosen) in [
            ("allow-once", "allow-once"),
            ("ALLOW", "allow-once"),
            ("always", "allow-always"),
            ("rej", "no"),
            ("n", "no"),
        ] {
            assert_eq!(id(meant).as_deref(), Ok(chosen), "{meant}");
        }
        let several = id("allow-").unwrap_err();
        assert!(several.contains("fits several") && several.contains("allow-always"), "{several}");
        assert!(id("maybe").unwrap_err().contains("is not offered") && id("").is_err());
        assert_eq!(body(&permission().find_choice("cancel").unwrap()), json!({ "cancel": true }));
    }

    #[test]
    fn common_words_and_numbers_mean_an_answer_by_its_kind() {
        let mut plain = permission();
        for option in &mut plain.0.options {
            option.option_id = option.kind.clone();
            option.name = option.kind.replace('_', " ");
        }
        for (meant, chosen) in [
            ("allow", "allow_once"),
            ("Yes", "allow_once"),
            ("y", "allow_once"),
            ("always", "allow_always"),
            ("deny", "reject_once"),
            ("n", "reject_once"),
            ("2", "allow_always"),
        ] {
            assert_eq!(plain.find_choice(meant).unwrap().id, chosen, "{meant}");
        }
        assert!(plain.find_choice("4").is_err() && plain.find_choice("0").is_err());
        plain.0.options.retain(|option| option.kind == "allow_always");
        assert!(plain.find_choice("y").is_err(), "yes is never for good");
        assert_eq!(body(&elicitation().find_choice("n").unwrap()), json!({ "action": "decline" }));
    }

    #[test]
    fn number_that_is_an_id_and_the_place_of_another_answer_is_refused() {
        let mut numbered = permission();
        for (place, option) in numbered.0.options.iter_mut().enumerate() {
            option.option_id = place.to_string();
        }
        let refused = numbered.find_choice("1").unwrap_err().to_string();
        let readings = r#""1" is the id of "Always allow" and the number of "Allow""#;
        assert!(refused.contains(readings), "{refused}");
        assert_eq!(numbered.find_choice("0").unwrap().name, "Allow", "it is an id alone");
        assert_eq!(numbered.find_choice("3").unwrap().name, "Reject", "it is a place alone");
        numbered.0.options[0].option_id = "1".to_owned();
        assert_eq!(
            numbered.find_choice("1").unwrap().name,
            "Allow",
            "both readings are the same answer"
        );
    }

    #[test]
    fn an_id_is_shown_without_what_moves_a_terminal() {
        let mut odd = permission();
        odd.0.options[0].option_id = "\u{1b}[2Jallow\u{7}".to_owned();
        let refused = odd.find_choice("maybe").unwrap_err().to_string();
        assert!(refused.contains("offers: allow (\"Allow\")"), "{refused:?}");
        let choice = odd.find_choice("\u{1b}[2Jallow\u{7}").unwrap();
        assert_eq!(
            (choice.printable_id().as_str(), &body(&choice)["optionId"]),
            ("allow", &json!("\u{1b}[2Jallow\u{7}"))
        );
    }

    #[test]
    fn yes_is_never_for_good_and_no_is_mild() {
        assert_eq!(permission().consent_choice().unwrap().id, "allow-once");
        assert_eq!(permission().refusal_choice().id, "no");
        let mut odd = permission();
        odd.0.options.retain(|option| option.kind == "allow_always");
        assert_eq!(odd.consent_choice(), None);
        assert_eq!(body(&odd.refusal_choice()), json!({ "cancel": true }));
        assert_eq!(elicitation().consent_choice(), None);
        assert_eq!(body(&elicitation().refusal_choice()), json!({ "action": "decline" }));
    }

    #[test]
    fn an_ask_says_what_it_is_about() {
        assert_eq!((permission().subject(), permission().id().as_str()), ("rm -rf build", "7"));
        assert_eq!((elicitation().subject(), elicitation().id().as_str()), ("Which branch?", "8"));
        let filled = elicitation()
            .find_choice("acc")
            .unwrap()
            .with_content(json!({ "branch": "main" }));
        assert_eq!(body(&filled), json!({ "action": "accept", "content": { "branch": "main" } }));
    }
}
