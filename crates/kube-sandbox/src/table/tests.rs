//! Cells of server-side tables, compared with `kubectl get`.

use super::*;

fn now() -> Timestamp {
    "2024-05-01T12:00:00Z".parse().unwrap()
}

fn meta() -> Value {
    json!({"name": "x", "namespace": "default", "creationTimestamp": "2024-05-01T11:55:00Z"})
}

/// The cells of the named columns, joined by ` | `.
fn shown(group: &str, kind: &str, object: &Value, wanted: &[&str]) -> String {
    let cells = row(group, kind, object, now());
    let named: Vec<_> = columns(group, kind).into_iter().zip(cells).collect();
    let text = |wanted: &&str| {
        let found = named.iter().find(|(column, _)| column.name == *wanted);
        let (_, cell) = found.unwrap_or_else(|| panic!("{kind} has no column {wanted}"));
        cell.as_str().map_or_else(|| cell.to_string(), ToOwned::to_owned)
    };
    wanted.iter().map(text).collect::<Vec<_>>().join(" | ")
}

fn pod(spec: &Value, status: &Value) -> Value {
    json!({"kind": "Pod", "metadata": meta(), "spec": spec, "status": status})
}

fn one() -> Value {
    json!({"containers": [{"name": "a"}]})
}

fn waiting(reason: &str) -> Value {
    json!({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": reason}}}]})
}

fn ended(code: i64, reason: &str) -> Value {
    json!({"state": {"terminated": {"exitCode": code, "reason": reason}}})
}

fn running() -> Value {
    json!({"ready": true, "state": {"running": {}}})
}

#[test]
fn every_kind_has_as_many_cells_as_columns() {
    let kinds = [
        ("", "Pod Namespace ServiceAccount ConfigMap Secret Node Event Service Endpoints"),
        ("", "PersistentVolumeClaim"),
        ("events.k8s.io", "Event"),
        ("apps", "Deployment ReplicaSet StatefulSet DaemonSet ControllerRevision"),
        ("autoscaling", "HorizontalPodAutoscaler Scale"),
        ("policy", "PodDisruptionBudget"),
        ("discovery.k8s.io", "EndpointSlice"),
        ("networking.k8s.io", "Ingress IngressClass NetworkPolicy"),
        ("rbac.authorization.k8s.io", "RoleBinding ClusterRoleBinding"),
        ("coordination.k8s.io", "Lease"),
    ];
    let empty = json!({});
    for (group, kind) in kinds
        .iter()
        .flat_map(|(group, kinds)| kinds.split_whitespace().map(move |kind| (*group, kind)))
    {
        assert!(printer(group, kind).is_some(), "{group}/{kind} is laid out");
        assert_eq!(columns(group, kind).len(), row(group, kind, &empty, now()).len(), "{kind}");
        let names = columns(group, kind).into_iter().filter(|column| column.format == "name");
        assert_eq!(names.count(), 1, "{kind} has one column of names");
    }
    let generic = columns("example.com", "Thing");
    assert_eq!(generic.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["Name", "Created At"]);
    let made = row("", "Thing", &json!({"metadata": meta()}), now());
    assert_eq!(made, [json!("x"), json!("2024-05-01T11:55:00Z")], "the client computes the age");
}

#[test]
fn a_pods_status_tells_its_story() {
    let gated = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
    let cases = [
        (one(), json!({"phase": "Pending"}), "0/1 | Pending", "not yet scheduled"),
        (
            one(),
            json!({"phase": "Pending", "conditions": gated}),
            "0/1 | SchedulingGated",
            "a scheduling gate",
        ),
        (one(), waiting("ContainerCreating"), "0/1 | ContainerCreating", "starting"),
        (one(), waiting("ImagePullBackOff"), "0/1 | ImagePullBackOff", "no such image"),
        (one(), waiting("CrashLoopBackOff"), "0/1 | CrashLoopBackOff", "ends again and again"),
        (
            one(),
            json!({"phase": "Running", "containerStatuses": [running()]}),
            "1/1 | Running",
            "all is well",
        ),
        (
            one(),
            json!({"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}),
            "0/1 | Running",
            "running, not ready",
        ),
        (
            one(),
            json!({"phase": "Succeeded", "containerStatuses": [ended(0, "Completed")]}),
            "0/1 | Completed",
            "done",
        ),
        (
            one(),
            json!({"phase": "Failed", "containerStatuses": [ended(1, "Error")]}),
            "0/1 | Error",
            "failed",
        ),
        (
            one(),
            json!({"phase": "Failed", "containerStatuses": [ended(137, "")]}),
            "0/1 | ExitCode:137",
            "no reason, an exit code",
        ),
        (
            one(),
            json!({"phase": "Failed", "containerStatuses": [
                {"state": {"terminated": {"exitCode": 137, "signal": 9}}}]}),
            "0/1 | Signal:9",
            "no reason, a signal",
        ),
    ];
    for (spec, status, want, reason) in cases {
        let got = shown("", "Pod", &pod(&spec, &status), &["Ready", "Status"]);
        assert_eq!(got, want, "{reason}");
    }
}

#[test]
fn containers_that_disagree_are_summed_up() {
    let two = json!({"containers": [{"name": "a"}, {"name": "b"}]});
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let cases = [
        (
            one(),
            json!({"phase": "Failed", "reason": "Evicted"}),
            "0/1 | Evicted",
            "the pod's own reason",
        ),
        (
            two.clone(),
            json!({"phase": "Running", "conditions": ready,
                   "containerStatuses": [ended(0, "Completed"), running()]}),
            "1/2 | Running",
            "one is done, the pod is ready",
        ),
        (
            two.clone(),
            json!({"phase": "Running", "containerStatuses": [ended(0, "Completed"), running()]}),
            "1/2 | NotReady",
            "one is done, the pod is not ready",
        ),
        (
            two,
            json!({"phase": "Failed",
                   "containerStatuses": [ended(0, "Completed"), ended(2, "Error")]}),
            "0/2 | Error",
            "one is done, one failed",
        ),
    ];
    for (spec, status, want, reason) in cases {
        let got = shown("", "Pod", &pod(&spec, &status), &["Ready", "Status"]);
        assert_eq!(got, want, "{reason}");
    }
}

#[test]
fn init_containers_speak_first() {
    let spec = |policies: [Option<&str>; 2]| {
        let init = |(at, policy)| json!({"name": format!("i{at}"), "restartPolicy": policy});
        let inits: Vec<_> = policies.into_iter().enumerate().map(init).collect();
        json!({"containers": [{"name": "a"}], "initContainers": inits})
    };
    let named = |at: usize, mut status: Value| {
        status["name"] = format!("i{at}").into();
        status
    };
    let status = |first: Value, second: Value| {
        json!({"phase": "Pending", "initContainerStatuses": [named(0, first), named(1, second)],
               "containerStatuses": [{"state": {"waiting": {"reason": "PodInitializing"}}}]})
    };
    let (plain, sidecar) = (spec([None, None]), spec([Some("Always"), None]));
    let idle = || json!({"state": {"waiting": {"reason": "PodInitializing"}}});
    let started = || json!({"started": true, "ready": true, "state": {"running": {}}});
    let done = || ended(0, "Completed");
    let back_off = json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}});
    let cases = [
        (&plain, status(json!({"state": {"running": {}}}), idle()), "0/1 | Init:0/2", "the first"),
        (&plain, status(done(), json!({"state": {"running": {}}})), "0/1 | Init:1/2", "the second"),
        (&plain, status(done(), done()), "0/1 | PodInitializing", "all are done"),
        (&plain, status(back_off, idle()), "0/1 | Init:CrashLoopBackOff", "the first fails"),
        (&plain, status(ended(1, "Error"), idle()), "0/1 | Init:Error", "with a reason"),
        (&plain, status(ended(3, ""), idle()), "0/1 | Init:ExitCode:3", "with a code only"),
        (&sidecar, status(started(), idle()), "1/2 | Init:1/2", "a sidecar counts as ready"),
        (&sidecar, status(started(), done()), "1/2 | PodInitializing", "and holds nothing up"),
    ];
    for (spec, status, want, reason) in cases {
        let got = shown("", "Pod", &pod(spec, &status), &["Ready", "Status"]);
        assert_eq!(got, want, "{reason}");
    }
}

#[test]
fn a_deletion_outshouts_the_rest_unless_the_pod_has_ended() {
    let status = |phase: &str, reason: &str| json!({"phase": phase, "reason": reason, "containerStatuses": [running()]});
    let cases = [
        (status("Running", ""), "Terminating", "under way"),
        (status("Running", "NodeLost"), "Unknown", "its node is lost"),
        (status("Succeeded", ""), "Succeeded", "it has ended anyway"),
    ];
    for (status, want, reason) in cases {
        let mut pod = pod(&one(), &status);
        pod["metadata"]["deletionTimestamp"] = "2024-05-01T12:00:00Z".into();
        assert_eq!(shown("", "Pod", &pod, &["Status"]), want, "{reason}");
    }
}

#[test]
fn restarts_say_when_the_last_one_was() {
    let container = |count: i64, ended: &str| {
        json!({"ready": true, "restartCount": count, "state": {"running": {}},
               "lastState": {"terminated": {"exitCode": 1, "finishedAt": ended}}})
    };
    let spec = json!({"containers": [{"name": "a"}, {"name": "b"}]});
    let status = json!({"phase": "Running", "podIPs": [{"ip": "10.0.0.7"}], "containerStatuses": [
        container(2, "2024-05-01T11:59:50Z"), container(1, "2024-05-01T11:00:00Z")]});
    let busy = pod(&spec, &status);
    assert_eq!(shown("", "Pod", &busy, &["Restarts", "Age", "IP"]), "3 (10s ago) | 5m | 10.0.0.7");
    let quiet = pod(&spec, &json!({"phase": "Running", "containerStatuses": [running()]}));
    assert_eq!(shown("", "Pod", &quiet, &["Restarts", "Node"]), "0 | <none>");
}

#[test]
fn readiness_gates_are_counted() {
    let spec = json!({"containers": [], "nodeName": "n1", "readinessGates": [
        {"conditionType": "a"}, {"conditionType": "b"}]});
    let pod = pod(&spec, &json!({"conditions": [{"type": "a", "status": "True"}]}));
    assert_eq!(shown("", "Pod", &pod, &["Readiness Gates", "Node"]), "1/2 | n1");
}

#[test]
fn workloads_show_their_numbers() {
    let template = json!({"spec": {"containers": [
        {"name": "a", "image": "img:1"}, {"name": "b", "image": "img:2"}]}});
    let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["y", "x"]},
        {"key": "old", "operator": "DoesNotExist"}]});
    let object = json!({"metadata": meta(),
        "spec": {"replicas": 3, "template": template, "selector": selector,
                 "minAvailable": "50%", "completions": 2},
        "status": {"replicas": 3, "readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2,
                   "disruptionsAllowed": 1, "succeeded": 1, "startTime": "2024-05-01T11:58:00Z",
                   "desiredNumberScheduled": 4}});
    let apps = "apps";
    let cases = [
        (apps, "Deployment", &["Ready", "Up-to-date", "Available", "Age"][..], "2/3 | 1 | 2 | 5m"),
        (
            apps,
            "Deployment",
            &["Containers", "Images", "Selector"],
            "a,b | img:1,img:2 | app=web,!old,tier in (x,y)",
        ),
        (apps, "ReplicaSet", &["Desired", "Current", "Ready"], "3 | 3 | 2"),
        (apps, "StatefulSet", &["Ready", "Images"], "2/3 | img:1,img:2"),
        (apps, "DaemonSet", &["Desired", "Ready", "Node Selector"], "4 | 0 | <none>"),
        (
            "policy",
            "PodDisruptionBudget",
            &["Min Available", "Max Unavailable", "Allowed Disruptions"],
            "50% | N/A | 1",
        ),
        ("autoscaling", "Scale", &["Desired", "Available"], "3 | 3"),
    ];
    for (group, kind, wanted, want) in cases {
        assert_eq!(shown(group, kind, &object, wanted), want, "{kind}");
    }
}

