//! The page of all keys, `docs/terminal.md`, is made from the table. `WHARF_BLESS=1` writes it
//! anew.

use std::fmt::Write;
use std::path::Path;

use wharf_tui::keymap::{KeyBinding, KeyScope, all_bindings};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/terminal.md");
/// The tables stand between these lines of the page.
const BEGIN_MARK: &str = "<!-- keys: made from the table of keys; WHARF_BLESS=1 cargo nextest run -p wharf-tui key_page -->\n";
const END_MARK: &str = "<!-- end of keys -->";

const fn place_title(scope: KeyScope) -> &'static str {
    match scope {
        KeyScope::Everywhere => "Everywhere",
        KeyScope::List => "In the list of sessions",
        KeyScope::Transcript => "In the transcript",
        KeyScope::Composer => "In the composer",
        KeyScope::TextField => "Where text is typed",
        KeyScope::Ask => "In a question of the agent",
        KeyScope::Form => "In the form for a new session",
        KeyScope::Menu => "In a list of choices",
        KeyScope::Reader => "In a text over the whole screen",
    }
}

fn key_line(binding: &KeyBinding) -> String {
    let keys: Vec<String> = binding.key_labels().iter().map(|key| format!("`{key}`")).collect();
    let keys = if keys.is_empty() { "palette only".to_owned() } else { keys.join(", ") };
    format!("| {} | {} |\n", keys.replace('|', "\\|"), binding.title.replace('|', "\\|"))
}

fn write_tables() -> String {
    let mut text = String::new();
    let mut place = None;
    for binding in all_bindings() {
        if place != Some(binding.scope) {
            place = Some(binding.scope);
            let _ = write!(
                text,
                "\n### {}\n\n| key | command |\n|---|---|\n",
                place_title(binding.scope)
            );
        }
        text.push_str(&key_line(binding));
    }
    text.push('\n');
    text
}

#[test]
fn page_of_keys_is_the_table_of_keys() {
    let page = std::fs::read_to_string(Path::new(PAGE)).unwrap();
    let (head, rest) = page.split_once(BEGIN_MARK).expect("the page has no mark for the keys");
    let (written, tail) =
        rest.split_once(END_MARK).expect("the page has no mark for the end of the keys");
    let tables = write_tables();
    if std::env::var_os("WHARF_BLESS").is_some() {
        std::fs::write(PAGE, format!("{head}{BEGIN_MARK}{tables}{END_MARK}{tail}")).unwrap();
        return;
    }
    assert_eq!(written, tables, "docs/terminal.md; WHARF_BLESS=1 writes it anew");
}
