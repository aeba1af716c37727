//! RBAC decisions and error texts, aggregation, and rules reviews.

use super::*;
use crate::request::Verb;

fn role(kind: &str, name: &str, namespace: &str, rules: &Value) -> Value {
    json!({"kind": kind, "metadata": {"name": name, "namespace": namespace}, "rules": rules})
}

fn binding(kind: &str, name: &str, namespace: &str, to: (&str, &str), subject: &Value) -> Value {
    json!({"kind": kind, "metadata": {"name": name, "namespace": namespace},
           "roleRef": {"kind": to.0, "name": to.1}, "subjects": [subject]})
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "name": name})
}

fn ask<'a>(user: &'a str, verb: &'a str, target: &'a str, namespace: &'a str) -> Attributes<'a> {
    let (group, target) = target.split_once(':').unwrap_or(("", target));
    let (resource, subresource) = target.split_once('/').unwrap_or((target, ""));
    Attributes { user, verb, group, resource, subresource, namespace, ..Attributes::default() }
}

/// An authorizer in which jane has these rules in all namespaces.
fn with_rules(rules: &Value) -> Authorizer {
    let role = role("ClusterRole", "r", "", rules);
    let binding = binding("ClusterRoleBinding", "b", "", ("ClusterRole", "r"), &user("jane"));
    Authorizer::new([&role, &binding])
}

#[test]
fn rules_match_as_kubernetes_matches_them() {
    let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!([{"apiGroups": groups, "resources": resources, "verbs": verbs}]);
    let pods = rule(&[""], &["pods"], &["get", "list"]);
    let cases = [
        (&pods, ask("jane", "get", "pods", "ns"), true, "as written"),
        (&pods, ask("jane", "delete", "pods", "ns"), false, "another verb"),
        (&pods, ask("jane", "get", "services", "ns"), false, "another resource"),
        (&pods, ask("jane", "get", "apps:pods", "ns"), false, "another group"),
        (&pods, ask("joe", "get", "pods", "ns"), false, "another user"),
        (&pods, ask("jane", "get", "pods/log", "ns"), false, "a subresource is not included"),
        (&pods, ask("jane", "get", "pods", ""), true, "a cluster-wide list"),
        (&rule(&[""], &["pods/log"], &["get"]), ask("jane", "get", "pods/log", "n"), true, "named"),
        (&rule(&[""], &["pods/log"], &["get"]), ask("jane", "get", "pods", "n"), false, "only it"),
        (
            &rule(&["*"], &["*/scale"], &["update"]),
            ask("jane", "update", "apps:deployments/scale", "ns"),
            true,
            "the scale of anything",
        ),
        (
            &rule(&["*"], &["*/scale"], &["update"]),
            ask("jane", "update", "apps:deployments/status", "ns"),
            false,
            "but not its status",
        ),
        (
            &rule(&["*"], &["*"], &["*"]),
            ask("jane", "patch", "a.b:things/status", ""),
            true,
            "stars cover everything",
        ),
    ];
    for (rules, asked, want, reason) in cases {
        assert_eq!(with_rules(rules).allowed(&asked).allowed, want, "{reason}");
    }
}

#[test]
fn resource_names_narrow_a_rule() {
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"],
                        "resourceNames": ["mine"]}]);
    let authorizer = with_rules(&rules);
    let named = |name| Attributes { name, ..ask("jane", "get", "configmaps", "ns") };
    assert!(authorizer.allowed(&named("mine")).allowed);
    assert!(!authorizer.allowed(&named("yours")).allowed);
    assert!(!authorizer.allowed(&named("")).allowed, "a list has no name");
}

#[test]
fn paths_match_by_beginning_only_with_a_star() {
    let rules = json!([{"nonResourceURLs": ["/healthz*", "/version"], "verbs": ["get"]}]);
    let authorizer = with_rules(&rules);
    let path = |path| Attributes { user: "jane", verb: "get", path, ..Attributes::default() };
    let cases = [("/healthz", true), ("/healthz/etcd", true), ("/version", true)];
    for (at, want) in cases.into_iter().chain([("/version/x", false), ("/", false)]) {
        assert_eq!(authorizer.allowed(&path(at)).allowed, want, "{at}");
    }
    let post = Attributes { verb: "post", ..path("/version") };
    assert!(!authorizer.allowed(&post).allowed);
}

