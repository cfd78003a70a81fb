//! The demo agent's answers. They show a new user each kind of update once.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::turn::TurnStop;
use crate::turn_writer::{PermissionResult, TurnWriter};

/// A simulated context window, so that clients can show the usage.
const CONTEXT_WINDOW_TOKENS: u64 = 200_000;
/// The largest number of characters of a title.
const MAX_TITLE_CHARS: usize = 48;

/// Names the session after its first prompt.
pub(crate) fn send_title(talk: &TurnWriter, text: &str) -> Result<(), TurnStop> {
    let text = text.trim();
    if text.is_empty() || talk.with_session(|session| session.title.is_some()) {
        return Ok(());
    }
    let first_line = text.lines().next().unwrap_or_default();
    let mut title: String = first_line.chars().take(MAX_TITLE_CHARS).collect();
    if title.len() < first_line.len() {
        title.push('…');
    }
    talk.with_session(|session| session.set_title(title.clone()));
    talk.turn
        .send_update(&json!({ "sessionUpdate": "session_info_update", "title": title }))
}

pub(crate) fn send_usage(talk: &TurnWriter) -> Result<(), TurnStop> {
    let used = talk.with_session(|session| session.used).min(CONTEXT_WINDOW_TOKENS);
    talk.turn.send_update(
        &json!({ "sessionUpdate": "usage_update", "used": used, "size": CONTEXT_WINDOW_TOKENS }),
    )
}

/// Answers a prompt that is not a command.
pub(crate) fn answer_text(
    talk: &mut TurnWriter,
    text: &str,
    attachments: usize,
) -> Result<(), TurnStop> {
    const ANSWER_STEPS: [&str; 2] = ["Read your message", "Write a short answer"];
    talk.send_thought(
        "Someone is talking to me. No model here, so I will be brief and honest about it.",
    )?;
    talk.send_plan(&ANSWER_STEPS, 0)?;
    talk.send_plan(&ANSWER_STEPS, 1)?;
    let heard = match text.chars().count() {
        0 => "Hello! Your message has no text".to_owned(),
        1..=80 => format!("Hello! You said “{text}”"),
        count => format!("Hello! You wrote {count} characters"),
    };
    let attached = match attachments {
        0 => String::new(),
        1 => ", and attached one thing that I cannot look into".to_owned(),
        count => format!(", and attached {count} things that I cannot look into"),
    };
    talk.send_text(&format!(
        "{heard}{attached}. I am a small demo agent without a model, but everything around me is real: \
         this text is streamed, the plan above is live, and the session is kept. \
         Say `help` to see what I can do; `edit` is a good start."
    ))?;
    talk.send_plan(&ANSWER_STEPS, ANSWER_STEPS.len())
}

pub(crate) fn show_thoughts(talk: &mut TurnWriter) -> Result<(), TurnStop> {
    talk.send_thought(
        "First I look at the question. Then I look at it from the other side. Both sides agree: it is a fine question.",
    )?;
    talk.send_text("I have thought about it, and I am for it.")
}

pub(crate) fn show_plan(talk: &mut TurnWriter) -> Result<(), TurnStop> {
    const PLAN_STEPS: [&str; 4] =
        ["Look around", "Find the smallest change", "Make it", "Check it"];
    for done in 0..=PLAN_STEPS.len() {
        talk.send_plan(&PLAN_STEPS, done)?;
        talk.pause_for_chunks(6)?;
    }
    talk.send_text("All four steps are done.")
}

pub(crate) fn show_tool_call(talk: &mut TurnWriter) -> Result<(), TurnStop> {
    let call = talk.open_tool_call("ls", "execute", json!({ "rawInput": { "command": "ls" } }))?;
    talk.update_tool_call(&call, "in_progress", None)?;
    talk.pause_for_chunks(10)?;
    talk.update_tool_call(&call, "completed", Some(text_content("README.md\nsrc\n")))?;
    talk.send_text("The (pretended) command found a README and a source folder.")
}

/// A pretended change of one file.
pub(crate) struct FileEdit<'a> {
    pub(crate) path: &'a str,
    pub(crate) line: u32,
    pub(crate) old: &'a str,
    pub(crate) new: &'a str,
}

