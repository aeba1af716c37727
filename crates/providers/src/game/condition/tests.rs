use proptest::{prelude::*, test_runner::Config};

use super::*;

/// Knows one pattern, which is enough to see that it is used.
struct Plain;

impl Matcher for Plain {
    fn is_match(&self, pattern: &str, text: &str) -> std::result::Result<bool, String> {
        match pattern {
            "(" => Err("unclosed group".to_owned()),
            "^o" => Ok(text.starts_with('o')),
            _ => Ok(text.contains(pattern)),
        }
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn numbers(numbers: &[f64]) -> Value {
    Value::List(numbers.iter().copied().map(Value::Float).collect())
}

fn kind(value: &Value) -> Kind {
    match value {
        Value::Text(_) => Kind::Text,
        Value::Float(_) => Kind::Float,
        Value::List(_) => Kind::List(Kind::Float.into()),
        _ => Kind::Any,
    }
}

fn ask(condition: &str, result: &Value) -> Result<bool> {
    Condition::compile(condition, &kind(result))?.is_met(result, &Plain)
}

#[test]
fn the_documented_conditions_mean_what_they_say() {
    let cases = [
        ("asInt(result) < 30", text("45"), false),
        ("asInt(result) > 30", text("45"), true),
        ("asFloat(result) >= 0.95 && asFloat(result) <= 1", text("0.97"), true),
        ("result == \"ok\"", text("ok"), true),
        ("result == 'ok'", text("no"), false),
        ("len(result) > 0 && all(result, {# < 0.05})", numbers(&[0.01, 0.04]), true),
        ("len(result) > 0 && all(result, {# < 0.05})", numbers(&[]), false),
        ("result[0] <= 0.1", numbers(&[0.1]), true),
        ("result > 0.5", Value::Float(0.6), true),
    ];
    for (condition, result, want) in cases {
        assert_eq!(ask(condition, &result), Ok(want), "{condition}");
    }
}

#[test]
fn operators_bind_as_documented() {
    let cases = [
        ("1 + 2 * 3 == 7", true),
        ("(1 + 2) * 3 == 9", true),
        ("2 ** 3 ** 2 == 512.0", true),
        ("-2 ** 2 == 4.0", true),
        ("7 / 2 == 3 and 7 % 2 == 1", true),
        ("7.0 / 2 == 3.5", true),
        ("10 - 3 - 2 == 5", true),
        ("true or false and false", true),
        ("not true == false", true),
        ("!(1 == 2)", true),
        ("1 in [1, 2] && 3 not in [1, 2]", true),
        ("2 in 1..3", true),
        ("'abc' contains 'b' and 'abc' startsWith 'a' and 'abc' endsWith 'c'", true),
        ("'ok' matches '^o'", true),
        ("'a' < 'b'", true),
        ("'a' + 'b' == 'ab'", true),
        ("true ? 1 == 1 : false", true),
        ("(nil ?: 3) == 3", true),
        ("0x1f == 31 && 1_000 == 1000 && .5 == 0.5 && 1e3 == 1000", true),
        ("{a: 1, 'b': 2}.b == 2", true),
        ("{a: 1}['a'] == 1", true),
        ("[1, 2, 3][1:] == [2, 3] && 'abc'[:2] == 'ab' && [1, 2][-1] == 2", true),
        ("count([1, 2, 3], {# > 1}) == 2", true),
        ("any([1, 2], # > 1) and none([1], # > 1) and one([1, 2], # > 1)", true),
        ("len(filter([1, 2, 3], {# > 1})) == 2 && map([1], {# + 1}) == [2]", true),
        ("all([{v: 1}], {.v == 1 and #.v < 2})", true),
        ("isNaN(asFloat('NaN')) and isInf(asFloat('inf'))", true),
        ("isNil(nil) and default(nil, 4) == 4 and default(3, 4) == 3", true),
        ("asInt(2.9) == 2 and asInt(7) == 7 and asFloat(7) == 7", true),
        ("asFloat('NaN') < 1 or asFloat('NaN') > 1 or asFloat('NaN') == 1", false),
        ("'\\u0041\\n' == \"A\\n\"", true),
        ("all([[1], [2, 3]], {any(#, {# > 0})})", true),
    ];
    for (condition, want) in cases {
        assert_eq!(ask(condition, &Value::Nil), Ok(want), "{condition}");
    }
}

#[test]
fn a_mistake_is_found_before_anything_is_measured_and_says_where() {
    let cases = [
        ("result < 30", "a string and an integer do not go together", 7),
        ("asInt(result) == 'a'", "an integer and a string do not go together", 14),
        ("asInt(result)", "a condition must be true or false, this is an integer", 0),
        ("asInt(result) <", "the condition ends too early", 15),
        ("asint(result) < 3", "`asint` is not a function", 0),
        ("value < 3", "`value` is not known", 0),
        ("asInt(result, 1) < 3", "`asInt` takes 1 arguments", 0),
        ("asInt(result) = 3", "`=` is not an operator", 14),
        ("(1 == 1", "`)` is missing", 7),
        ("1 == 1 2", "this was not expected", 7),
        ("true and 1", "a boolean is needed, not an integer", 5),
        ("not 1", "a boolean is needed, not an integer", 0),
        ("# == 1", "`#` has a meaning only in a predicate", 0),
        ("'open == 1", "a quote is not closed", 0),
        ("1.5 % 2 == 1", "an integer is needed, not a number", 4),
        ("result[0] == 'a'", "a string has no elements", 6),
        ("12abc == 1", "this is no number", 0),
        ("1 == 1 ~", "this character has no meaning", 7),
        ("true or ('a' == 1)", "a string and an integer do not go together", 13),
        ("9223372036854775808 == 1", "this is no number", 0),
        ("len(3) == 1", "this function does not take an integer", 0),
    ];
    for (condition, what, at) in cases {
        let error = Condition::compile(condition, &Kind::Text).unwrap_err();
        assert_eq!(error, ConditionError { what: what.to_owned(), at }, "{condition}");
    }
}

#[test]
fn an_evaluation_that_fails_is_an_error_and_never_a_pass() {
    let cases = [
        ("asInt(result) < 30", text("")),
        ("asInt(result) < 30", text("4.5")),
        ("asInt(result) < 30", text("1e+06")),
        ("asFloat(result) < 30", text("many")),
        ("result[0] <= 0.1", numbers(&[])),
        ("1 / (len(result) - 2) == 1", text("ab")),
        ("9223372036854775807 + len(result) > 0", text("a")),
        ("result matches '('", text("a")),
        ("len(0..asInt(result)) > 0", text("999999999")),
    ];
    for (condition, result) in cases {
        assert!(ask(condition, &result).is_err(), "{condition}");
    }
}

#[test]
fn a_measured_value_is_not_repeated_in_an_error() {
    let error = ask("asInt(result) < 3", &text("hunter2")).unwrap_err();
    assert_eq!(error.to_string(), "this string is no integer at character 0");
}

#[test]
fn everything_has_a_bound() {
    let cases = [
        format!("{}1{}", "(".repeat(500), ")".repeat(500)),
        format!("{}true", "!".repeat(500)),
        format!("{}1 == 1", "-".repeat(500)),
        format!("1{} == 1", " + 1".repeat(600)),
        format!("{}1 == 1", "2 ** ".repeat(500)),
        format!("{}true", "true ? true : ".repeat(200)),
        format!("result{} == 1", "[0]".repeat(500)),
        format!("{}1{} == 1", "[".repeat(500), "]".repeat(500)),
        "x".repeat(5_000),
    ];
    for condition in cases {
        assert!(Condition::compile(&condition, &Kind::Any).is_err(), "{condition:.40}");
    }
    let slow = "all(0..9000, {all(0..9000, {# >= 0})})";
    let error = ask(slow, &Value::Nil).unwrap_err();
    assert_eq!(error.what, "this takes too many steps");
}

/// Counts how often a pattern is tried.
struct Counting(std::cell::Cell<usize>);

impl Matcher for Counting {
    fn is_match(&self, _: &str, _: &str) -> std::result::Result<bool, String> {
        self.0.set(self.0.get() + 1);
        Ok(true)
    }
}

#[test]
fn a_long_text_is_not_looked_through_again_and_again() {
    let megabyte = text(&"x".repeat(1024 * 1024));
    let tried = |condition: &str| {
        let matcher = Counting(std::cell::Cell::new(0));
        let outcome = Condition::compile(condition, &Kind::Text).unwrap();
        let outcome = outcome.is_met(&megabyte, &matcher);
        (outcome.map_err(|error| error.what), matcher.0.get())
    };
    let (outcome, times) = tried("all(0..9998, {result matches 'x'})");
    assert_eq!(outcome, Err("this takes too many steps".to_owned()));
    assert!(times < 20, "{times} times");
    let (outcome, _) = tried("all(0..9998, {result contains 'y' or true})");
    assert_eq!(outcome, Err("this takes too many steps".to_owned()));
    let (outcome, _) = tried("len(filter(map(0..9998, {result}), {true})) > 0");
    assert_eq!(outcome, Err("this takes too many steps".to_owned()));
    let (outcome, times) =
        tried("result matches 'a' and result matches 'b' and len(result) > 9 and result != ''");
    assert_eq!((outcome, times), (Ok(true), 2), "but a few times it may be");
    let lists = "all(0..9998, {len(0..9998) > 0})";
    let outcome = Condition::compile(lists, &Kind::Text).unwrap().is_met(&text(""), &Plain);
    assert_eq!(
        outcome.unwrap_err().what,
        "this takes too many steps",
        "lists are made of something"
    );
}

#[test]
fn nan_and_infinity_never_let_anything_pass() {
    let rows = [
        (text("NaN"), None, Some("asFloat(result) > 5"), HookPhase::Inconclusive),
        (text("inf"), None, Some("asFloat(result) < 5"), HookPhase::Inconclusive),
        (text("-inf"), Some("asFloat(result) < 30"), None, HookPhase::Inconclusive),
        (text("NaN"), Some("asFloat(result) < 30"), None, HookPhase::Failed),
        (text("inf"), None, Some("asFloat(result) > 5"), HookPhase::Failed),
        (text("NaN"), None, Some("isNaN(asFloat(result))"), HookPhase::Failed),
        (text("NaN"), Some("true or asFloat(result) > 5"), None, HookPhase::Successful),
        (text("7"), None, Some("asFloat(result) > 9"), HookPhase::Successful),
        (numbers(&[f64::INFINITY]), Some("result[0] > 5"), None, HookPhase::Inconclusive),
        (numbers(&[f64::NAN]), None, None, HookPhase::Inconclusive),
    ];
    for (result, success, failure, want) in rows {
        let compile = |text: &str| Condition::compile(text, &kind(&result)).unwrap();
        let (success, failure) = (success.map(compile), failure.map(compile));
        let (phase, message) = judge(success.as_ref(), failure.as_ref(), &result, &Plain);
        assert_eq!(phase, want, "{result:?} {success:?} {failure:?}");
        assert_eq!(message.is_some(), want == HookPhase::Inconclusive);
    }
}

#[test]
fn the_verdict_follows_both_conditions() {
    let is_met = |met: bool| {
        let text = if met { "true" } else { "false" };
        Condition::compile(text, &Kind::Any).unwrap()
    };
    let (yes, no) = (is_met(true), is_met(false));
    let broken = Condition::compile("result[3] == 1", &Kind::Any).unwrap();
    let cases = [
        (None, None, HookPhase::Successful),
        (Some(&yes), None, HookPhase::Successful),
        (Some(&no), None, HookPhase::Failed),
        (None, Some(&yes), HookPhase::Failed),
        (None, Some(&no), HookPhase::Successful),
        (Some(&yes), Some(&yes), HookPhase::Failed),
        (Some(&no), Some(&yes), HookPhase::Failed),
        (Some(&yes), Some(&no), HookPhase::Successful),
        (Some(&no), Some(&no), HookPhase::Inconclusive),
        (Some(&broken), None, HookPhase::Error),
        (Some(&broken), Some(&no), HookPhase::Error),
    ];
    for (success, failure, want) in cases {
        let (phase, message) = judge(success, failure, &Value::Nil, &Plain);
        assert_eq!(phase, want, "{success:?} {failure:?}");
        assert_eq!(message.is_some(), want == HookPhase::Error);
    }
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn no_text_breaks_the_reader(condition in "[a-c0-9 .()\\[\\]{}<>=!&|+*/%?:#,'\"resultasInt-]{0,60}") {
        if let Ok(condition) = Condition::compile(&condition, &Kind::Any) {
            let _ = condition.is_met(&text("1"), &Plain);
        }
    }
}
