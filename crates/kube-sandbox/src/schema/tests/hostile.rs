//! Malicious input: it must cause an error, not end the process.

use std::time::{Duration, Instant};

use super::*;

/// Runs with the stack of a runtime worker, which is smaller than a test's may be.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(work);
    thread.expect("a thread starts").join().expect("the work does not panic");
}

fn nested(levels: usize, leaf: Value, wrap: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(leaf, |inner, _| wrap(inner))
}

#[test]
fn deeply_nested_schemas_are_refused() {
    on_a_small_stack(|| {
        let deep = nested(
            1000,
            json!({"type": "string"}),
            |inner| json!({"type": "object", "properties": {"a": inner}}),
        );
        let errors = texts(&Schema::compile(&deep).expect_err("too deep"));
        assert_eq!(errors.len(), 1);
        let fine = nested(
            90,
            json!({"type": "string"}),
            |inner| json!({"type": "object", "properties": {"a": inner}}),
        );
        let schema = compiled(&fine);
        let mut value = nested(90, json!("x"), |inner| json!({"a": inner}));
        assert_eq!(admit(&schema, &mut value, None), Ok(vec![]));
    });
}

#[test]
fn deeply_nested_values_do_no_harm() {
    on_a_small_stack(|| {
        let schema =
            of_spec(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"a": {"type": "object"}},
            "x-kubernetes-validations": [{"rule": "!has(self.a) || true"}]}));
        let deep = nested(1000, json!(1), |inner| json!({"x": inner}));
        let lists = nested(1000, json!(1), |inner| json!([inner]));
        let mut value = object(json!({"free": deep, "a": {"x": deep}, "lists": lists}));
        let old = value.clone();
        let unknown = admit(&schema, &mut value, Some(&old)).expect("valid");
        assert_eq!(unknown, ["spec.a.x"]);
    });
}

#[test]
fn hostile_rules_are_refused_or_fail() {
    on_a_small_stack(|| {
        let parentheses = format!("{}true{}", "(".repeat(4000), ")".repeat(4000));
        let sum = format!("1{} > 0", "+1".repeat(7000));
        let ands = format!("true{}", " && true".repeat(1500));
        let selects = format!("self{}", ".a".repeat(5000));
        let nots = format!("{}true", "!".repeat(8000));
        let calls = format!("{}self{}", "size(".repeat(2000), ")".repeat(2000));
        let lists = format!("size({}{}) > 0", "[".repeat(3000), "]".repeat(3000));
        let ternaries = format!("{}true", "true ? true : ".repeat(1000));
        let garbage = "\u{0}\u{fffd}'\"`\\".repeat(100);
        let long = format!("self.a == '{}'", "x".repeat(20_000));
        let rules = [parentheses, sum, ands, selects, nots, calls, lists, ternaries, garbage, long];
        for rule in rules {
            let root = json!({"type": "object", "properties": {"a": {"type": "string"}},
                "x-kubernetes-validations": [{"rule": rule, "message": "m"}]});
            if let Ok(schema) = Schema::compile(&root) {
                schema.validate(&json!({"a": "x"}), None);
            }
        }
    });
}

#[test]
fn moderately_deep_rules_run_on_a_small_stack() {
    on_a_small_stack(|| {
        let mut most = 0;
        for levels in [1, 5, 10, 20, 30, 40] {
            let rule = format!("{}self.a == 'x'{}", "(true && ".repeat(levels), ")".repeat(levels));
            let root = json!({"type": "object", "properties": {"a": {"type": "string"}},
                "x-kubernetes-validations": [{"rule": rule}]});
            let Ok(schema) = Schema::compile(&root) else { break };
            assert_eq!(texts(&schema.validate(&json!({"a": "x"}), None)), [""; 0]);
            most = levels;
        }
        assert!(most >= 10, "ordinary rules compile, but {most} levels were the most");
    });
}

#[test]
fn rules_that_would_run_for_hours_are_not_run() {
    let list = json!({"type": "array", "items": {"type": "integer"}});
    let rule = "self.l.all(a, self.l.all(b, self.l.all(c, self.l.all(d, a + b + c + d >= 0))))";
    let schema = of_spec(json!({"type": "object", "properties": {"l": list},
        "x-kubernetes-validations": [{"rule": rule, "message": "m"}]}));
    let start = Instant::now();
    let errors = create(&schema, json!({"l": vec![1; 1000]}));
    assert_eq!(
        errors,
        ["spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no \
         further validation rules will be run due to call cost exceeds limit for rule: m",]
    );
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(create(&schema, json!({"l": [1, 2, 3]})), [""; 0], "small ones are");
}

#[test]
fn odd_numbers_and_texts_are_judged() {
    let schema = of_spec(json!({"type": "object", "properties": {
        "i": {"type": "integer", "minimum": -1, "maximum": 1},
        "n": {"type": "number", "multipleOf": 0.1},
        "s": {"type": "string", "format": "date-time", "pattern": "^.{0,10}$"}}}));
    for value in [
        json!({"i": u64::MAX}),
        json!({"i": i64::MIN}),
        json!({"i": 1e300}),
        json!({"n": 1e300}),
        json!({"s": "\u{0}\u{10ffff}t"}),
        json!({"s": "2024-01-02T03:04:05.é"}),
    ] {
        assert!(!create(&schema, value.clone()).is_empty() || value["n"].is_number(), "{value}");
    }
}

/// Generous, for a shared machine and a debug build: a release build takes a tenth.
#[test]
fn a_small_object_is_validated_in_microseconds() {
    let schema = of_spec(json!({"type": "object", "required": ["replicas"], "properties": {
        "replicas": {"type": "integer", "minimum": 0},
        "name": {"type": "string", "pattern": "^[a-z]+$"},
        "ports": {"type": "array", "items": {"type": "object", "properties": {
            "port": {"type": "integer"}, "name": {"type": "string"}}}}}}));
    let value = object(json!({"replicas": 3, "name": "web",
        "ports": [{"port": 80, "name": "http"}, {"port": 443, "name": "https"}]}));
    let start = Instant::now();
    for _ in 0..1000 {
        assert!(schema.validate(&value, None).is_empty());
    }
    assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
}