#[test]
fn a_role_binding_holds_in_its_namespace_only() {
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]);
    let objects = [
        role("Role", "r", "here", &rules),
        role("ClusterRole", "c", "", &rules),
        binding("RoleBinding", "b", "here", ("Role", "r"), &user("jane")),
        binding("RoleBinding", "b", "there", ("ClusterRole", "c"), &user("joe")),
    ];
    let authorizer = Authorizer::new(&objects);
    let cases = [
        ("jane", "here", true, "where it is bound"),
        ("jane", "there", false, "elsewhere"),
        ("jane", "", false, "everywhere"),
        ("joe", "there", true, "a cluster role, bound in one namespace"),
        ("joe", "here", false, "and not in another"),
    ];
    for (user, namespace, want, reason) in cases {
        let asked = ask(user, "list", "pods", namespace);
        assert_eq!(authorizer.allowed(&asked).allowed, want, "{user} {namespace:?}: {reason}");
    }
    let decision = authorizer.allowed(&ask("jane", "list", "pods", "here"));
    let want = r#"RBAC: allowed by RoleBinding "b/here" of Role "r" to User "jane""#;
    assert_eq!(decision.reason, want);
}

#[test]
fn subjects_are_users_groups_and_service_accounts() {
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let bound = |subject: Value| {
        let role = role("ClusterRole", "r", "", &rules);
        let binding = binding("RoleBinding", "b", "ns", ("ClusterRole", "r"), &subject);
        Authorizer::new([&role, &binding])
    };
    let account = "system:serviceaccount:ns:bot";
    let cases = [
        (json!({"kind": "Group", "name": "devs"}), "jane", vec!["devs"], true, "a group"),
        (json!({"kind": "Group", "name": "devs"}), "devs", vec![], false, "a user of that name"),
        (
            json!({"kind": "ServiceAccount", "name": "bot"}),
            account,
            vec![],
            true,
            "of the namespace",
        ),
        (
            json!({"kind": "ServiceAccount", "name": "bot", "namespace": "other"}),
            account,
            vec![],
            false,
            "of another namespace",
        ),
        (json!({"kind": "User", "name": account}), account, vec![], true, "by user name"),
        (
            json!({"kind": "Group", "name": "system:serviceaccounts:ns"}),
            account,
            vec![],
            true,
            "by the group of its namespace",
        ),
        (
            json!({"kind": "Group", "name": "system:authenticated"}),
            "anyone",
            vec![],
            true,
            "anyone at all",
        ),
        (
            json!({"kind": "Group", "name": "system:authenticated"}),
            "system:anonymous",
            vec![],
            false,
            "but not no one",
        ),
        (json!({"kind": "Robot", "name": "jane"}), "jane", vec![], false, "an unknown kind"),
    ];
    for (subject, user, given, want, reason) in cases {
        let given: Vec<_> = given.into_iter().map(ToOwned::to_owned).collect();
        let groups = groups_of(user, &given);
        let asked = Attributes { groups: &groups, ..ask(user, "get", "pods", "ns") };
        assert_eq!(bound(subject).allowed(&asked).allowed, want, "{user}: {reason}");
    }
}

