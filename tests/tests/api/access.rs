//! Authentication, authorization, and the request log.

use http::Method;
use kube_sandbox::{Sandbox, Settings, request::Verb, server::User};
use serde_json::{Value, json};
use tidegate_tests::api::{Api, MERGE_PATCH};

use super::fixtures::{CONFIG_MAPS, PODS, cluster, config_map, deployment, pod};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1";

/// A cluster where jane has the permissions of `rules` in the default namespace.
async fn guarded(rules: Value) -> (Sandbox, Api, Api) {
    let sandbox = Sandbox::new(Settings::for_tests().rbac());
    let admin = Api::of(&sandbox);
    let role = json!({ "metadata": { "name": "r" }, "rules": rules });
    admin.post(ROLES, role).await.expect(201);
    let binding = json!({ "metadata": { "name": "b" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" },
        "subjects": [{ "kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io" }] });
    admin.post(BINDINGS, binding).await.expect(201);
    let jane = Api::acting_as(&sandbox, User::named("jane"));
    (sandbox, admin, jane)
}

fn rule(resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": ["", "apps"], "resources": resources, "verbs": verbs })
}

#[tokio::test]
async fn every_refusal_says_who_could_not_do_what_where() {
    let (_sandbox, _admin, jane) = guarded(json!([])).await;
    let user = "User \"jane\" cannot";
    let default = "in the namespace \"default\"";
    let cases = [
        (
            Method::GET,
            format!("{PODS}/p"),
            format!(
                "pods \"p\" is forbidden: {user} get resource \"pods\" in API group \"\" {default}"
            ),
        ),
        (
            Method::GET,
            PODS.to_owned(),
            format!("pods is forbidden: {user} list resource \"pods\" in API group \"\" {default}"),
        ),
        (
            Method::GET,
            "/api/v1/pods?watch=1".to_owned(),
            format!(
                "pods is forbidden: {user} watch resource \"pods\" in API group \"\" at the cluster \
                 scope"
            ),
        ),
        (
            Method::PUT,
            "/apis/apps/v1/namespaces/default/deployments/d/status".to_owned(),
            format!(
                "deployments.apps \"d\" is forbidden: {user} update resource \"deployments/status\" \
                 in API group \"apps\" {default}"
            ),
        ),
        (
            Method::DELETE,
            CONFIG_MAPS.to_owned(),
            format!(
                "configmaps is forbidden: {user} deletecollection resource \"configmaps\" in API \
                 group \"\" {default}"
            ),
        ),
        (
            Method::GET,
            "/api/v1/nodes/n".to_owned(),
            format!(
                "nodes \"n\" is forbidden: {user} get resource \"nodes\" in API group \"\" at the \
                 cluster scope"
            ),
        ),
        (
            Method::GET,
            "/apis/example.org/v1/things".to_owned(),
            format!(
                "things.example.org is forbidden: {user} list resource \"things\" in API group \
                 \"example.org\" at the cluster scope"
            ),
        ),
        (Method::GET, "/logs".to_owned(), format!("forbidden: {user} get path \"/logs\"")),
    ];
    for (method, path, want) in cases {
        let reply = jane.ask(method, &path).send().await;
        assert_eq!(reply.refused(403, "Forbidden"), want, "{path}");
    }
    let details = jane.get(&format!("{PODS}/p")).await.json()["details"].clone();
    assert_eq!(details, json!({ "name": "p", "kind": "pods" }));
    jane.get("/version").await.expect(200);
    assert_eq!(jane.get("/healthz").await.code, 200);
}

#[tokio::test]
async fn permission_is_for_verbs_resources_and_names() {
    let (_sandbox, admin, jane) = guarded(json!([
        rule(&["pods"], &["get", "list"]),
        { "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"],
          "verbs": ["get", "list", "watch", "update"] },
    ]))
    .await;
    admin.post(PODS, pod("p")).await.expect(201);
    for name in ["mine", "other"] {
        admin.post(CONFIG_MAPS, config_map(name)).await.expect(201);
    }
    jane.get(&format!("{PODS}/p")).await.expect(200);
    jane.get(PODS).await.expect(200);
    jane.post(PODS, pod("q")).await.refused(403, "Forbidden");
    jane.get(&format!("{CONFIG_MAPS}/mine")).await.expect(200);
    jane.get(&format!("{CONFIG_MAPS}/other")).await.refused(403, "Forbidden");
    jane.get(CONFIG_MAPS).await.refused(403, "Forbidden");
    let one = format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dmine");
    jane.get(&one).await.expect(200);
    let watch = jane.watch(&format!("{one}&watch=1")).await;
    assert_eq!(watch.code, 200, "a selector by name is a name");
    let head = jane.ask(Method::HEAD, &format!("{CONFIG_MAPS}/other")).send().await;
    head.refused(403, "Forbidden");
}

