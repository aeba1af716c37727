use proptest::{prelude::*, test_runner::Config};
use serde_json::json;

use super::*;

fn body() -> Value {
    json!({
        "name": "bryan",
        "male": "yes",
        "age": 45,
        "ratio": 0.5,
        "big": 1e6,
        "none": null,
        "ok": true,
        "rooms": [
            { "name": "a", "players": 3 },
            { "name": "b", "players": 0 },
            { "name": "c", "players": 12 },
        ],
        "a.b": { "c/d": "dotted" },
    })
}

fn read(path: &str) -> Result<String, PathError> {
    JsonPath::parse(path)?.read(&body())
}

#[test]
fn paths_find_what_they_name() {
    let cases = [
        ("{$.age}", "45"),
        ("{.age}", "45"),
        ("$.age", "45"),
        ("age is {.age}!", "age is 45!"),
        ("{.big}", "1000000"),
        ("{.ratio} {.ok} {.none}", "0.5 true null"),
        ("{.rooms[0].name}", "a"),
        ("{.rooms[-1].name}", "c"),
        ("{.rooms[0:2].name}", "a b"),
        ("{.rooms[::2].name}", "a c"),
        ("{.rooms[*].players}", "3 0 12"),
        ("{.rooms[0,2].name}", "a c"),
        ("{..players}", "3 0 12"),
        ("{['name']}", "bryan"),
        ("{['name','male']}", "bryan yes"),
        ("{.a\\.b.c/d}", "dotted"),
        ("{.rooms[?(@.players > 2)].name}", "a c"),
        ("{.rooms[?(@.name == 'b')].players}", "0"),
        ("{.rooms[?(@.name)].name}", "a b c"),
        ("{.rooms[?(@.age)].name}", ""),
        ("{.rooms[1]}", r#"{"name":"b","players":0}"#),
        ("{range .rooms[*]}{.name}={.players};{end}", "a=3;b=0;c=12;"),
        ("{range .rooms[*]}{.name}{'\\n'}{end}done", "a\nb\nc\ndone"),
        ("{range .rooms[0:1]}{.name} of {$.name}{end}", "a of bryan"),
        ("{range .rooms[0:2]}{range $.rooms[1:]}{.name}{end};{end}", "bc;bc;"),
    ];
    for (path, want) in cases {
        assert_eq!(read(path).as_deref(), Ok(want), "{path}");
    }
}

#[test]
fn a_missing_value_is_an_error() {
    assert_eq!(read("{.nothing}"), Err(PathError::NotFound("nothing".to_owned())));
    assert_eq!(read("{.age.more}"), Err(PathError::NotFound("more".to_owned())));
    assert_eq!(read("{.rooms[9]}"), Err(PathError::OutOfBounds(9)));
    assert_eq!(read("{.rooms[?(@.name > 3)]}"), Err(PathError::Incomparable));
}

#[test]
fn a_malformed_path_is_refused_with_its_place() {
    for path in [
        "{.a",
        "{.a[}",
        "{.a[0}",
        "{range .rooms[*]}{.name}",
        "{range .rooms[*]}{range .a[*]}{.name}{end}",
        "{range .rooms[*]}{.name}{'{end}'}",
        "{.a}{end}",
        "{.a[?(.b)]}",
        "{.a[x]}",
        "{'open}",
        "{.a[0:2:0]}",
        "{.a..}x{",
        "{a b}",
    ] {
        let error = JsonPath::parse(path);
        assert!(matches!(error, Err(PathError::Malformed { .. })), "{path}: {error:?}");
    }
    let long = format!("{{.{}}}", "a".repeat(PATH_BYTES_MAX));
    assert!(JsonPath::parse(&long).is_err());
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn no_text_breaks_the_reader(text in "[{}\\[\\]().@$*?:,'a-c0-9 rangeend=<\\\\-]{0,40}") {
        if let Ok(path) = JsonPath::parse(&text) {
            let _ = path.read(&body());
        }
    }
}
