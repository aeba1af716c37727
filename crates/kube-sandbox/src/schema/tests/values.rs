//! OpenAPI validation: results and error texts.

use super::*;

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn verdicts_read_as_kubernetes_writes_them() {
    let cases: [(&str, Value, Value, &[&str]); 34] = [
        ("an integer", json!({"type": "integer"}), json!(5), &[]),
        ("a whole float is an integer", json!({"type": "integer"}), json!(5.0), &[]),
        (
            "a fraction is not",
            json!({"type": "integer"}),
            json!(5.5),
            &[
                "spec.a: Invalid value: \"number\": spec.a in body must be of type integer: \"number\"",
                "<nil>: Invalid value: \"\": Checked value must be of type integer (default format) in \
             spec.a",
            ],
        ),
        ("an integer is a number", json!({"type": "number"}), json!(5), &[]),
        (
            "a string is no integer",
            json!({"type": "integer"}),
            json!("5"),
            &[
                "spec.a: Invalid value: \"string\": spec.a in body must be of type integer: \"string\"",
            ],
        ),
        (
            "null is nothing",
            json!({"type": "integer"}),
            Value::Null,
            &["spec.a: Invalid value: \"null\": spec.a in body must be of type integer: \"null\""],
        ),
        ("unless it is allowed", json!({"type": "integer", "nullable": true}), Value::Null, &[]),
        (
            "a format shows in type errors",
            json!({"type": "integer", "format": "int32"}),
            json!({}),
            &["spec.a: Invalid value: \"\": spec.a in body must be of type int32: \"\""],
        ),
        (
            "a number beyond its format",
            json!({"type": "integer", "format": "int32"}),
            json!(1_i64 << 40),
            &[
                "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 \
             in spec.a",
            ],
        ),
        ("int64 has room", json!({"type": "integer", "format": "int64"}), json!(1_i64 << 40), &[]),
        (
            "a minimum",
            json!({"type": "integer", "minimum": 0}),
            json!(-1),
            &["spec.a: Invalid value: -1: spec.a in body should be greater than or equal to 0"],
        ),
        (
            "an exclusive minimum",
            json!({"type": "integer", "minimum": 0, "exclusiveMinimum": true}),
            json!(0),
            &["spec.a: Invalid value: 0: spec.a in body should be greater than 0"],
        ),
        (
            "a maximum",
            json!({"type": "number", "maximum": 0.5}),
            json!(0.75),
            &["spec.a: Invalid value: 0.75: spec.a in body should be less than or equal to 0.5"],
        ),
        (
            "an exclusive maximum",
            json!({"type": "integer", "maximum": 5, "exclusiveMaximum": true}),
            json!(5),
            &["spec.a: Invalid value: 5: spec.a in body should be less than 5"],
        ),
        (
            "a multiple",
            json!({"type": "integer", "multipleOf": 5}),
            json!(7),
            &["spec.a: Invalid value: 7: spec.a in body should be a multiple of 5"],
        ),
        (
            "large floats print as in Go",
            json!({"type": "number", "maximum": 1e6}),
            json!(2e6),
            &["spec.a: Invalid value: 2e+06: spec.a in body should be less than or equal to 1e+06"],
        ),
        (
            "a short text",
            json!({"type": "string", "minLength": 2}),
            json!("é"),
            &["spec.a: Invalid value: \"é\": spec.a in body should be at least 2 chars long"],
        ),
        (
            "a long text is not shown",
            json!({"type": "string", "maxLength": 1}),
            json!("ab"),
            &["spec.a: Too long: may not be more than 1 byte"],
        ),
        (
            "characters count, not bytes",
            json!({"type": "string", "maxLength": 2}),
            json!("éé"),
            &[],
        ),
        (
            "a pattern",
            json!({"type": "string", "pattern": "^a+$"}),
            json!("b"),
            &["spec.a: Invalid value: \"b\": spec.a in body should match '^a+$'"],
        ),
        (
            "a format",
            json!({"type": "string", "format": "date-time"}),
            json!("now"),
            &["spec.a: Invalid value: \"now\": spec.a in body must be of type date-time: \"now\""],
        ),
        (
            "a format on a number",
            json!({"type": "string", "format": "date-time"}),
            json!(1),
            &[
                "spec.a: Invalid value: \"int64\": spec.a in body must be of type date-time: \"int64\"",
            ],
        ),
        ("an unknown format", json!({"type": "string", "format": "colour"}), json!("x"), &[]),
        ("an option", json!({"type": "string", "enum": ["a", "b"]}), json!("b"), &[]),
        (
            "no option",
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("c"),
            &["spec.a: Unsupported value: \"c\": supported values: \"a\", \"b\""],
        ),
        (
            "options of numbers",
            json!({"type": "integer", "enum": [1, 2]}),
            json!(3),
            &["spec.a: Unsupported value: 3: supported values: \"1\", \"2\""],
        ),
        (
            "few items",
            json!({"type": "array", "minItems": 1, "items": {"type": "string"}}),
            json!([]),
            &["spec.a: Invalid value: 0: spec.a in body should have at least 1 items"],
        ),
        (
            "many items",
            json!({"type": "array", "maxItems": 1, "items": {"type": "string"}}),
            json!(["", ""]),
            &["spec.a: Too many: 2: must have at most 1 item"],
        ),
        (
            "a wrong item",
            json!({"type": "array", "items": {"type": "string"}}),
            json!(["", 1]),
            &["spec.a[1]: Invalid value: \"integer\": spec.a[1] in body must be of type string: \
             \"integer\""],
        ),
        (
            "many properties",
            json!({"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}}),
            json!({"a": "", "b": ""}),
            &["spec.a: Too many: 2: must have at most 1 items".trim_end_matches('s')],
        ),
        (
            "few properties",
            json!({"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}}),
            json!({}),
            &["spec.a: Invalid value: 0: spec.a in body should have at least 1 properties"],
        ),
        (
            "a wrong member of a map",
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"x": 1}),
            &["spec.a.x: Invalid value: \"integer\": spec.a.x in body must be of type string: \
             \"integer\""],
        ),
        (
            "a missing field",
            json!({"type": "object", "required": ["b"], "properties": {"b": {"type": "string"}}}),
            json!({}),
            &["spec.a.b: Required value"],
        ),
        (
            "a set with duplicates",
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
            json!(["x", "y", "x", "x"]),
            &["spec.a[2]: Duplicate value: \"x\""],
        ),
    ];
    for (reason, property, value, want) in cases {
        let schema = of_spec(json!({"type": "object", "properties": {"a": property}}));
        assert_eq!(create(&schema, json!({"a": value})), want, "{reason}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn junctors_report_the_branch_that_came_closest() {
    let fields = json!({"a": {"type": "integer"}, "b": {"type": "string"}});
    let branches = json!([{"required": ["a"]}, {"required": ["b"]}]);
    let cases: [(&str, &str, Value, Value, &[&str]); 8] = [
        ("one", "oneOf", branches.clone(), json!({"a": 1}), &[]),
        (
            "none",
            "oneOf",
            branches.clone(),
            json!({}),
            &[
                "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). \
             Found none valid",
                "spec.a: Required value",
            ],
        ),
        (
            "both",
            "oneOf",
            branches.clone(),
            json!({"a": 1, "b": ""}),
            &[
                "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). \
             Found 2 valid alternatives",
            ],
        ),
        ("any", "anyOf", branches.clone(), json!({"a": 1, "b": ""}), &[]),
        (
            "not any",
            "anyOf",
            branches.clone(),
            json!({}),
            &[
                "<nil>: Invalid value: \"\": \"spec\" must validate at least one schema (anyOf)",
                "spec.a: Required value",
            ],
        ),
        (
            "not all",
            "allOf",
            branches.clone(),
            json!({"a": 1}),
            &[
                "spec.b: Required value",
                "<nil>: Invalid value: \"\": \"spec\" must validate all the schemas (allOf)",
            ],
        ),
        (
            "none of all",
            "allOf",
            branches,
            json!({}),
            &[
                "spec.a: Required value",
                "<nil>: Invalid value: \"\": \"spec\" must validate all the schemas (allOf). None \
             validated",
            ],
        ),
        (
            "not",
            "not",
            json!({"required": ["a"]}),
            json!({"a": 1}),
            &["<nil>: Invalid value: \"\": \"spec\" must not validate the schema (not)"],
        ),
    ];
    for (reason, junctor, value, spec, want) in cases {
        let schema = of_spec(json!({"type": "object", "properties": fields, junctor: value}));
        let found = create(&schema, spec);
        assert!(
            want.iter().all(|want| found.iter().any(|error| error == want)),
            "{reason}: {found:#?}"
        );
        assert_eq!(found.is_empty(), want.is_empty(), "{reason}");
    }
}

#[test]
fn items_with_the_same_keys_are_duplicates() {
    let schema = of_spec(json!({"type": "object", "properties": {"ports": {
        "type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {"type": "object", "required": ["port", "protocol"], "properties": {
            "port": {"type": "integer"}, "protocol": {"type": "string"},
            "name": {"type": "string"}}}}}}));
    let port = |port: u16, name: &str| json!({"port": port, "protocol": "TCP", "name": name});
    assert_eq!(create(&schema, json!({"ports": [port(1, "a"), port(2, "a")]})), [""; 0]);
    let twice = json!({"ports": [port(1, "a"), port(1, "b")]});
    assert_eq!(
        create(&schema, twice.clone()),
        ["spec.ports[1]: Duplicate value: {\"port\":1,\"protocol\":\"TCP\"}",]
    );
    assert_eq!(update(&schema, twice.clone(), twice), [""; 0], "it was so before");
}

#[test]
fn embedded_resources_must_be_resources() {
    let schema = of_spec(json!({"type": "object", "properties": {"template": {
        "type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true}}}));
    assert_eq!(
        create(&schema, json!({"template": {"kind": "Pod"}})),
        ["spec.template.apiVersion: Required value: must not be empty",]
    );
}

#[test]
fn what_an_update_leaves_alone_is_forgiven() {
    let schema = of_spec(json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 1},
        "b": {"type": "integer"},
        "list": {"type": "array", "items": {"type": "string", "maxLength": 1}},
        "map": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {
                "k": {"type": "string"}, "v": {"type": "string", "maxLength": 1}}}}}}));
    let too_long = "may not be more than 1 byte";
    let cases = [
        ("unchanged", json!({"a": "xx", "b": 1}), json!({"a": "xx", "b": 2}), None),
        ("changed", json!({"a": "xx"}), json!({"a": "yy"}), Some("spec.a")),
        ("new", json!({}), json!({"a": "xx"}), Some("spec.a")),
        ("a whole list", json!({"list": ["xx"]}), json!({"list": ["xx"], "b": 1}), None),
        (
            "a changed list",
            json!({"list": ["xx"]}),
            json!({"list": ["xx", "y"]}),
            Some("spec.list[0]"),
        ),
        (
            "an item found by its key",
            json!({"map": [{"k": "1", "v": "xx"}]}),
            json!({"map": [{"k": "2"}, {"k": "1", "v": "xx"}]}),
            None,
        ),
        (
            "an item that changed",
            json!({"map": [{"k": "1", "v": "xx"}]}),
            json!({"map": [{"k": "1", "v": "yy"}]}),
            Some("spec.map[0].v"),
        ),
    ];
    let lacks_key = json!({"map": [{"v": "xx"}]});
    let errors = update(&schema, lacks_key.clone(), {
        let mut new = lacks_key;
        new["map"][0]["k"] = "1".into();
        new
    });
    assert_eq!(errors, [format!("spec.map[0].v: Too long: {too_long}")], "no key, no predecessor");
    for (reason, old, new, want) in cases {
        let want: Vec<_> =
            want.map(|at| format!("{at}: Too long: {too_long}")).into_iter().collect();
        assert_eq!(update(&schema, old, new), want, "{reason}");
    }
}

#[test]
fn writing_status_validates_the_status_alone() {
    let schema = compiled(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}},
        "status": {"type": "object", "properties": {"ready": {"type": "integer"}}}}}));
    let new = json!({"spec": {}, "status": {"ready": "x"}});
    assert_eq!(
        texts(&schema.validate_status(&new, None)),
        [
            "status.ready: Invalid value: \"string\": ready in body must be of type integer: \"string\"",
        ]
    );
    assert_eq!(texts(&schema.validate(&new, None)).len(), 2);
}

#[test]
fn nothing_is_forgiven_inside_a_junctor() {
    let schema = of_spec(json!({"type": "object", "properties": {
        "a": {"type": "integer"}, "b": {"type": "integer"}},
        "allOf": [{"properties": {"a": {"minimum": 3}}}]}));
    let errors = update(&schema, json!({"a": 1, "b": 1}), json!({"a": 1, "b": 2}));
    assert_eq!(
        errors,
        [
            "spec.a: Invalid value: 1: spec.a in body should be greater than or equal to 3",
            "<nil>: Invalid value: \"\": \"spec\" must validate all the schemas (allOf). None validated",
        ]
    );
}