pub(crate) fn ask_for_edit(talk: &mut TurnWriter) -> Result<(), TurnStop> {
    let path = talk.with_session(|session| {
        Path::new(&session.cwd).join("hello.txt").to_string_lossy().into_owned()
    });
    talk.send_text("I would like to change one line of `hello.txt`.")?;
    let edit = FileEdit {
        path: &path,
        line: 1,
        old: "Hello!\n",
        new: "Hello, harbour!\n",
    };
    let (asked, verdict) = make_edit(talk, &edit)?;
    let why = match (asked, &verdict) {
        (_, PermissionResult::Rejected | PermissionResult::Open(_)) => {
            return talk
                .send_text(&format!("I left it as it was: {}.", describe_verdict(&verdict)));
        }
        (false, _) => "I did not need to ask",
        (true, PermissionResult::Always) => "you allowed it for the rest of this session",
        (true, PermissionResult::Once) => "you allowed it",
    };
    talk.send_text(&format!(
        "Done: {why}. (This is a demo: the diff is shown, the file is untouched.)"
    ))
}

/// Shows an edit, asks for it unless the mode or an earlier answer allows it, and ends its tool
/// call accordingly. Returns whether it asked, and the answer.
pub(crate) fn make_edit(
    talk: &mut TurnWriter,
    edit: &FileEdit<'_>,
) -> Result<(bool, PermissionResult), TurnStop> {
    let FileEdit { path, line, old, new } = edit;
    let asks = talk.with_session(|session| session.settings.asks_first() && !session.always);
    let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let title = format!("Edit {name}");
    // The diff comes before the question, so that the person sees the change before allowing it.
    let diff = json!({ "type": "diff", "path": path, "oldText": old, "newText": new });
    let locations = json!([{ "path": path, "line": line }]);
    let more = json!({ "locations": locations, "rawInput": { "path": path }, "content": [diff] });
    let call = talk.open_tool_call(&title, "edit", more)?;
    let verdict =
        if asks { talk.ask_permission(&call, &title, "edit")? } else { PermissionResult::Once };
    match &verdict {
        PermissionResult::Rejected | PermissionResult::Open(_) => {
            talk.update_tool_call(&call, "failed", Some(text_content("not allowed")))?;
            return Ok((asks, verdict));
        }
        PermissionResult::Once => {}
        PermissionResult::Always => talk.with_session(|session| session.always = true),
    }
    talk.update_tool_call(&call, "in_progress", None)?;
    talk.update_tool_call(&call, "completed", None)?;
    Ok((asks, verdict))
}

pub(crate) fn ask_questions(talk: &mut TurnWriter, times: u64) -> Result<(), TurnStop> {
    for number in 1..=times {
        let title = format!("Question {number} of {times}: may I?");
        let call = talk.open_tool_call(&title, "other", json!({}))?;
        let verdict = talk.ask_permission(&call, &title, "other")?;
        let allowed = matches!(verdict, PermissionResult::Once | PermissionResult::Always);
        talk.update_tool_call(&call, if allowed { "completed" } else { "failed" }, None)?;
        talk.send_text(&format!("Question {number}: {}.\n", describe_verdict(&verdict)))?;
    }
    Ok(())
}

pub(crate) fn tell_story(talk: &mut TurnWriter) -> Result<(), TurnStop> {
    const STORY_PARTS: [&str; 8] = [
        "Once upon a time ",
        "a ship came to a wharf. ",
        "Its captain went ashore, ",
        "the crew slept, ",
        "the harbour master changed twice; ",
        "and when the captain came back, ",
        "the log was complete ",
        "to the last line.",
    ];
    for part in STORY_PARTS {
        talk.send_text(part)?;
        talk.turn.pause_for(Duration::from_secs(1))?;
    }
    Ok(())
}

pub(crate) fn describe_verdict(verdict: &PermissionResult) -> &str {
    match verdict {
        PermissionResult::Once => "you allowed it once",
        PermissionResult::Always => "you allowed it for good",
        PermissionResult::Rejected => "you rejected it",
        PermissionResult::Open(why) => why,
    }
}

pub(crate) fn text_content(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}
