//! Compiling, pruning, defaulting, and the view for server-side apply.

use super::*;

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn schemas_that_are_not_structural_are_refused_with_their_place() {
    let cases = [
        (
            "a field without a type",
            json!({"type": "object", "properties": {"spec": {}}}),
            "properties[spec].type: Required value: must not be empty for specified object fields",
        ),
        ("a root without a type", json!({}), "type: Required value: must not be empty at the root"),
        (
            "a root that is no object",
            json!({"type": "string"}),
            "type: Invalid value: \"string\": must be object at the root",
        ),
        (
            "an array of nothing",
            json!({"type": "object", "properties": {"a": {"type": "array"}}}),
            "properties[a].items: Required value: must be specified",
        ),
        (
            "a type under a junctor",
            json!({"type": "object", "properties": {"a": {
                "type": "object", "oneOf": [{"type": "object"}]}}}),
            "properties[a].oneOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            "a description under a junctor",
            json!({"type": "object", "properties": {"a": {
                "type": "object", "not": {"description": "x"}}}}),
            "properties[a].not.description: Forbidden: must be empty to be structural",
        ),
        (
            "a field known to a junctor only",
            json!({"type": "object", "anyOf": [{"properties": {"b": {"minimum": 1}}}]}),
            "properties[b]: Required value: because it is defined in \
             spec.validation.openAPIV3Schema.anyOf[0].properties[b]",
        ),
        (
            "a root of any fields",
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            "additionalProperties: Forbidden: must not be used at the root",
        ),
        (
            "a restriction of metadata",
            json!({"type": "object", "properties": {"metadata": {
                "type": "object", "properties": {"labels": {"type": "object"}}}}}),
            "properties[metadata]: Forbidden: must not specify anything other than name and \
             generateName, but metadata is implicitly specified",
        ),
        (
            "a pattern that does not parse",
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
            "properties[a].pattern: Invalid value: \"(\": must be a valid regular expression, but \
             isn't:",
        ),
        (
            "both kinds of fields",
            json!({"type": "object", "properties": {"a": {"type": "object",
                "properties": {"b": {"type": "string"}},
                "additionalProperties": {"type": "string"}}}}),
            "properties[a].additionalProperties: Forbidden: additionalProperties and properties \
             are mutual exclusive",
        ),
        (
            "quadratic checks",
            json!({"type": "object", "properties": {"a": {
                "type": "array", "uniqueItems": true, "items": {"type": "string"}}}}),
            "properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the \
             runtime complexity becomes quadratic",
        ),
        (
            "a list of type map without keys",
            json!({"type": "object", "properties": {"a": {"type": "array",
                "x-kubernetes-list-type": "map", "items": {"type": "object"}}}}),
            "properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if \
             x-kubernetes-list-type is map",
        ),
        (
            "keys that may be absent",
            json!({"type": "object", "properties": {"a": {"type": "array",
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}}}}}}),
            "properties[a].items.properties[name].default: Required value: this property is in \
             x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ),
        (
            "a set of granular objects",
            json!({"type": "object", "properties": {"a": {"type": "array",
                "x-kubernetes-list-type": "set", "items": {"type": "object"}}}}),
            "properties[a].items.x-kubernetes-map-type: Invalid value: null: must be atomic as \
             item of a list with x-kubernetes-list-type=set",
        ),
        (
            "an unknown type",
            json!({"type": "object", "properties": {"a": {"type": "float"}}}),
            "properties[a].type: Unsupported value: \"float\": supported values: \"array\", \
             \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
        ),
        (
            "a reference",
            json!({"type": "object", "properties": {"a": {"type": "object", "$ref": "#/x"}}}),
            "properties[a].$ref: Forbidden: $ref is not supported",
        ),
        (
            "a default that is not valid",
            json!({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}),
            "properties[a].default: Invalid value: \"string\":  in body must be of type integer: \
             \"string\"",
        ),
        (
            "a default with unknown fields",
            json!({"type": "object", "properties": {"a": {"type": "object", "default": {"b": 1}}}}),
            "properties[a].default: Invalid value: {\"b\":1}: must not have unknown fields",
        ),
        (
            "a limit that is no number",
            json!({"type": "object", "properties": {"a": {"type": "string", "maxLength": "5"}}}),
            "properties[a].maxLength: Invalid value: \"5\": must be an integer",
        ),
    ];
    for (reason, schema, want) in cases {
        let errors = texts(&Schema::compile(&schema).expect_err(reason));
        let want = format!("spec.validation.openAPIV3Schema.{want}");
        assert!(errors.iter().any(|error| error.starts_with(&want)), "{reason}: {errors:#?}");
    }
}

