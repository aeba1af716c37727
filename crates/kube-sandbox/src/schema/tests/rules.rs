//! CEL rules: visible values, evaluation, messages.

use super::*;

fn with_rule(mut spec: Value, rule: Value) -> Schema {
    spec["x-kubernetes-validations"] = json!([rule]);
    of_spec(spec)
}

fn fields() -> Value {
    json!({"type": "object", "properties": {
        "min": {"type": "integer"}, "max": {"type": "integer"},
        "ratio": {"type": "number"},
        "name": {"type": "string"},
        "port": {"x-kubernetes-int-or-string": true},
        "at": {"type": "string", "format": "date-time"},
        "every": {"type": "string", "format": "duration"},
        "data": {"type": "string", "format": "byte"},
        "my-field": {"type": "string"}, "namespace": {"type": "string"}, "a__b": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "inner": {"type": "object", "properties": {"flag": {"type": "boolean"}}}}})
}

/// The result of a rule on a spec: `true`, `false`, or the evaluation error.
fn verdict(rule: &str, spec: Value) -> String {
    let schema = with_rule(fields(), json!({"rule": rule, "message": "no"}));
    match create(&schema, spec).as_slice() {
        [] => "true".to_owned(),
        [only] if only == "spec: Invalid value: no" => "false".to_owned(),
        other => other.join("; "),
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn rules_see_typed_values() {
    let spec = json!({"min": 1, "max": 5, "ratio": 1, "name": "Hello World", "port": "80%",
        "at": "2024-01-02T03:04:05Z", "every": "1h30m", "data": "aGk=", "my-field": "d",
        "namespace": "n", "a__b": "u", "tags": ["b", "a", "b"], "numbers": [3, 1, 2],
        "labels": {"app": "web", "a.b/c": "x"}, "inner": {"flag": true}});
    let cases = [
        ("self.min <= self.max", "true"),
        ("self.min > self.max", "false"),
        ("self.ratio == 1.0", "true"),
        ("self.min + 1 == 2 && self.max % 2 == 1 && -self.min == -1", "true"),
        ("type(self.port) == string && self.port.matches('^[0-9]+%$')", "true"),
        ("type(self.port) == int ? self.port > 0 : self.port.endsWith('%')", "true"),
        (
            "self.port < 5",
            "spec: Invalid value: \"object\": 'no such overload': call arguments \
                           did not match a supported operator, function or macro signature for \
                           rule: no",
        ),
        ("self.at < timestamp('2025-01-01T00:00:00Z') && self.at.getFullYear() == 2024", "true"),
        ("self.every == duration('90m') && self.every < duration('2h')", "true"),
        ("self.data == b'hi'", "true"),
        ("self.my__dash__field == 'd' && self.__namespace__ == 'n'", "true"),
        ("self.a__underscores__b == 'u'", "true"),
        ("has(self.name) && !has(self.inner.flag) || self.inner.flag", "true"),
        ("self.labels['app'] == 'web' && 'a.b/c' in self.labels && !('b' in self.labels)", "true"),
        ("self.labels.all(k, k.size() > 2) && self.labels.app == 'web'", "true"),
        ("self.tags.exists(t, t == 'a') && self.tags.exists_one(t, t == 'a')", "true"),
        ("self.tags.filter(t, t == 'b').size() == 2", "true"),
        ("self.numbers.map(n, n * 2) == [6, 2, 4]", "true"),
        ("self.numbers.sum() == 6 && self.numbers.min() == 1 && self.numbers.max() == 3", "true"),
        ("!self.numbers.isSorted() && [1, 2].isSorted() && ['a', 'b'].isSorted()", "true"),
        ("self.tags.indexOf('b') == 0 && self.tags.lastIndexOf('b') == 2", "true"),
        ("self.tags.indexOf('z') == -1 && [].sum() == 0", "true"),
        (
            "self.name.lowerAscii() == 'hello world' && self.name.upperAscii() == 'HELLO WORLD'",
            "true",
        ),
        ("self.name.charAt(1) == 'e' && self.name.indexOf('o') == 4", "true"),
        ("self.name.lastIndexOf('o') == 7 && self.name.substring(0, 5) == 'Hello'", "true"),
        ("self.name.replace('l', 'L') == 'HeLLo WorLd' && '  x '.trim() == 'x'", "true"),
        ("self.name.split(' ') == ['Hello', 'World'] && ['a', 'b'].join('-') == 'a-b'", "true"),
        ("'%s-%d'.format([self.name, self.min]) == 'Hello World-1'", "true"),
        ("'abc 123'.find('[0-9]+') == '123' && 'a1b2'.findAll('[0-9]') == ['1', '2']", "true"),
        ("'a1b2c3'.findAll('[0-9]', 2).size() == 2", "true"),
        ("self.name.contains('lo W') && self.name.startsWith('Hello')", "true"),
        ("self.?name.orValue('x') == 'Hello World' && self.?inner.?flag.hasValue()", "true"),
        ("isURL('https://a.b:80/c?d=e') && !isURL('x y')", "true"),
        ("url('https://a.b:80/c?d=e').getHost() == 'a.b:80'", "true"),
        (
            "url('https://a.b:80/c?d=e').getHostname() == 'a.b' && url('https://a.b:80/').getPort() == '80'",
            "true",
        ),
        ("url('https://a.b/c%20d?d=e&d=f').getQuery()['d'] == ['e', 'f']", "true"),
        ("isIP('10.0.0.1') && !isIP('10.0.0.256') && ip('::1').family() == 6", "true"),
        ("ip.isCanonical('::1') && !ip.isCanonical('0:0:0:0:0:0:0:1')", "true"),
        (
            "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsIP(ip('10.1.2.3'))",
            "true",
        ),
        (
            "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.0.0.1/8').masked() == cidr('10.0.0.0/8')",
            "true",
        ),
        (
            "cidr('10.0.0.0/8').prefixLength() == 8 && string(cidr('10.0.0.0/8').ip()) == '10.0.0.0'",
            "true",
        ),
        (
            "isQuantity('1Gi') && !isQuantity('x') && quantity('1Gi').isGreaterThan(quantity('1G'))",
            "true",
        ),
        ("quantity('1').add(quantity('500m')).compareTo(quantity('1500m')) == 0", "true"),
        ("quantity('2k').asInteger() == 2000 && sign(quantity('1').sub(1)) == 0", "true"),
        (
            "sets.contains([1, 2], [1]) && sets.equivalent([1, 1], [1]) && sets.intersects([1], [1, 2])",
            "true",
        ),
        ("string(self.min) == '1' && int('5') == self.max && double(self.min) == 1.0", "true"),
        ("[1, 2, 3].all(x, x > 0) && size([]) == 0", "true"),
        (
            "self.numbers[5] == 1",
            "spec: Invalid value: \"object\": index out of bounds: 5 evaluating rule: no",
        ),
        (
            "self.max / (self.min - 1) == 1",
            "spec: Invalid value: \"object\": division by zero evaluating rule: no",
        ),
        (
            "self.max * 9223372036854775807 > 0",
            "spec: Invalid value: \"object\": integer overflow evaluating rule: no",
        ),
    ];
    for (rule, want) in cases {
        assert_eq!(verdict(rule, spec.clone()), want, "{rule}");
    }
}

#[test]
fn reading_an_absent_field_is_an_error_and_asking_for_it_is_not() {
    let no_key = "spec: Invalid value: \"object\": no such key: min evaluating rule: no";
    assert_eq!(verdict("self.min > 0", json!({})), no_key);
    assert_eq!(verdict("!has(self.min) || self.min > 0", json!({})), "true");
    assert_eq!(verdict("self.?min.orValue(1) > 0", json!({})), "true");
    assert_eq!(verdict("self.min > 0 || true", json!({})), "true", "CEL's or forgives");
}

#[test]
fn rules_that_do_not_compile_are_refused_with_the_definition() {
    let cases = [
        (
            "self.nope > 1",
            "compilation failed: ERROR: <input>:1:5: undefined field 'nope'\n \
                           | self.nope > 1\n | ....^",
        ),
        ("self.inner.nope", "undefined field 'nope'"),
        ("has(self.nope)", "undefined field 'nope'"),
        ("self.tags.all(t, t.nope)", "type 'string' does not support field selection"),
        ("nope == 1", "undeclared reference to 'nope' (in container '')"),
        ("self.min.nope()", "undeclared reference to 'nope' (in container '')"),
        ("self.min == 'a'", "found no matching overload for '_==_' applied to '(int, string)'"),
        (
            "self.min + 'a' == 'b'",
            "found no matching overload for '_+_' applied to '(int, string)'",
        ),
        ("self.min && true", "expected type 'bool' but found 'int'"),
        ("self.min", "cel expression must evaluate to a bool"),
        (
            "self.min.matches('a')",
            "found no matching overload for 'matches' applied to 'int.(string)'",
        ),
        ("self.name.matches('(')", "ERROR: <input>:1:19: invalid matches argument"),
        ("duration('x') == self.every", "invalid duration argument"),
        (
            "self.every == '1h'",
            "found no matching overload for '_==_' applied to '(duration, string)'",
        ),
        ("self.name == null", "found no matching overload for '_==_' applied to '(string, null)'"),
        ("self.inner.all(k, true)", "cannot be range of a comprehension"),
        ("self.min ==", "compilation failed: ERROR: <input>:1:"),
        ("self.", "compilation failed: ERROR: <input>:1:"),
        ("", "rule is not specified"),
    ];
    for (rule, want) in cases {
        let mut spec = fields();
        spec["x-kubernetes-validations"] = json!([{"rule": "true"}, {"rule": rule}]);
        let root = json!({"type": "object", "properties": {"spec": spec}});
        let errors = texts(&Schema::compile(&root).expect_err(rule));
        let at =
            "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[1].rule";
        assert!(errors.iter().any(|e| e.starts_with(at) && e.contains(want)), "{rule}: {errors:?}");
    }
}

#[test]
fn malformed_rules_are_refused() {
    let cases = [
        (
            json!({"rule": "true", "message": " "}),
            "message: Invalid value: \" \": must be non-empty if specified",
        ),
        (
            json!({"rule": "true", "message": "a\nb"}),
            "message: Invalid value: \"a\\nb\": must not contain line breaks",
        ),
        (
            json!({"rule": "true\n&& true"}),
            "message: Required value: message must be specified if rule contains line breaks",
        ),
        (
            json!({"rule": "true", "reason": "Because"}),
            "reason: Unsupported value: \"Because\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"",
        ),
        (
            json!({"rule": "true", "fieldPath": ".nope"}),
            "fieldPath: Invalid value: \".nope\": must be a valid path",
        ),
        (
            json!({"rule": "true", "fieldPath": "min"}),
            "fieldPath: Invalid value: \"min\": must be a valid path",
        ),
        (
            json!({"rule": "true", "messageExpression": "1"}),
            "messageExpression: Invalid value: {\"Rule\":\"true\",\"Message\":\"\",\"MessageExpression\":\"1\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}: messageExpression must evaluate to a string",
        ),
        (
            json!({"rule": "true", "optionalOldSelf": true}),
            "optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule",
        ),
    ];
    for (rule, want) in cases {
        let mut spec = fields();
        spec["x-kubernetes-validations"] = json!([rule]);
        let root = json!({"type": "object", "properties": {"spec": spec}});
        let errors = texts(&Schema::compile(&root).expect_err(want));
        let want = format!(
            "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].{want}"
        );
        assert_eq!(errors, [want]);
    }
}

#[test]
fn messages_reasons_and_paths_are_the_rules_own() {
    let cases = [
        (json!({"rule": "self.min > 9"}), "spec: Invalid value: failed rule: self.min > 9"),
        (json!({"rule": "self.min > 9", "message": " small "}), "spec: Invalid value: small"),
        (
            json!({"rule": "self.min > 9", "messageExpression": "'min is ' + string(self.min)"}),
            "spec: Invalid value: min is 1",
        ),
        (
            json!({"rule": "self.min > 9", "message": "m", "messageExpression": "self.name"}),
            "spec: Invalid value: m",
        ),
        (
            json!({"rule": "self.min > 9", "message": "m", "reason": "FieldValueForbidden"}),
            "spec: Forbidden: m",
        ),
        (
            json!({"rule": "self.min > 9", "message": "m", "reason": "FieldValueRequired"}),
            "spec: Required value: m",
        ),
        (json!({"rule": "self.min > 9", "reason": "FieldValueDuplicate"}), "spec: Duplicate value"),
        (
            json!({"rule": "self.min > 9", "message": "m", "fieldPath": ".inner.flag"}),
            "spec.inner.flag: Invalid value: m",
        ),
        (
            json!({"rule": "self.min > 9", "message": "m", "fieldPath": ".labels['a b']"}),
            "spec.labels[a b]: Invalid value: m",
        ),
    ];
    for (rule, want) in cases {
        let schema = with_rule(fields(), rule.clone());
        assert_eq!(create(&schema, json!({"min": 1})), [want], "{rule}");
    }
}

#[test]
fn rules_on_scalars_show_the_value_and_rules_in_maps_the_key() {
    let rule = json!([{"rule": "self > 5", "message": "small"}]);
    let scalar = json!({"type": "integer", "x-kubernetes-validations": rule});
    let schema = of_spec(json!({"type": "object", "properties": {
        "a": scalar,
        "list": {"type": "array", "items": scalar},
        "map": {"type": "object", "additionalProperties": scalar}}}));
    let spec = json!({"a": 1, "list": [9, 2], "map": {"x.y": 3}});
    assert_eq!(
        create(&schema, spec),
        [
            "spec.a: Invalid value: 1: small",
            "spec.list[1]: Invalid value: 2: small",
            "spec.map[x.y]: Invalid value: 3: small",
        ]
    );
}

#[test]
fn a_comparison_sees_what_a_schema_preserves_without_describing_it() {
    let frozen = json!({"rule": "self == oldSelf", "message": "frozen"});
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "known": {"type": "integer"},
            "any": {"x-kubernetes-preserve-unknown-fields": true}}});
    let schema = with_rule(open, frozen);
    let old = json!({"known": 1, "any": {"a": [1, {"b": 2}]}, "free": {"c": 3}});
    let with = |path: &str, value: Value| {
        let mut new = old.clone();
        *new.pointer_mut(path).unwrap() = value;
        new
    };
    let mut more = old.clone();
    more["new"] = json!(true);
    let mut less = old.clone();
    less.as_object_mut().unwrap().remove("free");
    let cases = [
        ("nothing changed", old.clone(), true),
        ("a described member", with("/known", json!(2)), false),
        ("a member of any type", with("/any/a/1/b", json!(3)), false),
        ("an undescribed member", with("/free/c", json!(4)), false),
        ("an undescribed member comes", more, false),
        ("an undescribed member goes", less, false),
    ];
    for (reason, new, is_same) in cases {
        let errors = update(&schema, old.clone(), new);
        assert_eq!(errors.is_empty(), is_same, "{reason}: {errors:?}");
    }
}

