use serde_json::json;

use super::{FieldSelector, field_value};
use crate::failure::Failure;

#[test]
fn field_selectors_select_by_the_fields_of_the_kind() {
    let pod = json!({
        "metadata": {"name": "web-1", "namespace": "shop"},
        "spec": {"nodeName": "n1"}, "status": {"phase": "Running", "podIP": "10.0.0.1"},
    });
    let cases = [
        ("by name", "metadata.name=web-1", Ok(true)),
        ("double equality", "metadata.name==web-1", Ok(true)),
        ("all terms count", "metadata.name=web-1,status.phase!=Running", Ok(false)),
        ("the old name of the node field", "spec.host=n1", Ok(true)),
        ("an absent boolean is false", "spec.hostNetwork=false", Ok(true)),
        ("the first address", "status.podIP=10.0.0.1", Ok(true)),
        ("an absent field is empty", "status.nominatedNodeName=", Ok(true)),
        ("empty terms do not matter", ",", Ok(true)),
        ("an escaped comma", r"metadata.name=a\,b", Ok(false)),
        ("a field of another kind", "spec.foo=1", Err("field label not supported: spec.foo")),
        (
            "no operator",
            "metadata.name",
            Err("invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ),
        (
            "a bad escape",
            r"metadata.name=\a",
            Err(r"invalid field selector: invalid escape sequence: \a"),
        ),
    ];
    for (reason, text, want) in cases {
        let got = FieldSelector::parse(text).and_then(|selector| {
            let value = |path: &str| field_value("", "Pod", &pod, path);
            selector.check::<&str>("", "Pod", &[]).map(|()| selector.matches(value))
        });
        assert_eq!(got, want.map_err(Failure::bad_request), "{reason}");
    }
}

#[test]
fn unknown_fields_are_refused_in_the_words_of_the_kind() {
    let cases = [
        (
            "a built-in kind without fields of its own",
            ("apps", "Deployment", "spec.replicas=1"),
            Some(
                "\"spec.replicas\" is not a known field selector: only \"metadata.name\", \
                 \"metadata.namespace\"",
            ),
        ),
        (
            "a custom resource",
            ("flagger.app", "Canary", "spec.replicas=1"),
            Some("field label not supported: spec.replicas"),
        ),
        ("a field a definition lists", ("flagger.app", "Canary", "spec.color=red"), None),
    ];
    for (reason, (group, kind, text), want) in cases {
        let got = FieldSelector::parse(text)
            .and_then(|selector| selector.check(group, kind, &[".spec.color"]));
        assert_eq!(got, want.map_or(Ok(()), |text| Err(Failure::bad_request(text))), "{reason}");
    }
    let canary = json!({"spec": {"color": "red"}});
    let color = field_value("flagger.app", "Canary", &canary, "spec.color");
    assert_eq!(color.as_deref(), Some("red"));
}

#[test]
fn events_are_selected_by_what_they_are_about_in_both_groups() {
    let event = json!({
        "involvedObject": {"kind": "Deployment", "name": "web"},
        "source": {"component": ""}, "reportingComponent": "tidegate", "type": "Warning",
    });
    let core = |path| field_value("", "Event", &event, path);
    assert_eq!(core("involvedObject.name").as_deref(), Some("web"));
    assert_eq!(core("involvedObject.uid").as_deref(), Some(""));
    assert_eq!(core("source").as_deref(), Some("tidegate"));
    assert_eq!(core("involvedObject.labels"), None);
    let new = |path| field_value("events.k8s.io", "Event", &event, path);
    assert_eq!(new("regarding.kind").as_deref(), Some("Deployment"));
    assert_eq!(new("involvedObject.kind"), None);
}