#[test]
fn autoscalers_show_measured_and_wanted() {
    let resource = |name: &str, target: Value| json!({"type": "Resource", "resource": {"name": name, "target": target}});
    let measured = |current: Value| json!({"type": "Resource", "resource": {"current": current}});
    let cpu = || resource("cpu", json!({"averageUtilization": 80}));
    let external = json!({"type": "External", "external": {"target": {"value": "30"}}});
    let pods = json!({"type": "Pods", "pods": {"target": {"averageValue": "100"}}});
    let now_cpu = measured(json!({"averageUtilization": 10}));
    let cases = [
        (json!([]), json!([]), "<none>", "nothing is measured"),
        (json!([cpu()]), json!([now_cpu]), "cpu: 10%/80%", "a share"),
        (json!([cpu()]), json!([]), "cpu: <unknown>/80%", "not yet measured"),
        (
            json!([resource("memory", json!({"averageValue": "1Gi"}))]),
            json!([measured(json!({"averageValue": "512Mi"}))]),
            "memory: 512Mi/1Gi",
            "an amount",
        ),
        (json!([external]), json!([]), "<unknown>/30", "from outside"),
        (json!([cpu(), pods.clone()]), json!([]), "cpu: <unknown>/80%, <unknown>/100", "two"),
        (
            json!([cpu(), pods.clone(), pods]),
            json!([]),
            "cpu: <unknown>/80%, <unknown>/100 + 1 more...",
            "three are two and one more",
        ),
    ];
    for (metrics, current, want, reason) in cases {
        let object = json!({"metadata": meta(), "spec": {"metrics": metrics},
                            "status": {"currentMetrics": current}});
        let got = shown("autoscaling", "HorizontalPodAutoscaler", &object, &["Targets"]);
        assert_eq!(got, want, "{reason}");
    }
    let old = json!({"spec": {"targetCPUUtilizationPercentage": 50, "maxReplicas": 9,
        "scaleTargetRef": {"kind": "Deployment", "name": "web"}}});
    let wanted = ["Reference", "Targets", "MinPods", "MaxPods"];
    let got = shown("autoscaling", "HorizontalPodAutoscaler", &old, &wanted);
    assert_eq!(got, "Deployment/web | cpu: <unknown>/50% | <unset> | 9");
}

