//! Each language's strings, comments and brackets, with a variable inside and outside of them.

use proptest::prelude::*;
use serde_json::json;
use tidegate_api::{canary::analysis::AnalysisMetric, metric_template::MetricProvider};

use super::*;
use crate::{
    metrics::query_language,
    template::{Model, RenderError, render, render_confined, tests::canary},
};

fn metric(variables: &serde_json::Value) -> AnalysisMetric {
    serde_json::from_value(json!({ "name": "errors", "templateVariables": variables })).unwrap()
}

/// The language of a provider, which may have an address behind a blank.
fn language(provider: &str) -> QueryLanguage {
    let (name, address) = provider.split_once(' ').unwrap_or((provider, ""));
    let provider = json!({ "type": name, "address": address });
    query_language(&serde_json::from_value::<MetricProvider>(provider).unwrap())
}

/// The query of a foreign template with a secretRef, filled in as the operator does.
fn confined(
    provider: &str,
    source: &str,
    variables: &serde_json::Value,
) -> Result<String, RenderError> {
    let model = Model::of(&canary(), &metric(variables)).unwrap();
    let name = provider.split(' ').next().unwrap_or_default();
    let refused = |_| RenderError {
        template: String::new(),
        line: None,
        problem: Problem::Failed("foreign".to_owned()),
    };
    let model = model.for_foreign_template(name).map_err(refused)?;
    render_confined("t", source, &model, language(provider))
}

/// Whether `x` may have this value.
fn takes(provider: &str, source: &str, value: &str) -> bool {
    confined(provider, source, &json!({ "x": value })).is_ok()
}

const GOOGLES_PROMETHEUS: &str =
    "stackdriver https://monitoring.googleapis.com/v1/projects/a/location/global/prometheus";