#[tokio::test]
async fn creating_by_patch_or_put_takes_the_permission_to_create() {
    let (_sandbox, _admin, jane) = guarded(json!([
        rule(&["configmaps", "deployments"], &["patch", "update"]),
        { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["update"] },
    ]))
    .await;
    let path = format!("{CONFIG_MAPS}/a");
    let message = jane.apply(&path, "m", config_map("a")).await.refused(403, "Forbidden");
    assert!(message.contains("cannot create resource \"configmaps\""), "{message}");
    let path = format!("{}/l", super::fixtures::LEASES);
    let message = jane.put(&path, super::fixtures::lease("l")).await.refused(403, "Forbidden");
    assert!(message.contains("cannot create resource \"leases\""), "{message}");
}

#[tokio::test]
async fn tokens_stand_for_their_users() {
    let (sandbox, admin, _jane) = guarded(json!([rule(&["pods"], &["list"])])).await;
    sandbox.server().add_token("secret", User::named("jane"));
    let bearer = |token: &str, path: &str| {
        let stranger = Api::acting_as(&sandbox, User::anonymous());
        stranger.ask(Method::GET, path).header("authorization", &format!("Bearer {token}")).send()
    };
    bearer("secret", PODS).await.expect(200);
    for path in [PODS, "/version", "/nowhere"] {
        assert_eq!(bearer("wrong", path).await.refused(401, "Unauthorized"), "Unauthorized");
    }
    let stranger = Api::acting_as(&sandbox, User::anonymous());
    let message = stranger.get(PODS).await.refused(403, "Forbidden");
    assert!(message.contains("User \"system:anonymous\" cannot list"), "{message}");
    let account = json!({ "metadata": { "name": "robot" } });
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    admin.post(accounts, account).await.expect(201);
    let ask = json!({ "spec": { "audiences": ["api"], "expirationSeconds": 600 } });
    let issued = admin.post(&format!("{accounts}/robot/token"), ask).await.expect(201);
    assert_eq!(issued["kind"], "TokenRequest");
    assert_eq!(issued["status"]["expirationTimestamp"], "2026-01-01T00:10:00Z");
    let token = issued["status"]["token"].as_str().unwrap();
    let message = bearer(token, PODS).await.refused(403, "Forbidden");
    assert!(message.contains("User \"system:serviceaccount:default:robot\""), "{message}");
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": { "token": token } });
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let answer = admin.post(path, review).await.expect(201);
    assert_eq!(answer["status"]["authenticated"], true);
    assert_eq!(answer["status"]["user"]["username"], "system:serviceaccount:default:robot");
    admin.post(&format!("{accounts}/nobody/token"), json!({})).await.refused(404, "NotFound");
}

#[tokio::test]
async fn one_may_act_for_another_if_allowed() {
    let (_sandbox, admin, jane) = guarded(json!([
        rule(&["pods"], &["list"]),
        { "apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["robot"],
          "verbs": ["impersonate"] },
    ]))
    .await;
    let as_user =
        |api: &Api, user: &str| api.ask(Method::GET, PODS).header("impersonate-user", user).send();
    as_user(&admin, "jane").await.expect(200);
    as_user(&admin, "joe").await.refused(403, "Forbidden");
    assert_eq!(
        as_user(&jane, "joe").await.refused(403, "Forbidden"),
        "users \"joe\" is forbidden: User \"jane\" cannot impersonate resource \"users\" in API \
         group \"\" at the cluster scope"
    );
    let message = as_user(&jane, "system:serviceaccount:default:robot").await;
    let message = message.refused(403, "Forbidden");
    assert!(message.starts_with("pods is forbidden: User \"system:serviceaccount:default:robot\""));
    let other = as_user(&jane, "system:serviceaccount:default:other").await;
    assert_eq!(
        other.refused(403, "Forbidden"),
        "serviceaccounts \"other\" is forbidden: User \"jane\" cannot impersonate resource \
         \"serviceaccounts\" in API group \"\" in the namespace \"default\""
    );
    let ask = admin.ask(Method::GET, PODS).header("impersonate-group", "g").send().await;
    let message = ask.refused(400, "BadRequest");
    assert!(message.ends_with("without impersonating a user"), "{message}");
    let me = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let ask = admin.ask(Method::POST, path).json(&me).header("impersonate-user", "joe");
    let answer = ask.header("impersonate-group", "g").send().await.expect(201);
    assert_eq!(
        answer["status"]["userInfo"],
        json!({ "username": "joe", "groups": ["g", "system:authenticated"] })
    );
}

