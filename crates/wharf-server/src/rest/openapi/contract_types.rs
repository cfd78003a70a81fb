//! The file `page_tests/contract.d.ts`: the contract as types of TypeScript, with which the page's
//! modules are checked. It is made from the document, in a test, which compares it with the file.

use serde_json::Value;

const INTRODUCTION: &str = "\
/**
 * The host's contract: the types of its JSON, and what each call sends and answers with. Made from
 * the OpenAPI document; after a change of the contract, write it anew:
 * WHARF_BLESS=1 cargo nextest run -p wharf-server contract_types
 */
";

/// The words before the types of calls. A call is a method and a path as the page writes it:
/// `GET sessions/ab12/rows`.
const CALLS: &str = "
/** Ends the path of a call. */
export type Query = \"\" | `?${string}`;
";

/// Returns the whole file.
fn write_types(document: &Value) -> String {
    let mut text = INTRODUCTION.to_owned();
    for (name, schema) in members(&document["components"]["schemas"]) {
        text.push_str(&format!("\nexport type {name} = {};\n", write_type(schema, 0)));
    }
    let routes = list_routes(document);
    text.push_str(CALLS);
    text.push_str(&write_calls("The JSON that a call answers with.", "Answer", &routes, |route| {
        route.answer.clone()
    }));
    text.push_str(&write_calls("The JSON that a call sends.", "Body", &routes, |route| {
        route.body.clone()
    }));
    text
}

/// A method of a path.
struct Route {
    /// The method, and the path without its leading slash.
    call: String,
    /// The types of what comes back and of what is sent, where these are JSON with a schema.
    answer: Option<String>,
    body: Option<String>,
}

/// Returns the routes in an order in which the first that matches a call is the one it means: the
/// longer path first, and a word before a parameter.
fn list_routes(document: &Value) -> Vec<Route> {
    let mut routes = Vec::new();
    for (path, item) in members(&document["paths"]) {
        for (method, operation) in members(item).filter(|(_, operation)| operation.is_object()) {
            let call = format!("{} {}", method.to_uppercase(), path.trim_start_matches('/'));
            let answer = members(&operation["responses"])
                .filter(|(status, _)| status.starts_with('2'))
                .find_map(|(_, response)| json_type(response));
            let body = json_type(&operation["requestBody"]);
            routes.push(Route { call, answer, body });
        }
    }
    // A parameter begins with a brace, which sorts behind letters.
    routes.sort_by(|a, b| {
        let count = |route: &Route| route.call.matches('/').count();
        count(b).cmp(&count(a)).then_with(|| a.call.cmp(&b.call))
    });
    routes
}

/// Returns the type of the JSON that a response or a request has; `None` for a text or bytes.
fn json_type(response_or_request: &Value) -> Option<String> {
    let schema = &response_or_request["content"]["application/json"]["schema"];
    schema.is_object().then(|| write_type(schema, 0))
}

/// Returns a type that takes a call and gives what `pick` says of its route.
fn write_calls(
    about: &str,
    name: &str,
    routes: &[Route],
    pick: impl Fn(&Route) -> Option<String>,
) -> String {
    let mut text = format!("\n/** {about} */\nexport type {name}<Call extends string> =\n");
    for route in routes {
        let Some(picked) = pick(route) else { continue };
        let pattern = write_pattern(&route.call);
        // Without this line the parameter would match the rest of a longer path too.
        if pattern.ends_with("${string}") {
            text.push_str(&format!("  Call extends `{pattern}/${{string}}` ? unknown :\n"));
        }
        text.push_str(&format!("  Call extends `{pattern}${{Query}}` ? {picked} :\n"));
    }
    text + "  unknown;\n"
}

/// Returns the call with `${string}` for each parameter.
fn write_pattern(call: &str) -> String {
    let words = call
        .split('/')
        .map(|word| if word.starts_with('{') { "${string}" } else { word });
    words.collect::<Vec<_>>().join("/")
}

/// Returns a type; lines after the first are indented.
fn write_type(schema: &Value, indent: usize) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return name.to_owned();
    }
    if schema["enum"].is_array() {
        return join_types(items(&schema["enum"]).map(Value::to_string), " | ");
    }
    for (word, sign) in [("oneOf", " | "), ("anyOf", " | "), ("allOf", " & ")] {
        if schema[word].is_array() {
            return join_types(items(&schema[word]).map(|part| write_type(part, indent)), sign);
        }
    }
    match &schema["type"] {
        Value::Null => "unknown".to_owned(),
        Value::String(word) => write_plain(word, schema, indent),
        Value::Array(words) => {
            let words = words.iter().filter_map(Value::as_str);
            join_types(words.map(|word| write_plain(word, schema, indent)), " | ")
        }
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            panic!("a schema has the type {}", schema["type"])
        }
    }
}

fn write_plain(word: &str, schema: &Value, indent: usize) -> String {
    match word {
        "string" | "boolean" | "null" => word.to_owned(),
        "integer" | "number" => "number".to_owned(),
        "array" => format!("Array<{}>", write_type(&schema["items"], indent)),
        "object" => write_object(schema, indent),
        other => panic!("a schema has the type {other:?}"),
    }
}

fn write_object(schema: &Value, indent: usize) -> String {
    if !schema["properties"].is_object() {
        return format!(
            "{{ [name: string]: {} }}",
            write_type(&schema["additionalProperties"], indent)
        );
    }
    let required: Vec<&str> = items(&schema["required"]).filter_map(Value::as_str).collect();
    let margin = "  ".repeat(indent);
    let mut text = "{\n".to_owned();
    for (name, member) in members(&schema["properties"]) {
        let mark = if required.contains(&name.as_str()) { "" } else { "?" };
        let member = write_type(member, indent + 1);
        text.push_str(&format!("{margin}  {name}{mark}: {member};\n"));
    }
    text + &margin + "}"
}

fn join_types(types: impl Iterator<Item = String>, sign: &str) -> String {
    types.collect::<Vec<_>>().join(sign)
}

fn members(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[test]
fn contract_types_of_the_page_match_the_document() {
    let document = super::build_document(super::super::describe_routes().api);
    let document: Value = wharf_json::read_own(&document.0).unwrap();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("page_tests/contract.d.ts");
    let made = write_types(&document);
    if std::env::var_os("WHARF_BLESS").is_some() {
        std::fs::write(&path, made).unwrap();
        return;
    }
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    let differing = file.lines().zip(made.lines()).position(|(old, new)| old != new);
    let at = differing.unwrap_or_else(|| file.lines().count().min(made.lines().count()));
    let line = |text: &str| text.lines().nth(at).unwrap_or("(the end)").to_owned();
    assert!(
        file == made,
        "page_tests/contract.d.ts differs from the contract at line {}:\n  file: {}\n  contract: {}\n\
         write it anew with: WHARF_BLESS=1 cargo nextest run -p wharf-server contract_types",
        at + 1,
        line(&file),
        line(&made),
    );
}
