//! The demo agent's answers. They show a new user each kind of update once.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::talk::{Talk, Verdict};
use crate::turn::Stop;

/// A simulated context window, so that clients can show the usage.
const WINDOW: u64 = 200_000;
/// The largest number of characters of a title.
const TITLE: usize = 48;

/// Names the session after its first prompt.
pub(crate) fn title(talk: &Talk, text: &str) -> Result<(), Stop> {
    let text = text.trim();
    if text.is_empty() || talk.with_session(|session| session.title.is_some()) {
        return Ok(());
    }
    let first_line = text.lines().next().unwrap_or_default();
    let mut title: String = first_line.chars().take(TITLE).collect();
    if title.len() < first_line.len() {
        title.push('…');
    }
    talk.with_session(|session| session.set_title(title.clone()));
    talk.turn.update(&json!({ "sessionUpdate": "session_info_update", "title": title }))
}

pub(crate) fn usage(talk: &Talk) -> Result<(), Stop> {
    let used = talk.with_session(|session| session.used).min(WINDOW);
    talk.turn.update(&json!({ "sessionUpdate": "usage_update", "used": used, "size": WINDOW }))
}

/// Answers a prompt that is not a command.
pub(crate) fn chat(talk: &mut Talk, text: &str, attachments: usize) -> Result<(), Stop> {
    const STEPS: [&str; 2] = ["Read your message", "Write a short answer"];
    talk.think("Someone is talking to me. No model here, so I will be brief and honest about it.")?;
    talk.plan(&STEPS, 0)?;
    talk.plan(&STEPS, 1)?;
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
    talk.say(&format!(
        "{heard}{attached}. I am a small demo agent without a model, but everything around me is real: \
         this text is streamed, the plan above is live, and the session is kept. \
         Say `help` to see what I can do; `edit` is a good start."
    ))?;
    talk.plan(&STEPS, STEPS.len())
}

pub(crate) fn think(talk: &mut Talk) -> Result<(), Stop> {
    talk.think(
        "First I look at the question. Then I look at it from the other side. Both sides agree: it is a fine question.",
    )?;
    talk.say("I have thought about it, and I am for it.")
}

pub(crate) fn plan(talk: &mut Talk) -> Result<(), Stop> {
    const STEPS: [&str; 4] = ["Look around", "Find the smallest change", "Make it", "Check it"];
    for done in 0..=STEPS.len() {
        talk.plan(&STEPS, done)?;
        talk.breathe(6)?;
    }
    talk.say("All four steps are done.")
}

pub(crate) fn tool(talk: &mut Talk) -> Result<(), Stop> {
    let call = talk.call("ls", "execute", json!({ "rawInput": { "command": "ls" } }))?;
    talk.progress(&call, "in_progress", None)?;
    talk.breathe(10)?;
    talk.progress(&call, "completed", Some(text_content("README.md\nsrc\n")))?;
    talk.say("The (pretended) command found a README and a source folder.")
}

pub(crate) fn edit(talk: &mut Talk) -> Result<(), Stop> {
    let (path, asks) = talk.with_session(|session| {
        let path = Path::new(&session.cwd).join("hello.txt").to_string_lossy().into_owned();
        (path, session.settings.asks_first() && !session.always)
    });
    let title = "Edit hello.txt";
    talk.say("I would like to change one line of `hello.txt`.")?;
    let more = json!({ "locations": [{ "path": path, "line": 1 }], "rawInput": { "path": path } });
    let call = talk.call(title, "edit", more)?;
    let verdict = if asks { talk.permission(&call, title, "edit")? } else { Verdict::Once };
    match &verdict {
        Verdict::Rejected | Verdict::Open(_) => {
            talk.progress(&call, "failed", Some(text_content("not allowed")))?;
            return talk.say(&format!("I left it as it was: {}.", spoken(&verdict)));
        }
        Verdict::Once => {}
        Verdict::Always => talk.with_session(|session| session.always = true),
    }
    talk.progress(&call, "in_progress", None)?;
    let diff = json!({ "type": "diff", "path": path, "oldText": "Hello!\n", "newText": "Hello, harbour!\n" });
    talk.progress(&call, "completed", Some(diff))?;
    let why = match (asks, verdict) {
        (false, _) => "I did not need to ask",
        (true, Verdict::Always) => "you allowed it for the rest of this session",
        (true, Verdict::Once | Verdict::Rejected | Verdict::Open(_)) => "you allowed it",
    };
    talk.say(&format!("Done: {why}. (This is a demo: the diff is shown, the file is untouched.)"))
}

pub(crate) fn ask(talk: &mut Talk, times: u64) -> Result<(), Stop> {
    for number in 1..=times {
        let title = format!("Question {number} of {times}: may I?");
        let call = talk.call(&title, "other", json!({}))?;
        let verdict = talk.permission(&call, &title, "other")?;
        let allowed = matches!(verdict, Verdict::Once | Verdict::Always);
        talk.progress(&call, if allowed { "completed" } else { "failed" }, None)?;
        talk.say(&format!("Question {number}: {}.\n", spoken(&verdict)))?;
    }
    Ok(())
}

pub(crate) fn slow(talk: &mut Talk) -> Result<(), Stop> {
    const STORY: [&str; 8] = [
        "Once upon a time ",
        "a ship came to a wharf. ",
        "Its captain went ashore, ",
        "the crew slept, ",
        "the harbour master changed twice; ",
        "and when the captain came back, ",
        "the log was complete ",
        "to the last line.",
    ];
    for part in STORY {
        talk.say(part)?;
        talk.turn.pause(Duration::from_secs(1))?;
    }
    Ok(())
}

fn spoken(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Once => "you allowed it once",
        Verdict::Always => "you allowed it for good",
        Verdict::Rejected => "you rejected it",
        Verdict::Open(why) => why,
    }
}

fn text_content(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}