#[test]
fn transition_rules_need_a_predecessor() {
    let immutable = json!({"rule": "self.name == oldSelf.name", "message": "immutable"});
    let schema = with_rule(fields(), immutable);
    assert_eq!(create(&schema, json!({"name": "a"})), [""; 0]);
    assert_eq!(update(&schema, json!({"name": "a"}), json!({"name": "a", "min": 1})), [""; 0]);
    assert_eq!(
        update(&schema, json!({"name": "a"}), json!({"name": "b"})),
        ["spec: Invalid value: immutable",]
    );

    let rule = json!({"rule": "!oldSelf.hasValue() || oldSelf.value().name == self.name",
        "message": "immutable", "optionalOldSelf": true});
    let schema = with_rule(fields(), rule);
    assert_eq!(create(&schema, json!({"name": "a"})), [""; 0]);
    assert_eq!(
        update(&schema, json!({"name": "a"}), json!({"name": "b"})),
        ["spec: Invalid value: immutable",]
    );
}

#[test]
fn predecessors_are_found_by_key_and_nowhere_else() {
    let item = json!({"type": "object", "required": ["k"],
        "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "shrank"}]});
    let schema = of_spec(json!({"type": "object", "properties": {"list": {"type": "array",
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item}}}));
    let list = |items: &[(&str, i64)]| {
        let items: Vec<_> = items.iter().map(|(k, v)| json!({"k": k, "v": v})).collect();
        json!({"list": items})
    };
    let old = list(&[("a", 5), ("b", 5)]);
    assert_eq!(update(&schema, old.clone(), list(&[("b", 6), ("a", 5), ("c", 1)])), [""; 0]);
    assert_eq!(
        update(&schema, old, list(&[("b", 4), ("a", 5)])),
        ["spec.list[0]: Invalid value: shrank",]
    );

    let mut atomic = json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"list": {"type": "array", "items": item}}}}});
    let errors = texts(&Schema::compile(&atomic).expect_err("items without predecessors"));
    assert!(errors[0].ends_with(
        "oldSelf cannot be used on the uncorrelatable portion of the schema within \
         spec.validation.openAPIV3Schema.properties[spec].properties[list]"
    ));
    atomic["properties"]["spec"]["properties"]["list"]["items"]["x-kubernetes-validations"] =
        json!([]);
    assert!(Schema::compile(&atomic).is_ok());
}