#[test]
fn integers_or_strings_may_have_their_types_under_a_junctor() {
    let union = json!([{"type": "integer"}, {"type": "string"}]);
    for extra in [
        json!({"anyOf": union}),
        json!({"allOf": [{"anyOf": union}, {"pattern": "^[0-9]+%?$"}]}),
        json!({}),
    ] {
        let mut port = extra;
        port["x-kubernetes-int-or-string"] = true.into();
        let schema = of_spec(json!({"type": "object", "properties": {"port": port}}));
        assert_eq!(create(&schema, json!({"port": 80})), [""; 0]);
        assert_eq!(create(&schema, json!({"port": "80"})), [""; 0]);
        assert!(!create(&schema, json!({"port": true})).is_empty());
    }
}

#[test]
fn unknown_fields_are_removed_and_named() {
    let spec = json!({"type": "object", "properties": {
        "replicas": {"type": "integer"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "anything": {"type": "object", "additionalProperties": true},
        "list": {"type": "array", "items": {
            "type": "object", "properties": {"a": {"type": "string"}}}},
        "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "typed": {"type": "object", "properties": {"a": {"type": "string"}}}}},
        "free": {"x-kubernetes-preserve-unknown-fields": true},
        "template": {"type": "object", "x-kubernetes-embedded-resource": true,
            "properties": {"spec": {"type": "object"}}}}});
    let schema = of_spec(spec);
    let cases: [(&str, Value, Value, &[&str]); 9] = [
        ("known", json!({"replicas": 1}), json!({"replicas": 1}), &[]),
        ("unknown", json!({"x": 1, "replicas": 1}), json!({"replicas": 1}), &["spec.x"]),
        (
            "in a list",
            json!({"list": [{"a": "", "b": 1}]}),
            json!({"list": [{"a": ""}]}),
            &["spec.list[0].b"],
        ),
        (
            "a map keeps all keys",
            json!({"labels": {"a.b/c": "x"}}),
            json!({"labels": {
            "a.b/c": "x"}}),
            &[],
        ),
        (
            "additionalProperties: true keeps keys only",
            json!({"anything": {"a": {"b": 1}}}),
            json!({"anything": {"a": {}}}),
            &["spec.anything.a.b"],
        ),
        (
            "preserved but for what is typed",
            json!({"raw": {"x": {"y": 1}, "typed": {"a": "", "z": 1}}}),
            json!({"raw": {"x": {"y": 1}, "typed": {"a": ""}}}),
            &["spec.raw.typed.z"],
        ),
        ("free form", json!({"free": [{"a": [1]}]}), json!({"free": [{"a": [1]}]}), &[]),
        (
            "an embedded resource keeps what makes it one",
            json!({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"x": 1}, "y": 1}}),
            json!({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"x": 1}}}),
            &["spec.template.y"],
        ),
        (
            "a scalar where an object belongs is left to validation",
            json!({"list": "x"}),
            json!({"list": "x"}),
            &[],
        ),
    ];
    for (reason, spec, want, unknown) in cases {
        let mut value = object(spec);
        assert_eq!(schema.prune(&mut value), unknown, "{reason}");
        assert_eq!(value["spec"], want, "{reason}");
    }
    let mut value = json!({"kind": "Thing", "metadata": {"labels": {}}, "status": {}, "a": 1});
    assert_eq!(schema.prune(&mut value), ["a", "status"]);
    assert_eq!(value, json!({"kind": "Thing", "metadata": {"labels": {}}}));
}

