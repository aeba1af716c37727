//! Renderings of templates, and errors that stop them.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::json;
use tidegate_api::canary::{Canary, analysis::AnalysisMetric};

use super::*;

pub(super) fn canary() -> Canary {
    serde_json::from_value(json!({
        "metadata": { "name": "podinfo", "namespace": "test" },
        "spec": {
            "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "api" },
            "service": { "port": 80, "name": "apex" },
            "ingressRef": { "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "door" },
            "analysis": { "interval": "1m", "threshold": 5, "stepWeight": 10 },
        },
    }))
    .unwrap()
}

fn metric() -> AnalysisMetric {
    serde_json::from_value(json!({
        "name": "errors",
        "interval": "2m",
        "templateVariables": { "cluster": "dev", "with-dash": "x", "regex": "5..|\\d+" },
    }))
    .unwrap()
}

fn rendered(source: &str) -> Result<String, Problem> {
    let model = Model::of(&canary(), &metric()).unwrap();
    render("errors.test", source, &model).map_err(|error| error.problem)
}

#[test]
fn a_template_is_filled_in() {
    let cases = [
        ("plain text stays", "vector(1)", "vector(1)"),
        ("within a query", r#"x{a="{{ namespace }}_{{ target }}"}"#, r#"x{a="test_api"}"#),
        ("names", "{{ name }}/{{ namespace }}/{{ target }}/{{ service }}", "podinfo/test/api/apex"),
        ("references, or else the target", "{{ ingress }} {{ route }}", "door api"),
        ("the interval", "rate(x[{{ interval }}])", "rate(x[2m])"),
        ("a variable", "{{ variables.cluster }}", "dev"),
        ("a variable by index", r#"{{ index variables "with-dash" }}"#, "x"),
        ("a missing one by index is empty", r#"a{{ index variables "no" }}b"#, "ab"),
        ("no escaping", "{{ variables.regex }}", "5..|\\d+"),
        ("no primary function", "{{ target }}-primary", "api-primary"),
        ("blanks are trimmed where asked", "a {{- name -}} b", "apodinfob"),
        ("a comment", "a{{/* not this */}}b", "ab"),
        ("a condition", r#"{{ if eq variables.cluster "dev" }}d{{ else }}p{{ end }}"#, "d"),
        ("with", "{{ with variables.cluster }}{{ . }}!{{ end }}", "dev!"),
        (
            "a variable of its own",
            r#"{{ $q := printf "%s_%s" name target }}{{ $q }}"#,
            "podinfo_api",
        ),
        ("a pipeline", r#"{{ target | printf "%q" }}"#, "\"api\""),
        ("a format through a pipe", r#"{{ "5" | printf }}"#, "5"),
        ("a loop", "{{ range $k, $v := variables }}{{ $k }},{{ end }}", "cluster,regex,with-dash,"),
        (
            "out of a loop",
            "{{ range 5 }}{{ if eq . 3 }}{{ break }}{{ end }}{{ . }}{{ end }}",
            "012",
        ),
        (
            "past a turn",
            "{{ range 3 }}{{ if eq . 1 }}{{ continue }}{{ end }}{{ . }}{{ end }}",
            "02",
        ),
        ("nothing to loop over", "{{ range 0 }}{{ else }}none{{ end }}", "none"),
        ("comparisons", "{{ if and (lt 1 2) (le 2 2) (gt 3 2) (ge 3 3) (ne 1 2) }}y{{ end }}", "y"),
        ("for pages and scripts", r#"{{ html "<a>" }}{{ js "'" }}"#, r"&lt;a&gt;\'"),
        ("lines", "{{ println name }}x", "podinfo\nx"),
        ("a definition", r#"{{ define "a" }}<{{ . }}>{{ end }}{{ template "a" target }}"#, "<api>"),
        ("one without an argument", r#"{{ define "a" }}a{{ end }}{{ template "a" }}"#, "a"),
        ("a block", r#"{{ block "b" name }}[{{ . }}]{{ end }}"#, "[podinfo]"),
        ("logic", r#"{{ if and (not false) (or "" "x") }}y{{ end }}"#, "y"),
        ("for URLs", r#"{{ urlquery "a b&c" }}"#, "a+b%26c"),
        ("length and slice", "{{ len name }}{{ slice name 0 3 }}", "7pod"),
    ];
    for (reason, source, want) in cases {
        assert_eq!(rendered(source).as_deref(), Ok(want), "{reason}");
    }
}

#[test]
fn a_template_that_cannot_be_filled_in_is_an_error() {
    let missing = |name: &str| Problem::Missing(name.to_owned());
    let cases = [
        ("a variable that is not there", "{{ variables.nope }}", missing("nope")),
        ("dot has no fields", "{{ .name }}", missing("name")),
        ("not even in a condition", "{{ if .name }}x{{ end }}", missing("name")),
        (
            "nor in a definition",
            r#"{{ define "a" }}{{ .x }}{{ end }}{{ template "a" }}"#,
            missing("x"),
        ),
        ("nothing", "", Problem::Blank),
        ("blanks", " \n{{ if false }}x{{ end }}\t", Problem::Blank),
    ];
    for (reason, source, want) in cases {
        assert_eq!(rendered(source), Err(want), "{reason}");
    }
}

#[test]
fn a_metric_without_variables_has_none() {
    let metric = AnalysisMetric { name: "errors".into(), ..AnalysisMetric::default() };
    let model = Model::of(&canary(), &metric).unwrap();
    let error = render("errors.test", "{{ variables.cluster }}", &model).unwrap_err();
    assert_eq!(error.problem, Problem::Missing("cluster".into()));
    let empty = render("errors.test", r#"a{{ index variables "cluster" }}b"#, &model);
    assert_eq!(empty.as_deref(), Ok("ab"));
}

#[test]
fn an_error_names_the_template_and_the_line_and_is_short() {
    let model = Model::of(&canary(), &metric()).unwrap();
    let error = |source: &str| render("errors.test", source, &model).unwrap_err().to_string();
    let lines = [
        ("a\n\n{{ nope }}", "template errors.test does not render: line 3: there is no function"),
        ("{{ nope.x }}", "template errors.test does not render: line 1: there is no function"),
        ("a\n{{ if }}", "template errors.test does not render: line 2: "),
        ("{{ name", "template errors.test does not render: line 1: "),
        ("up {{ end }} > 1", "template errors.test does not render: line 1: "),
        (
            r#"{{ template "nope" }}"#,
            "template errors.test does not render: line 1: undefined template",
        ),
        ("{{ name 1 }}", "template errors.test does not render: line 1: wrong number of arguments"),
        (
            "up{\n  a=\"{{ name }}\",\n  b=\"{{ variables.nope }}\"}\n{{ target }}",
            "template errors.test does not render: line 3: there is no \"nope\"",
        ),
        (
            "{{ if true }}\n{{ range 2 }}\n{{ .x }}{{ end }}{{ end }}",
            "template errors.test does not render: line 3: ",
        ),
        (
            "{{ define \"a\" }}\n{{ .x }}{{ end }}\n\n{{ template \"a\" }}",
            "template errors.test does not render: line 2: there is no \"x\"",
        ),
        (
            "\n{{ if false }}a\n{{ else if variables.nope }}b{{ end }}",
            "template errors.test does not render: line 3: there is no \"nope\"",
        ),
        (
            "{{ name }}\n{{ range 9000 }}0123456789{{ end }}",
            "template errors.test does not render: line 2: it renders to more than 64 KiB",
        ),
        ("{{ if false }}x{{ end }}", "template errors.test does not render: it renders to nothing"),
    ];
    for (source, want) in lines {
        let error = error(source);
        assert!(error.starts_with(want), "{source:?}: {error}");
    }
    let long = format!("{{{{ len {} }}}}", "9".repeat(3000));
    assert!(error(&long).len() < 400, "{}", error(&long));
}

/// Templates that call each other twice each, `levels` deep.
fn laughs(levels: usize) -> String {
    let mut source = String::new();
    for level in 0..levels {
        let next = level + 1;
        write!(source, r#"{{{{define "t{level}"}}}}{{{{template "t{next}"}}}}{{{{template "t{next}"}}}}{{{{end}}}}"#)
            .unwrap();
    }
    write!(source, r#"{{{{define "t{levels}"}}}}{{{{end}}}}{{{{template "t0"}}}}x"#).unwrap();
    source
}

#[test]
fn no_template_runs_away() {
    let doubled = format!(r#"{{{{ $x := "aaaaaaaa" }}}}{}x"#, "{{ $x = print $x $x }}".repeat(60));
    let spread = format!("{{{{ $x := print {} }}}}x", "name ".repeat(2000));
    let cases = [
        ("a long text", "a".repeat(SOURCE_MAX + 1), Problem::TooLong),
        ("a long output", "{{ range 9000 }}0123456789{{ end }}".to_owned(), Problem::TooMuch),
        ("a long loop", "{{ range 1000000000000 }}{{ end }}x".to_owned(), Problem::TooBusy),
        ("loops in loops", "{{range 1000}}{{range 1000}}{{end}}{{end}}x".to_owned(), Problem::TooBusy),
        ("busy loops", "{{range 9000}}{{$a := 1}}{{$a = 2}}{{$a = 3}}{{end}}x".to_owned(), Problem::TooBusy),
        ("a text doubled sixty times", doubled, Problem::TooBusy),
        ("doubled within one pipeline", format!(r#"{{{{ "aaaaaaaa" {} }}}}"#, "| printf \"%[1]s%[1]s\"".repeat(40)), Problem::TooBusy),
        ("very many arguments", spread, Problem::TooBusy),
        ("a wide field", r#"{{ printf "%60000d" 1 }}"#.to_owned(), Problem::TooBusy),
        ("a wide field in disguise", r#"{{ printf "%*d" 60000 1 }}"#.to_owned(), Problem::TooBusy),
        ("a wide field through a pipe", r#"{{ "%60000d" | printf }}"#.to_owned(), Problem::TooBusy),
        ("a long precision", r#"{{ printf "%.60000f" 1.5 }}"#.to_owned(), Problem::TooBusy),
        ("templates that call each other", laughs(60), Problem::TooBusy),
        ("a template that calls itself", r#"{{define "a"}}{{template "a"}}{{end}}{{template "a"}}"#.to_owned(), Problem::TooBusy),
        (
            "twice, with an end",
            r#"{{define "a"}}{{if lt (len .) 40}}{{template "a" (print . "x")}}{{template "a" (print . "x")}}{{end}}{{end}}{{template "a" ""}}x"#.to_owned(),
            Problem::TooBusy,
        ),
    ];
    for (reason, source, want) in cases {
        assert_eq!(rendered(&source), Err(want), "{reason}");
    }
}

#[test]
fn deep_nesting_is_an_error_and_no_overflow() {
    let nested = [
        format!("{}{}", "{{if true}}".repeat(5000), "{{end}}".repeat(5000)),
        format!("{{{{ {}1{} }}}}", "(".repeat(20_000), ")".repeat(20_000)),
        format!("{{{{if false}}}}{}{{{{end}}}}", "{{else if false}}".repeat(3000)),
    ];
    for source in nested {
        assert!(rendered(&source).is_err());
    }
}

#[test]
fn many_plain_actions_are_no_runaway() {
    let source = r#"{{ name }}{{ if eq target "api" }}.{{ end }}"#.repeat(1000);
    assert_eq!(rendered(&source), Ok("podinfo.".repeat(1000)));
}

#[test]
fn a_hostile_spec_does_not_get_into_a_query() {
    let cases = [
        ("a target", "/spec/targetRef/name", "api\"} or vector(100) #", ModelError::Name("target")),
        ("a service", "/spec/service/name", "a|b", ModelError::Name("service")),
        ("an ingress", "/spec/ingressRef/name", "a\\", ModelError::Name("ingress")),
    ];
    for (reason, pointer, text, want) in cases {
        let mut object = serde_json::to_value(canary()).unwrap();
        *object.pointer_mut(pointer).unwrap() = json!(text);
        let canary: Canary = serde_json::from_value(object).unwrap();
        assert_eq!(Model::of(&canary, &metric()), Err(want), "{reason}");
    }
    let interval = AnalysisMetric { interval: Some("1m]) or vector(100".into()), ..metric() };
    assert_eq!(Model::of(&canary(), &interval), Err(ModelError::Interval));
    let none = AnalysisMetric { interval: None, ..metric() };
    assert_eq!(Model::of(&canary(), &none).unwrap().interval(), "1m", "a default everywhere");
    let large = [("a".to_owned(), "x".repeat(100_000))].into();
    let large = AnalysisMetric { template_variables: large, ..metric() };
    assert_eq!(Model::of(&canary(), &large), Err(ModelError::Variables));
}

#[test]
fn the_route_of_knative_is_a_revision() {
    let model = Model::of(&canary(), &metric()).unwrap().with_route("podinfo-00001").unwrap();
    assert_eq!(model.route(), "podinfo-00001");
    assert_eq!(model.with_route("a\""), Err(ModelError::Name("route")));
}

proptest! {
    #[test]
    fn rendering_never_panics(source in "(\\{\\{|\\}\\}|[a-z(). |$:=\"%0-9]|print |range |if |end|index |variables|name | \n){0,60}") {
        let _ = rendered(&source);
    }

    #[test]
    fn any_text_is_rendered_or_refused(source in "\\PC{0,200}") {
        if let Ok(text) = rendered(&source) {
            prop_assert!(text.len() <= OUTPUT_MAX);
        }
    }
}