#[tokio::test]
async fn reviews_answer_questions_about_permission() {
    let (_sandbox, admin, jane) = guarded(json!([rule(&["pods"], &["list", "get"])])).await;
    let may = async |api: &Api, kind: &str, spec: Value| {
        let review = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec });
        let path = format!("{REVIEWS}/{}s", kind.to_lowercase());
        let answer = api.post(&path, review).await.expect(201);
        assert_eq!(answer["kind"], kind);
        answer["status"]["allowed"].as_bool().unwrap()
    };
    let pods = |verb: &str| json!({ "resourceAttributes": { "verb": verb, "resource": "pods", "namespace": "default" } });
    assert!(may(&jane, "SelfSubjectAccessReview", pods("list")).await);
    assert!(!may(&jane, "SelfSubjectAccessReview", pods("delete")).await);
    let mut other = pods("list");
    other["user"] = "jane".into();
    assert!(may(&admin, "SubjectAccessReview", other.clone()).await);
    other["user"] = "joe".into();
    assert!(!may(&admin, "SubjectAccessReview", other).await);
    let path = json!({ "nonResourceAttributes": { "verb": "get", "path": "/version" } });
    assert!(may(&jane, "SelfSubjectAccessReview", path).await);
    let empty = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {} });
    let reply = jane.post(&format!("{REVIEWS}/selfsubjectaccessreviews"), empty).await;
    let message = reply.refused(422, "Invalid");
    assert!(message.contains("exactly one of nonResourceAttributes or resourceAttributes"));
    let rules = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
        "spec": { "namespace": "default" } });
    let path = format!("{REVIEWS}/selfsubjectrulesreviews");
    let answer = jane.post(&path, rules).await.expect(201);
    let listed = answer["status"]["resourceRules"].as_array().unwrap();
    assert!(listed.iter().any(|rule| rule["resources"] == json!(["pods"])));
    assert_eq!(answer["status"]["incomplete"], false);
}

#[tokio::test]
async fn the_log_tells_who_did_what_and_how_it_ended() {
    let (sandbox, _admin, jane) =
        guarded(json!([rule(&["configmaps"], &["create", "patch", "watch"])])).await;
    let log = &sandbox.server().log;
    let mark = log.mark();
    jane.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a?dryRun=All");
    jane.patch(&path, MERGE_PATCH, json!({})).await.expect(200);
    jane.get(CONFIG_MAPS).await.refused(403, "Forbidden");
    jane.get("/version").await.expect(200);
    let mut watch = jane.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    watch.ready().await.unwrap();
    let stranger = Api::acting_as(&sandbox, User::anonymous());
    let ask = stranger.ask(Method::GET, PODS).header("authorization", "Bearer nonsense");
    ask.send().await.refused(401, "Unauthorized");
    let entries = log.since(mark);
    let shown: Vec<_> = entries
        .iter()
        .map(|entry| format!("{} {} {} {}", entry.user, entry.verb, entry.target(), entry.code))
        .collect();
    let want = [
        "jane create configmaps 201",
        "jane patch configmaps 200",
        "jane list configmaps 403",
        "jane get /version 200",
        "jane watch configmaps 200",
        " list pods 401",
    ];
    assert_eq!(shown, want);
    assert_eq!(log.writes_since(mark).len(), 1, "the dry run is no write");
    let sizes: Vec<bool> = entries.iter().map(|entry| entry.bytes > 0).collect();
    assert_eq!(sizes, [true, true, false, true, true, false], "bytes of what was sent");
    let tried = log.matching_since(mark, |entry| entry.dry_run);
    assert!(tried.iter().all(|entry| entry.verb == Verb::Patch));
}

#[tokio::test]
async fn without_rbac_everyone_may_do_everything() {
    let (sandbox, _api) = cluster();
    let stranger = Api::acting_as(&sandbox, User::anonymous());
    let path = "/apis/apps/v1/namespaces/default/deployments";
    stranger.post(path, deployment("d")).await.expect(201);
}
