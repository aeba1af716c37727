//! Label and field selectors: matches and error texts, compared with Kubernetes.

use serde_json::json;

use super::LabelSelector;
use crate::failure::Failure;

#[test]
fn label_selectors_select_what_kubernetes_selects() {
    let web = json!({"app": "web", "tier": "front", "n": "7"});
    let cases = [
        ("nothing asked selects all", "", true),
        ("equality", "app=web", true),
        ("double equality is equality", "app==web", true),
        ("another value", "app=api", false),
        ("inequality holds for another value", "app!=api", true),
        ("inequality holds for an absent label", "zone!=a", true),
        ("membership", "tier in (back, front)", true),
        ("exclusion", "tier notin (back,front)", false),
        ("exclusion holds for an absent label", "zone notin (a)", true),
        ("presence", "app", true),
        ("absence", "!app", false),
        ("absence of an absent label", "!zone,app", true),
        ("all requirements count", "app=web,tier=back", false),
        ("an empty value is a value", "app=", false),
        ("an empty place in a set is the empty value", "app in (web,)", true),
        ("keywords may be values", "app notin (in,notin)", true),
        ("numbers compare", "n>6,n<8", true),
        ("words do not compare", "app>6", false),
        ("blanks do not matter", "  app = web , tier ", true),
    ];
    for (reason, text, want) in cases {
        let selector = LabelSelector::parse(text).expect(reason);
        assert_eq!(selector.matches_json(Some(&web)), want, "{reason}");
    }
}

#[test]
fn label_selectors_are_refused_in_the_words_of_the_api_server() {
    let cases = [
        ("a lone operator", "=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a trailing comma", "a=b,", "found '', expected: identifier after ','"),
        ("two values", "a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a negated equality", "!a=b", "found '=', expected: ',' or 'end of string'"),
        ("no parenthesis", "a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("an open set", "a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        (
            "an operator that is none",
            "a b",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
        ),
        (
            "a value that is none",
            "a=-",
            "unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid label must \
             be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
             '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
        (
            "a key that is none",
            "a/b/c=d",
            "unable to parse requirement: <nil>: Invalid value: \"a/b/c\": a valid label key must \
             consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
             validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS \
             subdomain prefix and '/' (e.g. 'example.com/MyName')",
        ),
    ];
    for (reason, text, want) in cases {
        assert_eq!(LabelSelector::parse(text), Err(Failure::bad_request(want)), "{reason}");
    }
}

#[test]
fn selector_objects_select_and_print() {
    let web = json!({"app": "web", "tier": "front"});
    let cases = [
        ("a missing selector selects nothing", None, Ok((false, ""))),
        ("an empty one everything", Some(json!({})), Ok((true, ""))),
        (
            "labels are equalities",
            Some(json!({"matchLabels": {"app": "web"}})),
            Ok((true, "app=web")),
        ),
        (
            "requirements are sorted by key, values by themselves",
            Some(json!({
                "matchLabels": {"tier": "front"},
                "matchExpressions": [
                    {"key": "app", "operator": "In", "values": ["web", "api"]},
                    {"key": "zone", "operator": "DoesNotExist"},
                ],
            })),
            Ok((true, "app in (api,web),tier=front,!zone")),
        ),
        (
            "an unknown operator",
            Some(json!({"matchExpressions": [{"key": "a", "operator": "Has"}]})),
            Err("\"Has\" is not a valid label selector operator"),
        ),
        (
            "a set of nothing",
            Some(json!({"matchExpressions": [{"key": "a", "operator": "In"}]})),
            Err(
                "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
            ),
        ),
    ];
    for (reason, object, want) in cases {
        let got = LabelSelector::from_json(object.as_ref());
        let got = got.map(|selector| (selector.matches_json(Some(&web)), selector.to_string()));
        let want = want.map(|(matches, text)| (matches, text.to_owned()));
        assert_eq!(got, want.map_err(str::to_owned), "{reason}");
    }
}
