//! Tests of the view of one value.

use super::*;

fn json(text: &str) -> Json<'_> {
    Json::parse(text.as_bytes()).unwrap()
}

fn twice(name: &str) -> ReadError {
    ReadError::Twice(name.to_owned())
}

#[test]
fn legal_json_parses_with_any_numbers_escapes_and_depth() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_objects = format!("{}1{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
    for text in
        ["1e400", "-0", "1E+2", "123456789012345678901234567890", r#""\ud83d""#, r#"{"\ud83d":1}"#]
    {
        assert_eq!(json(text).raw(), text);
    }
    assert_eq!(json(&deep).items().count(), 1);
    assert_eq!(json(&deep_objects).members().count(), 1);
    assert_eq!(json(" \n{ } ").raw(), "{ }");
}

#[test]
fn other_text_is_refused() {
    for text in
        ["", "{", "[1,]", "{\"a\" 1}", "1 2", "01", "nul", "\"\\x\"", "\u{feff}{}", "\"\n\""]
    {
        assert!(matches!(Json::parse(text.as_bytes()), Err(ReadError::NotJson(_))), "{text:?}");
    }
    assert_eq!(Json::parse(b"\"\xff\""), Err(ReadError::NotUtf8));
}

#[test]
fn members_are_found_by_what_their_key_says() {
    let object = json(r#"{ "a" : [ 1 , {"x":"}"} ] ,"\u0062":"\ud83d", "c":null , "d\"]":{} }"#);
    assert_eq!(object.member("a").unwrap().unwrap().raw(), r#"[ 1 , {"x":"}"} ]"#);
    assert_eq!(object.member("b").unwrap().unwrap().text().unwrap(), "\u{fffd}");
    assert_eq!(object.member("d\"]").unwrap().unwrap().raw(), "{}");
    assert_eq!(object.member("e"), Ok(None));
    let items: Vec<&str> = object.member("a").unwrap().unwrap().items().map(Json::raw).collect();
    assert_eq!(items, ["1", r#"{"x":"}"}"#]);
    let keys: Vec<_> = object.members().map(|(key, _)| key.into_owned()).collect();
    assert_eq!(keys, ["a", "b", "c", "d\"]"]);
}

#[test]
fn a_null_member_is_absent() {
    assert_eq!(json(r#"{"a":null}"#).member("a"), Ok(None));
    assert_eq!(json(r#"{"a":null}"#).at(&["a", "b"]), Ok(None));
}

#[test]
fn a_member_that_stands_twice_is_an_error_only_if_it_is_asked_for() {
    let object = json(r#"{"a":1,"b":{"c":1,"\u0063":2},"a":null}"#);
    assert_eq!(object.member("a"), Err(twice("a")));
    assert_eq!(object.at(&["b", "c"]), Err(twice("c")));
    assert_eq!(object.member("b").unwrap().unwrap().raw(), r#"{"c":1,"\u0063":2}"#);
}

#[test]
fn a_path_ends_where_a_member_is_absent_and_fails_where_there_is_no_object() {
    let value = json(r#"{"params":{"_meta":{"wharf":{"queue":"clear"}},"n":1}}"#);
    let path = ["params", "_meta", "wharf", "queue"];
    assert_eq!(value.text_at(&path).unwrap().unwrap(), "clear");
    assert_eq!(value.at(&["params", "other", "wharf"]), Ok(None));
    let wrong = ReadError::WrongKind { name: "n".to_owned(), expected: "an object" };
    assert_eq!(value.at(&["params", "n", "wharf"]), Err(wrong));
    assert_eq!(value.seek(&["params", "n", "wharf"]), Ok(None));
    let wrong = ReadError::WrongKind { name: "n".to_owned(), expected: "a string" };
    assert_eq!(value.text_at(&["params", "n"]), Err(wrong));
    assert_eq!(value.bool_at(&path).unwrap_err().to_string(), "`queue` is not true or false");
}

#[test]
fn ids_are_the_same_in_every_spelling() {
    for text in ["7", "7.0", "70e-1", "\"7\"", "\"\\u0037\""] {
        assert_eq!(json(text).id_number(), Some(7), "{text}");
    }
    for text in ["7.5", "-7", "null", "true", "[7]", "\"seven\"", "\"\"", "1e400"] {
        assert_eq!(json(text).id_number(), None, "{text}");
    }
}

#[test]
fn numbers_are_read_on_demand() {
    assert_eq!(json("1e400").float(), None);
    assert_eq!(json("-2.5e1").float(), Some(-25.0));
    assert_eq!(json("1E+2").integer(), Some(100));
    assert_eq!(json("\"1\"").integer(), None);
    assert_eq!(json("true").bool(), Some(true));
    assert_eq!(json("0").bool(), None);
}

#[test]
fn words_may_be_texts_or_numbers() {
    for (text, word) in [
        ("\"a\"", "a"),
        ("7", "7"),
        ("7.0", "7"),
        ("70e-1", "7"),
        ("7.50", "7.50"),
        ("1e400", "1e400"),
    ] {
        assert_eq!(json(text).text_or_number().as_deref(), Some(word), "{text}");
    }
    for text in ["null", "true", "[1]", "{}"] {
        assert_eq!(json(text).text_or_number(), None, "{text}");
    }
}

#[test]
fn a_part_knows_where_it_stands() {
    let frame = br#" {"a": [1, "x"]}"#;
    let list = Json::parse(frame).unwrap().member("a").unwrap().unwrap();
    let span = list.span_in(frame).unwrap();
    assert_eq!(&frame[span], b"[1, \"x\"]");
    assert_eq!(list.span_in(b"elsewhere"), None);
}

#[test]
fn first_members_are_found_without_a_walk_to_the_end() {
    let json =
        Json::checked_before(r#" {"a":{"x":"}","\u0062":{"c":[1,2]},"b":3},"n":null,"s":"t"} "#);
    assert_eq!(json.first_at(&["a", "b", "c"]).map(Json::raw), Some("[1,2]"));
    assert_eq!(json.first_at(&["s"]).map(Json::raw), Some(r#""t""#));
    assert_eq!(json.first_at(&[]).map(Json::raw), Some(json.raw()));
    for path in [&["n"][..], &["s", "b"], &["missing"], &["a", "missing", "c"]] {
        assert_eq!(json.first_at(path).map(Json::raw), None, "{path:?}");
    }
    // Text that is no JSON gives nonsense, but ends.
    for text in ["", "{", "{{", r#"{"a"#, r#"{"a":"#, r#"{"a":{"#, "[]", "é"] {
        let _ = Json::checked_before(text).first_at(&["a", "b"]);
    }
}

#[test]
fn several_members_are_found_in_one_walk() {
    let json = Json::parse(br#"{"b":1,"a":null,"c":{"b":2},"d":"x"}"#).unwrap();
    let found = json.several_members(["a", "b", "d", "e"]).unwrap();
    assert_eq!(found.map(|value| value.map(Json::raw)), [None, Some("1"), Some(r#""x""#), None]);
    let twice = Json::parse(br#"{"a":1,"b":2,"\u0061":3}"#).unwrap();
    assert!(
        matches!(twice.several_members(["b", "a"]), Err(ReadError::Twice(name)) if name == "a")
    );
    assert!(matches!(
        Json::parse(b"[]").unwrap().several_members(["a"]),
        Err(ReadError::WrongKind { .. })
    ));
}
