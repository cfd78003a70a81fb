//! Forms from schema to content: typed line by line, and as pairs.

use serde_json::json;

use super::*;

fn form() -> Form {
    let schema = json!({
        "type": "object",
        "required": ["db", "count"],
        "properties": {
            "count": { "type": "integer", "minimum": 1, "maximum": 9 },
            "db": { "type": "string", "title": "Database", "description": "It keeps the rows",
                "enum": ["sqlite", "postgres"], "enumNames": ["SQLite", "PostgreSQL"], "default": "sqlite" },
            "note": { "type": "string", "maxLength": 5 },
            "ratio": { "type": "number", "default": 0.5 },
            "tests": { "type": "boolean", "default": true },
        }
    });
    Form::read(&schema).unwrap()
}

fn fill(lines: &[&str]) -> FormStep {
    let mut filling = FormFilling::new(form());
    let steps: Vec<FormStep> = lines.iter().map(|line| filling.take_line(line)).collect();
    steps.last().unwrap().clone()
}

fn prompt(step: FormStep) -> String {
    let FormStep::Ask(question) = step else { panic!("{step:?}") };
    question.prompt
}

fn pairs(texts: &[&str]) -> Result<Value, String> {
    form().fill_from_pairs(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
}

#[test]
fn fields_are_asked_for_one_by_one_with_required_fields_first() {
    let mut filling = FormFilling::new(form());
    let first = filling.question();
    assert_eq!(
        first.lines,
        [
            "  1/5 Database: It keeps the rows",
            "      1) sqlite (SQLite)",
            "      2) postgres (PostgreSQL)"
        ]
    );
    assert_eq!(first.prompt, "  db (a number or a name of these) [sqlite]: ");
    assert_eq!(prompt(filling.take_line("2")), "  count (a whole number from 1 to 9): ");
    assert_eq!(prompt(filling.take_line("3")), "  note (text, optional): ");
    assert_eq!(prompt(filling.take_line("  hi ")), "  ratio (a number) [0.5]: ");
    assert_eq!(prompt(filling.take_line("1")), "  tests (yes or no) [yes]: ");
    let content = json!({ "db": "postgres", "count": 3, "note": "hi", "ratio": 1, "tests": false });
    assert_eq!(filling.take_line("n"), FormStep::Filled(content));
}

#[test]
fn empty_line_takes_the_default_or_leaves_an_optional_field_out() {
    assert_eq!(
        fill(&["", "3", "", "", ""]),
        FormStep::Filled(json!({ "db": "sqlite", "count": 3, "ratio": 0.5, "tests": true }))
    );
    assert_eq!(
        prompt(fill(&["", ""])),
        "  a value is needed; count (a whole number from 1 to 9): "
    );
}

#[test]
fn invalid_value_is_asked_again_with_the_reason() {
    for (lines, reason) in [
        (&["oracle"][..], "\"oracle\" is none of: sqlite, postgres; db "),
        (&["", "three"], "\"three\" is no whole number; count "),
        (&["", "2.5"], "\"2.5\" is no whole number; count "),
        (&["", "10"], "10 is not from 1 to 9; count "),
        (&["", "3", "too long"], "it has 8 characters, and at most 5 are allowed; note "),
        (&["", "3", "", "much"], "\"much\" is no number; ratio "),
        (&["", "3", "", "", "perhaps"], "\"perhaps\" is neither yes nor no; tests "),
    ] {
        let prompt = prompt(fill(lines));
        assert!(prompt.trim_start().starts_with(reason), "{prompt}");
    }
    assert_eq!(prompt(fill(&["oracle", "postgres"])), "  count (a whole number from 1 to 9): ");
}

#[test]
fn cancel_declines_at_any_field() {
    assert_eq!(fill(&["cancel"]), FormStep::Declined);
    assert_eq!(fill(&["", "3", " Cancel"]), FormStep::Declined);
}

#[test]
fn pairs_fill_the_form_with_defaults_for_the_other_fields() {
    assert_eq!(
        pairs(&["count=3", "note=a=b"]),
        Ok(json!({ "db": "sqlite", "count": 3, "note": "a=b", "ratio": 0.5, "tests": true }))
    );
    assert_eq!(pairs(&["count=3", "db=PostgreSQL"]).unwrap()["db"], "postgres");
    assert_eq!(pairs(&["count=3", "note="]).unwrap()["note"], "", "a value can be empty");
}

#[test]
fn wrong_pairs_are_refused_with_the_reason() {
    for (texts, reason) in [
        (&["db=sqlite"][..], "the form also needs: count"),
        (&["count=3", "colour=red"], "no field \"colour\"; it has: db, count, note, ratio, tests"),
        (&["count=three"], "count: \"three\" is no whole number"),
        (&["count=3", "count=4"], "count is given twice"),
        (&["count"], "write NAME=VALUE"),
    ] {
        let refused = pairs(texts).unwrap_err();
        assert!(refused.contains(reason), "{refused}");
    }
}

#[test]
fn schemas_of_other_shapes_are_read_as_far_as_they_are_known() {
    let schema = json!({ "properties": {
        "level": { "oneOf": [{ "const": 1, "title": "Low" }, { "const": 2, "title": "High" }], "default": 7 },
        "maybe": { "type": ["null", "integer"] },
        "tags": { "type": "array", "items": { "type": "string" } },
    } });
    let form = Form::read(&schema).unwrap();
    assert_eq!(
        form.to_lines(),
        [
            "  level (a number or a name of these, optional)",
            "      1) 1 (Low)",
            "      2) 2 (High)",
            "  maybe (a whole number, optional)",
            "  tags (JSON, optional)"
        ]
    );
    let texts = ["level=high", "maybe=-4", r#"tags=["a"]"#].map(str::to_owned);
    assert_eq!(form.fill_from_pairs(&texts), Ok(json!({ "level": 2, "maybe": -4, "tags": ["a"] })));
    assert_eq!(form.describe_pairs(), "level=VALUE maybe=VALUE tags=VALUE");
    for none in [json!({}), json!({ "properties": {} }), json!({ "properties": 7 }), Value::Null] {
        assert_eq!(Form::read(&none), None, "{none}");
    }
}

#[test]
fn texts_of_the_agent_cannot_move_the_terminal() {
    let schema =
        json!({ "properties": { "a\u{1b}[2Jb": { "title": "c\u{1b}[2Jd", "enum": ["e\u{7}f"] } } });
    let form = Form::read(&schema).unwrap();
    let shown = form.to_lines().concat() + &form.describe_pairs();
    assert!(!shown.contains(|c: char| c.is_control()), "{shown:?}");
}
