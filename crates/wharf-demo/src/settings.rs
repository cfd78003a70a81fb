//! The settings of a session: the mode, the pace of streaming, and whether thoughts are shown.

use std::time::Duration;

use serde_json::{Value, json};

/// Value, name and description of a choice; the first of each list is the default.
type SettingChoice = (&'static str, &'static str, &'static str);

const MODE_CHOICES: [SettingChoice; 2] = [
    ("ask", "Ask first", "Asks before every (pretended) edit"),
    ("auto", "Auto-approve", "Edits without asking"),
];
const PACE_CHOICES: [SettingChoice; 3] = [
    ("natural", "Natural", "Streams at a readable pace"),
    ("instant", "Instant", "Streams as fast as it can"),
    ("relaxed", "Relaxed", "Takes its time"),
];
const THOUGHTS_CHOICES: [SettingChoice; 2] = [
    ("show", "Show", "Streams its thoughts before the answer"),
    ("hide", "Hide", "Keeps its thoughts to itself"),
];

/// The current choices.
#[derive(Debug, Clone)]
pub(crate) struct DemoSettings {
    mode: &'static str,
    pace: &'static str,
    thoughts: &'static str,
}

/// The variable that names the pace of new sessions.
const PACE_VARIABLE: &str = "WHARF_DEMO_PACE";

impl DemoSettings {
    /// Returns the settings of a new session. Ignores an unknown pace in `WHARF_DEMO_PACE`.
    pub(crate) fn for_new_session() -> Self {
        let mut settings = Self {
            mode: MODE_CHOICES[0].0,
            pace: PACE_CHOICES[0].0,
            thoughts: THOUGHTS_CHOICES[0].0,
        };
        settings.set_option("pace", &std::env::var(PACE_VARIABLE).unwrap_or_default());
        settings
    }

    /// Changes the mode. Returns false if there is no such mode.
    pub(crate) fn set_mode(&mut self, mode: &str) -> bool {
        choose_value(&mut self.mode, &MODE_CHOICES, mode)
    }

    /// Changes an option. Returns false if there is no such option or value.
    pub(crate) fn set_option(&mut self, option: &str, value: &str) -> bool {
        match option {
            "pace" => choose_value(&mut self.pace, &PACE_CHOICES, value),
            "thoughts" => choose_value(&mut self.thoughts, &THOUGHTS_CHOICES, value),
            _ => false,
        }
    }

    pub(crate) fn asks_first(&self) -> bool {
        self.mode == "ask"
    }

    pub(crate) fn shows_thoughts(&self) -> bool {
        self.thoughts == "show"
    }

    /// Returns the pause between two pieces of text.
    pub(crate) fn pause_for(&self) -> Duration {
        Duration::from_millis(match self.pace {
            "instant" => 0,
            "relaxed" => 120,
            _ => 15,
        })
    }

    pub(crate) fn mode(&self) -> &'static str {
        self.mode
    }

    pub(crate) fn modes_state(&self) -> Value {
        let modes = MODE_CHOICES.map(
            |(id, name, description)| json!({ "id": id, "name": name, "description": description }),
        );
        json!({ "currentModeId": self.mode, "availableModes": modes })
    }

    pub(crate) fn config_options(&self) -> Value {
        json!([
            select_option(
                "pace",
                "Pace",
                "How fast the answer streams",
                "other",
                self.pace,
                &PACE_CHOICES
            ),
            select_option(
                "thoughts",
                "Thoughts",
                "Whether to show them",
                "thought_level",
                self.thoughts,
                &THOUGHTS_CHOICES
            ),
        ])
    }

    /// Returns the choices as a record of the history file.
    pub(crate) fn to_record(&self) -> Value {
        json!({ "settings": { "mode": self.mode, "pace": self.pace, "thoughts": self.thoughts } })
    }

    pub(crate) fn restore(&mut self, record: &Value) {
        let text = |key: &str| record[key].as_str().unwrap_or_default();
        self.set_mode(text("mode"));
        self.set_option("pace", text("pace"));
        self.set_option("thoughts", text("thoughts"));
    }
}

fn choose_value(slot: &mut &'static str, choices: &[SettingChoice], wanted: &str) -> bool {
    let found = choices.iter().find(|choice| choice.0 == wanted);
    if let Some(choice) = found {
        *slot = choice.0;
    }
    found.is_some()
}

fn select_option(
    id: &str,
    name: &str,
    description: &str,
    category: &str,
    current: &str,
    choices: &[SettingChoice],
) -> Value {
    let options: Vec<Value> = choices
        .iter()
        .map(|(value, name, description)| json!({ "value": value, "name": name, "description": description }))
        .collect();
    json!({ "id": id, "name": name, "description": description, "category": category, "type": "select",
            "currentValue": current, "options": options })
}