/// A template with `{{ variables.x }}` within a string, and one with it outside.
const SAMPLES: [(&str, &str, &str); 9] = [
    ("prometheus", r#"sum(up{a="X"})"#, "sum(up{a=\"a\"}) > X"),
    (GOOGLES_PROMETHEUS, "sum(up{a=~'X'})", "topk(X, up)"),
    (
        "influxdb",
        r#"from(bucket: "b") |> filter(fn: (r) => r.a == "X")"#,
        r#"from(bucket: "b") |> range(start: X)"#,
    ),
    ("newrelic", "SELECT average(a) FROM b WHERE c = 'X'", "SELECT average(X) FROM b"),
    ("graphite", "target=alias(a.b,'X')&from=-2min", "target=summarize(X,'1min')"),
    ("dynatrace", r#"a:filter(eq("b","X")):avg"#, "builtin:X:avg"),
    ("splunk", "data('a', filter=filter('b', 'X')).publish()", "data(X).publish()"),
    ("cloudwatch", r#"[{"Id": "a", "Label": "X"}]"#, r#"[{"Id": "a", "Period": X}]"#),
    ("stackdriver", "fetch a | filter b == 'X'", "fetch X | filter b == 'c'"),
];
/// Outside of strings only: there are none.
const WITHOUT_STRINGS: [(&str, &str); 4] = [
    ("datadog", "sum:a{b:X}.as_count()"),
    ("datadog", "anomalies(avg:a{*}, 'X', 2)"),
    ("keptn", "analysis/ns/definition/1m/a=X"),
    ("externalmetrics", "ns/metric?labelSelector=a%3DX"),
];

fn source(sample: &str) -> String {
    sample.replace('X', "{{ variables.x }}")
}

#[test]
fn a_string_takes_paths_and_regular_expressions_and_code_takes_names() {
    let values = ["web", "a.b-c_d:8080", "5m", ""];
    let in_strings_only = ["/api/v1/orders", "5..|4..", "(a|b)*", "a b", "a, b) or c{} [1]", "ü"];
    for (provider, within, outside) in SAMPLES {
        for value in values {
            assert!(takes(provider, &source(within), value), "{provider}: {value:?} within");
            assert!(takes(provider, &source(outside), value), "{provider}: {value:?} outside");
        }
        for value in in_strings_only {
            assert!(takes(provider, &source(within), value), "{provider}: {value:?} within");
            assert!(!takes(provider, &source(outside), value), "{provider}: {value:?} outside");
        }
    }
    for (provider, sample) in WITHOUT_STRINGS {
        assert!(values.iter().all(|value| takes(provider, &source(sample), value)), "{provider}");
        for value in in_strings_only {
            assert!(!takes(provider, &source(sample), value), "{provider}: {value:?}");
        }
    }
}

#[test]
fn a_variable_outside_of_strings_is_no_code() {
    let injections = [
        ("prometheus", "sum(up{a=\"b\"}[X])", "1m]) or vector(0) #"),
        ("prometheus", "histogram_quantile(X, a)", "1) or vector(0) #"),
        ("prometheus", "sum(up) > X", "0 or secret"),
        ("prometheus", "up{ X=\"a\"}", "b=~\"\"} or c{d"),
        ("prometheus", "sum(up) # X", "a\nb"),
        (GOOGLES_PROMETHEUS, "sum(up) > X", "1) or vector(0) #"),
        ("influxdb", r#"from(bucket: "a") |> range(start: X)"#, "0) |> drop() //"),
        ("newrelic", "SELECT X FROM a", "count(*) FROM Secret --"),
        ("newrelic", "SELECT average(a) FROM b X", "--"),
        ("newrelic", "SELECT a -X FROM b", "-"),
        ("newrelic", "SELECT a FROM b /* X */", "*/ WHERE c /*"),
        ("graphite", "target=X", "a,secret.*"),
        ("graphite", "target=a.X.b", "{b,c}"),
        ("graphite", "target=a&from=X", "-1d&target=secret"),
        ("dynatrace", "a:filter(X):avg", "true),b:splitBy("),
        ("splunk", "data(X).publish()", "a).publish()#"),
        ("splunk", "data(X).publish()", "*"),
        ("cloudwatch", r#"[{"Id": "a", "Period": X}]"#, "60}, {"),
        ("stackdriver", "fetch X | filter a == 'b'", "a | union"),
        ("stackdriver", "fetch a # X", "|"),
        ("datadog", "sum:a{b:X}", "c} + sum:secret{*"),
        ("datadog", "sum:a{b:X}", "c,d:e"),
        ("keptn", "keptnmetric/ns/X", "../secret"),
        ("externalmetrics", "ns/metric?labelSelector=a%3DX", "b,c!=d"),
    ];
    for (provider, sample, value) in injections {
        assert!(!takes(provider, &source(sample), value), "{provider}: {sample} with {value:?}");
        assert!(takes(provider, &source(sample), "a"), "{provider}: {sample}");
    }
}

#[test]
fn a_string_has_its_own_special_characters() {
    let cases = [
        ("dynatrace", r#"a:filter(eq("b","X"))"#, "c~"),
        ("influxdb", r#"from(bucket: "X")"#, "${secrets}"),
        ("influxdb", r#"from(bucket: "$X")"#, "{secrets}"),
        ("graphite", "target=alias(a,'X')", "b&target=c"),
        ("graphite", "target=alias(a,'X')", "%27"),
        ("cloudwatch", r#"[{"Expression": "m1 / X"}]"#, "SEARCH(a)"),
        ("cloudwatch", r#"[{"expression" : "SELECT AVG(a) FROM b WHERE c = 'X'"}]"#, "d OR e"),
        ("cloudwatch", r#"[{"\u0045xpression": "m1 / X"}]"#, "SEARCH(a)"),
    ];
    for (provider, sample, value) in cases {
        assert!(!takes(provider, &source(sample), value), "{provider}: {sample} with {value:?}");
        assert!(takes(provider, &source(sample), "a"), "{provider}: {sample}");
    }
    let members = r#"[{"Id": "a", "Expression": "m1", "Label": "{{ variables.x }}"}]"#;
    assert!(takes("cloudwatch", members, "a b"), "another member is text");
}

#[test]
fn an_unclear_position_counts_as_outside() {
    let cases = [
        ("prometheus", r#"up{a="X}"#, "not closed"),
        ("prometheus", r#"up{a="b\"X}"#, "the closing quote is escaped"),
        ("prometheus", "up{a=\"\"\"X\"\"\"}", "three quotes"),
        ("prometheus", "up{a=\"b\nX\"}", "a line end in a string"),
        ("prometheus", r#"up{a="b"} # "X""#, "in a comment"),
        (
            "influxdb",
            r#"filter(fn: (r) => r.a =~ /"/ and r.b == X or r.c =~ /"/)"#,
            "a quote in a pattern",
        ),
        ("influxdb", r#"a == 'b"' and "X""#, "a quote that is none"),
        ("newrelic", r"SELECT a FROM b WHERE c = 'd\' AND e = 'X'", "an unknown escape"),
        ("newrelic", "SELECT a FROM b WHERE c = \"'\" AND d = X AND e = \"'\"", "other quotes"),
        ("newrelic", "SELECT a FROM b /* ' */ WHERE c = X /* ' */", "quotes in comments"),
        ("newrelic", "SELECT a FROM b WHERE `c'` = X AND `d'` = 1", "quotes in names"),
        ("graphite", "target=alias(a,%27b'X')", "an encoded quote"),
        ("dynatrace", r#"a:filter(in("b",entitySelector("type(X)")))"#, "a selector in a string"),
        ("splunk", r"data('a\', X, 'b')", "an unknown escape"),
        ("splunk", "data(\"\"\"a \" b\"\"\", X, 'c')", "three quotes"),
        ("stackdriver", "fetch a # don't\n| filter X == 'b'", "a quote in a comment"),
    ];
    for (provider, sample, reason) in cases {
        assert!(!takes(provider, &source(sample), "a b"), "{provider}: {reason}: {sample}");
        assert!(takes(provider, &source(sample), "a"), "{provider}: {reason}: {sample}");
    }
    assert!(!takes("prometheus", &source(r#"up{a="\X"}"#), "n"), "behind a backslash");
}

#[test]
fn functions_and_blocks_of_the_template_count_by_what_they_print() {
    let cases = [
        ("a quoted variable is a string", r#"up{a={{ printf "%q" variables.x }}}"#, true),
        ("as through a pipe", r#"up{a={{ variables.x | printf "%q" }}}"#, true),
        ("quotes of the template's own", r#"up{a={{ "\"" }}{{ variables.x }}{{ "\"" }}}"#, true),
        ("quoted twice", r#"up{a="{{ printf "%q" variables.x }}"}"#, false),
        ("half a quote", r#"up{a={{ printf "\"%s" variables.x }}"}"#, false),
        ("in a branch", r#"up{ {{- if variables.x }}a="{{ variables.x }}"{{ end }}}"#, true),
        ("in a branch, bare", "up > {{ if variables.x }}{{ variables.x }}{{ end }}", false),
        ("by the dot", "up > {{ with variables.x }}{{ . }}{{ end }}", false),
        ("by the dot, quoted", r#"up{a="{{ with variables.x }}{{ . }}{{ end }}"}"#, true),
        ("by a loop", "up > {{ range variables }}{{ . }}{{ end }}", false),
        ("by a name", "{{ $y := variables.x }}up > {{ $y }}", false),
        ("by an index", r#"up > {{ index variables "x" }}"#, false),
        (
            "by a template",
            r#"{{ define "b" }}{{ . }}{{ end }}up > {{ template "b" variables.x }}"#,
            false,
        ),
        ("all of them", "up > {{ variables }}", false),
        ("a choice by a variable", r#"up{a={{ if eq variables.x "a b" }}"c d"{{ end }}}"#, true),
        ("its length", "up > {{ len variables.x }}", true),
    ];
    for (reason, source, want) in cases {
        assert_eq!(takes("prometheus", source, "a b"), want, "{reason}");
    }
}

#[test]
fn a_name_of_a_variable_is_no_way_into_a_string() {
    let source = r#"up{a="{{ range $k, $v := variables }}{{ $k }}{{ end }}"}"#;
    let with = |key: &str| confined("prometheus", source, &json!({ (key): "b" }));
    assert!(with("a b").is_ok());
    let problem = with("a\"} or secret #").unwrap_err().problem;
    assert_eq!(problem, Problem::VariableName);
}

#[test]
fn a_refusal_names_the_line_and_the_character() {
    let error =
        confined("prometheus", "sum(up)\n  > {{ variables.x }}", &json!({ "x": "1) or a" }));
    assert_eq!(
        error.unwrap_err().to_string(),
        "template t does not render: line 2: a variable has ')' outside of a string, where a template of another \
         namespace with a secretRef takes letters, digits and \"_.:-\" only"
    );
}

proptest! {
    /// A value that is taken changes nothing about where strings and comments are: the rest of the query reads as
    /// it does with a plain word.
    #[test]
    fn a_value_that_is_taken_leaves_the_rest_of_the_query_as_it_is(
        sample in prop::sample::select(SAMPLES.iter().flat_map(|it| [(it.0, it.1), (it.0, it.2)]).collect::<Vec<_>>()),
        value in "[-a-z0-9 _.:/#'\"`\\\\~${}()%&;*+\n]{0,12}",
    ) {
        let (provider, sample) = sample;
        let quoted = |value: &str| {
            let query = confined(provider, &source(sample), &json!({ "x": value })).ok()?;
            let model = Model::of(&canary(), &metric(&json!({ "x": value }))).unwrap();
            assert_eq!(query, render("t", &source(sample), &model).unwrap());
            let end = Reader::of(&query, &[], language(provider), State::Code).read().unwrap();
            Some((query.matches(['"', '\'', '`']).count(), end))
        };
        if let Some(found) = quoted(&value) {
            prop_assert_eq!(Some(found), quoted("a"), "{:?}", value);
        }
    }

    /// The same around any text of the template, also one with quotes that are not closed.
    #[test]
    fn a_value_that_is_taken_ends_where_a_plain_word_does(
        provider in prop::sample::select(SAMPLES.map(|it| it.0).to_vec()),
        before in "[-a-z \"'`\\\\#/*~$(:%&\n]{0,8}",
        after in "[-a-z \"'`\\\\#/*~$(:%&\n]{0,8}",
        value in "[-a-z0-9 _.:/#~${}()%&;*+\n]{1,6}",
    ) {
        let source = format!("x{before}{{{{ variables.x }}}}{after}");
        let end = |value: &str| {
            let query = confined(provider, &source, &json!({ "x": value })).ok()?;
            let end = Reader::of(&query, &[], language(provider), State::Code).read().unwrap();
            Some(match end {
                State::Text(open) => ("text", Some(open.quote)),
                State::Escape(open) => ("escape", Some(open.quote)),
                State::Code => ("code", None),
                State::LineComment | State::BlockComment => ("comment", None),
                State::Unclear => ("unclear", None),
            })
        };
        if let (Some(found), Some(plain)) = (end(&value), end("a")) {
            prop_assert_eq!(found, plain, "{:?} with {:?}", source, value);
        }
    }
}