#[test]
fn defaults_fill_what_is_absent_and_nothing_else() {
    let schema = of_spec(json!({"type": "object", "properties": {
        "replicas": {"type": "integer", "default": 1},
        "strategy": {"type": "object", "default": {}, "properties": {
            "type": {"type": "string", "default": "Rolling"}}},
        "optional": {"type": "object", "properties": {
            "inner": {"type": "string", "default": "x"}}},
        "maybe": {"type": "string", "nullable": true, "default": "y"},
        "plain": {"type": "string"},
        "nullable": {"type": "string", "nullable": true},
        "ports": {"type": "array", "items": {"type": "object", "properties": {
            "protocol": {"type": "string", "default": "TCP"}}}},
        "names": {"type": "array", "items": {"type": "string", "default": "n"}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {
            "on": {"type": "boolean", "default": true}}}}}}));
    let base = json!({"replicas": 1, "strategy": {"type": "Rolling"}, "maybe": "y"});
    let cases = [
        ("absent", json!({}), json!({})),
        ("zero is not absent", json!({"replicas": 0}), json!({"replicas": 0})),
        ("null where null is not allowed", json!({"replicas": null}), json!({"replicas": 1})),
        ("null where it is", json!({"maybe": null}), json!({"maybe": null})),
        ("null without default goes", json!({"plain": null}), json!({})),
        ("nullable null stays", json!({"nullable": null}), json!({"nullable": null})),
        (
            "a present parent is filled",
            json!({"optional": {}}),
            json!({"optional": {
            "inner": "x"}}),
        ),
        (
            "items are filled",
            json!({"ports": [{}, {"protocol": "UDP"}]}),
            json!({"ports": [{"protocol": "TCP"}, {"protocol": "UDP"}]}),
        ),
        ("null items", json!({"names": [null, "a"]}), json!({"names": ["n", "a"]})),
        (
            "values of maps",
            json!({"map": {"a": {}, "b": null}}),
            json!({"map": {
            "a": {"on": true}}}),
        ),
    ];
    for (reason, spec, want) in cases {
        let mut value = object(spec);
        schema.default(&mut value);
        let mut wanted = base.clone();
        for (name, value) in want.as_object().expect("an object") {
            wanted[name] = value.clone();
        }
        assert_eq!(value["spec"], wanted, "{reason}");
    }
}

#[test]
fn admitting_prunes_defaults_and_validates() {
    let schema = of_spec(json!({"type": "object", "required": ["a"], "properties": {
        "a": {"type": "integer", "default": 1}}}));
    let mut value = object(json!({"b": 1}));
    assert_eq!(admit(&schema, &mut value, None), Ok(vec!["spec.b".to_owned()]));
    assert_eq!(value["spec"], json!({"a": 1}));
    let refused = admit(&schema, &mut object(json!({"a": "x"})), None).expect_err("not an integer");
    assert_eq!(
        texts(&refused),
        ["spec.a: Invalid value: \"string\": spec.a in body must be of type integer: \"string\"",]
    );
}

#[test]
fn server_side_apply_sees_lists_maps_and_metadata() {
    let schema = of_spec(json!({"type": "object", "properties": {
        "ports": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {"type": "object", "required": ["port"], "properties": {
                "port": {"type": "integer"},
                "protocol": {"type": "string", "default": "TCP"}}}},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "args": {"type": "array", "items": {"type": "string"}},
        "selector": {"type": "object", "x-kubernetes-map-type": "atomic",
            "additionalProperties": {"type": "string"}}}}));
    let root = SchemaShape::new(&schema);
    let spec = root.field("spec");
    let keys = vec!["port".to_owned(), "protocol".to_owned()];
    assert_eq!(spec.field("ports").list(), ListKind::Map(keys));
    assert_eq!(spec.field("ports").key_default("protocol"), Some(json!("TCP")));
    assert_eq!(spec.field("ports").key_default("port"), None);
    assert_eq!(spec.field("tags").list(), ListKind::Set);
    assert_eq!(spec.field("args").list(), ListKind::Atomic);
    assert!(spec.field("selector").is_atomic_object());
    assert!(!spec.is_atomic_object());
    assert_eq!(spec.field("nowhere").items().field("x").list(), ListKind::Atomic);
    let metadata = root.field("metadata");
    assert_eq!(metadata.field("finalizers").list(), ListKind::Set);
    assert_eq!(metadata.field("ownerReferences").list(), ListKind::Map(vec!["uid".to_owned()]));
    assert!(!metadata.field("labels").is_atomic_object());
}