#[test]
fn services_show_where_they_are_reached() {
    let service = |spec: Value, status: Value| json!({"spec": spec, "status": status});
    let balancer = json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "a.b"}]}});
    let ports = json!([{"port": 80, "protocol": "TCP"}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}]);
    let cases = [
        (
            service(
                json!({"type": "ClusterIP", "clusterIPs": ["10.0.0.1"], "ports": ports}),
                json!({}),
            ),
            "10.0.0.1 | <none> | 80/TCP,53:30053/UDP",
            "inside only",
        ),
        (
            service(json!({"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"]}), json!({})),
            "10.0.0.1 | <pending> | <none>",
            "a balancer not yet there",
        ),
        (
            service(json!({"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]}), balancer),
            "<none> | 1.2.3.4,a.b,9.9.9.9 | <none>",
            "a balancer and given addresses",
        ),
        (
            service(json!({"type": "ExternalName", "externalName": "x.example"}), json!({})),
            "<none> | x.example | <none>",
            "another name",
        ),
        (
            service(json!({"type": "ClusterIP", "clusterIPs": ["None"]}), json!({})),
            "None | <none> | <none>",
            "headless",
        ),
    ];
    for (object, want, reason) in cases {
        let got = shown("", "Service", &object, &["Cluster-IP", "External-IP", "Port(s)"]);
        assert_eq!(got, want, "{reason}");
    }
}

#[test]
fn endpoints_show_the_first_three() {
    let addresses: Vec<_> = (1..=4).map(|n| json!({"ip": format!("10.0.0.{n}")})).collect();
    let many = json!({"subsets": [{"addresses": addresses, "ports": [{"port": 80}]}]});
    let want = "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 1 more...";
    assert_eq!(shown("", "Endpoints", &many, &["Endpoints"]), want);
    let none = json!({"subsets": []});
    assert_eq!(shown("", "Endpoints", &none, &["Endpoints"]), "<none>");
    let slice = json!({"addressType": "IPv4", "ports": [{"port": 80}, {"name": "x"}, {}],
                       "endpoints": [{"addresses": ["a", "b"]}, {"addresses": ["c", "d", "e"]}]});
    let got = shown("discovery.k8s.io", "EndpointSlice", &slice, &["Ports", "Endpoints"]);
    assert_eq!(got, "80,x,* | a,b,c + 2 more...");
    let empty = shown("discovery.k8s.io", "EndpointSlice", &json!({}), &["Ports", "Endpoints"]);
    assert_eq!(empty, "<unset> | <unset>");
}

#[test]
fn ingresses_show_hosts_and_ports() {
    let rules: Vec<_> = ["a", "b", "c", "d"].iter().map(|host| json!({"host": host})).collect();
    let busy = json!({"spec": {"ingressClassName": "nginx", "rules": rules, "tls": [{}]},
                      "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}});
    let wanted = ["Class", "Hosts", "Address", "Ports"];
    let got = shown("networking.k8s.io", "Ingress", &busy, &wanted);
    assert_eq!(got, "nginx | a,b,c + 1 more... | 1.2.3.4 | 80, 443");
    let plain = json!({"spec": {"rules": [{}]}});
    assert_eq!(shown("networking.k8s.io", "Ingress", &plain, &wanted), "<none> | * |  | 80");
}

#[test]
fn events_are_read_in_both_shapes() {
    let wanted = ["Last Seen", "Type", "Object", "Source", "Message", "Count"];
    let old = json!({"type": "Normal", "count": 3, "message": " hello\n",
        "firstTimestamp": "2024-05-01T11:00:00Z", "lastTimestamp": "2024-05-01T11:59:30Z",
        "source": {"component": "kubelet", "host": "n1"},
        "involvedObject": {"kind": "Pod", "name": "web"}});
    assert_eq!(
        shown("", "Event", &old, &wanted),
        "30s | Normal | pod/web | kubelet, n1 | hello | 3"
    );
    let new = json!({"type": "Warning", "note": "oops", "eventTime": "2024-05-01T11:59:00.000000Z",
        "reportingController": "tidegate", "regarding": {"kind": "Canary", "name": "web"}});
    let got = shown("events.k8s.io", "Event", &new, &wanted);
    assert_eq!(got, "60s | Warning | canary/web | tidegate | oops | 1");
    let series = json!({"series": {"count": 7, "lastObservedTime": "2024-05-01T11:59:58.000000Z"}});
    assert_eq!(shown("", "Event", &series, &["Last Seen", "Count"]), "2s | 7");
}

#[test]
fn nodes_and_claims_show_their_state() {
    let node = json!({
        "metadata": {"name": "n1", "labels": {
            "node-role.kubernetes.io/worker": "", "kubernetes.io/role": "db"}},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "True"}],
                   "addresses": [{"type": "InternalIP", "address": "10.1.0.1"}],
                   "nodeInfo": {"kernelVersion": "6.1", "architecture": "amd64"}}});
    let wanted = ["Status", "Roles", "Internal-IP", "External-IP", "OS-Image", "Kernel-Version"];
    let want = "Ready,SchedulingDisabled | db,worker | 10.1.0.1 | <none> | <unknown> | 6.1 (amd64)";
    assert_eq!(shown("", "Node", &node, &wanted), want);
    assert_eq!(shown("", "Node", &json!({}), &["Status", "Roles"]), "Unknown | <none>");

    let claim = json!({"spec": {"volumeName": "pv1", "storageClassName": "fast"},
        "status": {"phase": "Bound", "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                   "capacity": {"storage": "1Gi"}}});
    let wanted = ["Status", "Volume", "Capacity", "Access Modes", "StorageClass"];
    let got = shown("", "PersistentVolumeClaim", &claim, &wanted);
    assert_eq!(got, "Bound | pv1 | 1Gi | RWO,RWX | fast");
}

#[test]
fn bindings_and_revisions_name_their_owners() {
    let binding = json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
        {"kind": "User", "name": "jane"}, {"kind": "User", "name": "joe"},
        {"kind": "ServiceAccount", "name": "sa", "namespace": "ns"}]});
    let wanted = ["Role", "Users", "Groups", "ServiceAccounts"];
    let got = shown("rbac.authorization.k8s.io", "RoleBinding", &binding, &wanted);
    assert_eq!(got, "Role/r | jane, joe |  | ns/sa");
    let revision = json!({"revision": 4, "metadata": {"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": true}]}});
    let got = shown("apps", "ControllerRevision", &revision, &["Controller", "Revision"]);
    assert_eq!(got, "statefulset.apps/db | 4");
}