#[test]
fn broken_rules_are_forgiven_where_nothing_changed() {
    let mut spec = fields();
    spec["properties"]["inner"]["x-kubernetes-validations"] =
        json!([{"rule": "self.flag", "message": "off"}]);
    let schema = of_spec(spec);
    let old = json!({"min": 1, "inner": {"flag": false}});
    let elsewhere = json!({"min": 2, "inner": {"flag": false}});
    assert_eq!(update(&schema, old.clone(), elsewhere), [""; 0]);
    assert_eq!(
        update(&schema, json!({"inner": {"flag": true}}), old),
        ["spec.inner: Invalid value: off",]
    );
}

#[test]
fn resources_always_show_their_names() {
    let schema = compiled(&json!({"type": "object",
        "properties": {"spec": {"type": "object"}},
        "x-kubernetes-validations": [
            {"rule": "self.metadata.name == 'web' && self.kind == 'Thing'", "message": "name"}]}));
    assert_eq!(create(&schema, json!({})), [""; 0]);
    let other = json!({"kind": "Thing", "metadata": {"name": "x"}});
    assert_eq!(texts(&schema.validate(&other, None)), ["<nil>: Invalid value: name"]);
}

#[test]
fn rules_wait_until_types_are_right() {
    let schema = with_rule(fields(), json!({"rule": "self.min > 0", "message": "small"}));
    assert_eq!(
        create(&schema, json!({"min": "x"})),
        [
            "spec.min: Invalid value: \"string\": spec.min in body must be of type integer: \"string\"",
            "<nil>: Invalid value: null: some validation rules were not checked because the object was \
         invalid; correct the existing errors to complete validation",
        ]
    );
}

#[test]
fn defaults_obey_rules() {
    let root = json!({"type": "object", "properties": {"a": {"type": "integer", "default": 1,
        "x-kubernetes-validations": [{"rule": "self > 5", "message": "small"}]}}});
    assert_eq!(
        texts(&Schema::compile(&root).expect_err("the default breaks the rule")),
        ["spec.validation.openAPIV3Schema.properties[a].default: Invalid value: 1: small",]
    );
}