#[test]
fn refusals_read_as_kubernetes_writes_them() {
    let nobody = Authorizer::default();
    let named =
        Attributes { name: "x", ..ask("jane", "update", "apps:deployments/status", "default") };
    let path = Attributes { user: "jane", verb: "get", path: "/metrics", ..Attributes::default() };
    let cases = [
        (
            ask("jane", "list", "pods", "default"),
            r#"pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default""#,
        ),
        (
            ask("jane", "list", "nodes", ""),
            r#"nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope"#,
        ),
        (
            named,
            r#"deployments.apps "x" is forbidden: User "jane" cannot update resource "deployments/status" in API group "apps" in the namespace "default""#,
        ),
        (path, r#"forbidden: User "jane" cannot get path "/metrics""#),
        (
            ask("<b>", "list", "nodes", ""),
            r#"nodes is forbidden: User "&lt;b&gt;" cannot list resource "nodes" in API group "" at the cluster scope"#,
        ),
    ];
    for (asked, want) in cases {
        let decision = nobody.allowed(&asked);
        assert!(!decision.allowed);
        let failure = refusal(&asked, &decision);
        assert_eq!((failure.code, failure.message.as_str()), (403, want));
    }
}

#[test]
fn a_binding_to_a_missing_role_says_so() {
    let binding = binding("RoleBinding", "b", "ns", ("Role", "gone"), &user("jane"));
    let authorizer = Authorizer::new([&binding]);
    let asked = ask("jane", "list", "pods", "ns");
    let decision = authorizer.allowed(&asked);
    assert_eq!(decision.reason, r#"RBAC: role.rbac.authorization.k8s.io "gone" not found"#);
    let message = refusal(&asked, &decision).message;
    assert!(
        message
            .ends_with(r#"namespace "ns": RBAC: role.rbac.authorization.k8s.io "gone" not found"#)
    );
}

#[test]
fn masters_may_do_everything_without_any_role() {
    let groups = vec!["system:masters".to_owned()];
    let asked = Attributes { groups: &groups, ..ask("root", "delete", "nodes", "") };
    assert!(Authorizer::default().allowed(&asked).allowed);
}

#[test]
fn cluster_roles_are_made_of_others_by_label() {
    let labelled = |name: &str, labels: Value, resource: &str| {
        json!({"kind": "ClusterRole", "metadata": {"name": name, "labels": labels}, "rules": [
            {"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]})
    };
    let made = |name: &str, labels: Value, of: Value| {
        json!({"kind": "ClusterRole", "metadata": {"name": name, "labels": labels},
               "aggregationRule": {"clusterRoleSelectors": [of]}, "rules": null})
    };
    let objects = [
        labelled("a", json!({"to": "small"}), "pods"),
        labelled("b", json!({"to": "none"}), "secrets"),
        made("small", json!({"to": "large"}), json!({"matchLabels": {"to": "small"}})),
        made(
            "large",
            // Its own label selects it, too: a cycle that must not be followed.
            json!({"to": "large"}),
            json!({"matchExpressions": [{"key": "to", "operator": "In", "values": ["large"]}]}),
        ),
        binding("ClusterRoleBinding", "b", "", ("ClusterRole", "large"), &user("jane")),
    ];
    let authorizer = Authorizer::new(&objects);
    assert!(authorizer.allowed(&ask("jane", "get", "pods", "")).allowed);
    assert!(!authorizer.allowed(&ask("jane", "get", "secrets", "")).allowed);
}

#[test]
fn replacing_the_objects_replaces_the_answers() {
    let authorizer = with_rules(&json!([{"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}]));
    let asked = ask("jane", "get", "pods", "ns");
    assert!(authorizer.allowed(&asked).allowed);
    authorizer.replace([]);
    assert!(!authorizer.allowed(&asked).allowed);
}

#[test]
fn a_fresh_cluster_has_the_usual_roles() {
    let mut objects = bootstrap_objects();
    for (name, role) in
        [("ann", "admin"), ("ed", "edit"), ("vi", "view"), ("root", "cluster-admin")]
    {
        objects.push(binding("RoleBinding", name, "ns", ("ClusterRole", role), &user(name)));
    }
    let authorizer = Authorizer::new(&objects);
    let cases = [
        ("vi", "list", "pods", true, "a viewer looks"),
        ("vi", "get", "secrets", false, "but not at secrets"),
        ("vi", "update", "apps:deployments", false, "and changes nothing"),
        ("ed", "update", "apps:deployments", true, "an editor changes"),
        ("ed", "list", "pods", true, "and looks"),
        ("ed", "get", "secrets", true, "also at secrets"),
        ("ed", "create", "rbac.authorization.k8s.io:roles", false, "but grants nothing"),
        ("ann", "create", "rbac.authorization.k8s.io:roles", true, "an admin grants"),
        ("ann", "list", "pods", true, "and looks"),
        ("root", "anything", "x.y:z", true, "a cluster admin, within the namespace"),
        ("joe", "create", "authorization.k8s.io:selfsubjectaccessreviews", true, "all may ask"),
        ("joe", "list", "pods", false, "and no more"),
    ];
    for (user, verb, target, want, reason) in cases {
        let groups = groups_of(user, &[]);
        let asked = Attributes { groups: &groups, ..ask(user, verb, target, "ns") };
        assert_eq!(authorizer.allowed(&asked).allowed, want, "{user}: {reason}");
    }
    for (user, path, want) in [
        ("joe", "/apis/apps/v1", true),
        ("joe", "/metrics", false),
        ("system:anonymous", "/version", true),
        ("system:anonymous", "/apis", false),
    ] {
        let groups = groups_of(user, &[]);
        let asked =
            Attributes { user, groups: &groups, verb: "get", path, ..Attributes::default() };
        assert_eq!(authorizer.allowed(&asked).allowed, want, "{user} {path}");
    }
}

#[test]
fn a_rules_review_lists_what_holds() {
    let rules = json!([
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["x"]},
        {"nonResourceURLs": ["/version"], "verbs": ["get"]},
    ]);
    let status = with_rules(&rules).rules_for("jane", &[], "ns");
    let want = json!({
        "resourceRules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["x"]}],
        "nonResourceRules": [{"nonResourceURLs": ["/version"], "verbs": ["get"]}],
        "incomplete": false,
    });
    assert_eq!(status, want);
    let none = with_rules(&rules).rules_for("joe", &[], "ns");
    assert_eq!(none["resourceRules"], json!([]));
}

#[test]
fn a_request_is_asked_about_as_it_came() {
    let info = RequestInfo {
        verb: Verb::DeleteCollection,
        resource: "pods".into(),
        namespace: "ns".into(),
        user: "jane".into(),
        ..RequestInfo::default()
    };
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["deletecollection"]}]);
    assert!(with_rules(&rules).allowed(&Attributes::from(&info)).allowed);
}