fn custom(type_: &str, json_path: &str) -> PrinterColumn {
    PrinterColumn {
        name: "C".into(),
        type_: type_.into(),
        json_path: json_path.into(),
        ..PrinterColumn::default()
    }
}

#[test]
fn custom_columns_show_what_their_type_allows() {
    let object = json!({"metadata": meta(), "spec": {
        "weight": 30, "ratio": 0.5, "big": 1_500_000.0, "tiny": 0.000_05, "on": true,
        "text": "hi", "list": ["a", "<b>"], "when": "2024-05-01T11:58:00Z", "nil": null}});
    let cases = [
        ("integer", ".spec.weight", json!(30), "a whole number"),
        ("integer", ".spec.ratio", json!(0), "cut towards zero"),
        ("integer", ".spec.text", json!(null), "no number at all"),
        ("number", ".spec.ratio", json!(0.5), "a broken number"),
        ("boolean", ".spec.on", json!(true), "a truth"),
        ("boolean", ".spec.text", json!(null), "no truth"),
        ("string", ".spec.text", json!("hi"), "a text"),
        ("string", ".spec.weight", json!("30"), "a number as text"),
        ("string", ".spec.ratio", json!("0.5"), "a broken one as text"),
        ("string", ".spec.big", json!("1.5e+06"), "a large one as Go writes it"),
        ("string", ".spec.tiny", json!("5e-05"), "a small one as Go writes it"),
        ("string", ".spec.on", json!("true"), "a truth as text"),
        ("string", ".spec.list", json!(r#"["a","\u003cb\u003e"]"#), "a list as JSON"),
        ("string", ".spec.nil", json!("<no value>"), "a present null"),
        ("string", ".spec.gone", json!(null), "nothing there"),
        ("date", ".metadata.creationTimestamp", json!("5m"), "an age"),
        ("date", ".spec.when", json!("2m"), "another age"),
        ("date", ".spec.text", json!("<invalid>"), "no date"),
        ("date", ".spec.weight", json!(null), "not even a text"),
        ("date", ".spec.gone", json!(null), "no value"),
    ];
    for (type_, path, want, reason) in cases {
        let layout = Layout::custom(vec![custom(type_, path)]);
        assert_eq!(layout.cells(&object, now()), [json!("x"), want], "{type_} {path}: {reason}");
    }
}

#[test]
fn a_custom_resource_without_columns_shows_its_age() {
    let layout = Layout::custom(Vec::new());
    let names: Vec<_> = layout.columns().into_iter().map(|c| (c.name, c.type_)).collect();
    assert_eq!(names, [("Name".into(), "string".into()), ("Age".into(), "date".into())]);
    assert_eq!(layout.cells(&json!({"metadata": meta()}), now()), [json!("x"), json!("5m")]);
    let undescribed = Layout::custom(vec![custom("string", ".spec.x")]).columns();
    let described = undescribed.last().map(|column| column.description.as_str());
    assert_eq!(described, Some("Custom resource definition column (in JSONPath format): .spec.x"));
}

#[test]
fn a_table_carries_what_was_asked_for() {
    let list = json!({"kind": "PodList", "apiVersion": "v1",
        "metadata": {"resourceVersion": "42", "continue": "abc", "remainingItemCount": 7},
        "items": [
            pod(&one(), &json!({"phase": "Succeeded"})), pod(&one(), &json!({"phase": "Running"}))]});
    let layout = Layout::built_in("", "Pod");
    let table = to_table(&layout, &list, IncludeObject::Metadata, true, now());
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    let want = json!({"resourceVersion": "42", "continue": "abc", "remainingItemCount": 7});
    assert_eq!(table["metadata"], want);
    assert_eq!(table["columnDefinitions"][0]["format"], "name");
    assert_eq!(table["columnDefinitions"][5]["priority"], 1);
    let rows = table["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(rows[0]["object"]["metadata"], meta());
    assert_eq!(rows[0]["object"].get("spec"), None);
    assert_eq!(rows[0]["conditions"][0]["type"], "Completed");
    assert_eq!(rows[1].get("conditions"), None, "this one runs");

    let single = pod(&one(), &json!({}));
    let bare = to_table(&layout, &single, IncludeObject::None, false, now());
    assert_eq!(bare["columnDefinitions"], Value::Null, "a later event of a watch");
    assert_eq!((&bare["rows"][0]["object"], &bare["metadata"]), (&Value::Null, &json!({})));
    let whole = to_table(&layout, &single, IncludeObject::Object, true, now());
    assert_eq!(whole["rows"][0]["object"], single);
}

#[test]
fn include_object_is_read_from_the_query() {
    let cases = [
        ("", Some(IncludeObject::Metadata)),
        ("Metadata", Some(IncludeObject::Metadata)),
        ("Object", Some(IncludeObject::Object)),
        ("None", Some(IncludeObject::None)),
        ("All", None),
    ];
    for (text, want) in cases {
        assert_eq!(IncludeObject::from_query(text), want, "{text:?}");
    }
}
