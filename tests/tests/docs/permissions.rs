//! `permissions.md`: the rules of the shipped role, and their reasons.

use std::fmt::Write as _;

use tidegate_operator::install::{Rule, game_rules, rules};

use crate::markdown::{code, table};

const INTRO: &str = "\
# Permissions

What the ClusterRole of `tidegate install` lets the operator do, in every namespace. A test runs whole rollouts on every provider under it and fails
when a request is denied, and when something is granted that no rollout uses.

";

const GAME: &str = "
## Game workloads

The ClusterRole `tidegate-game`, for [GameDeployment and GameStatefulSet](../guide/game-workloads.md). Where there are none it can be left out.

";

const OUTRO: &str = "
In its own namespace it may also create the lease `flagger-leader-election`, read and update it. What every account of a cluster may read, the list of served
kinds and their schemas, needs no line here.

No request uses `update` of finalizers: the admission plugin `OwnerReferencesPermissionEnforcement`, which some clusters turn on, asks for it before it lets anybody name an owner that
must wait for what it owns. It also lets nobody change the owners of an object who may not delete it, and this role deletes neither workloads nor scalers: a primary that is found with other
owners than its canary is promoted all the same, its owners stay who they are, and the log says so.

Nodes are in no namespace. An operator that may act in one namespace alone (`--namespace`, with a Role of yours), or runs with Flagger's role, does without them: it says so once in its log, and the
addresses of nodes are open to what canaries name until `--deny-addresses` closes their ranges. Game workloads wait until nodes can be seen: which pods are lost cannot be told otherwise.

Secrets are watched because a changed Secret is a new release. They are hashed as they arrive, and only the hash is kept; those that a
rollout needs, such as the token of a chat, are read by name at that moment.
";

pub(crate) fn page() -> String {
    let rows: Vec<_> = rules().iter().map(row).collect();
    let rows = table(["Group", "Resource", "Verbs", "What for"], &rows);
    let mut text = INTRO.to_owned();
    let game: Vec<_> = game_rules().iter().map(row).collect();
    let game = table(["Group", "Resource", "Verbs", "What for"], &game);
    write!(text, "{rows}{OUTRO}{GAME}{game}").unwrap();
    text
}

fn row(rule: &Rule) -> [String; 4] {
    let group = if rule.group.is_empty() { "core" } else { rule.group };
    [code(group), code(&rule.resource), rule.verbs.join(", "), purpose(rule).to_owned()]
}

/// A resource without a line here fails the test that writes the page.
fn purpose(rule: &Rule) -> &'static str {
    match rule.group {
        "appmesh.k8s.aws" => return "traffic with App Mesh",
        "serving.knative.dev" => return "traffic with Knative",
        _ => {}
    }
    match rule.resource.as_str() {
        "gamedeployments" | "gamestatefulsets" => {
            "what is to be run and released; `paused`, `retry` and what a person asked for"
        }
        "gamedeployments/status" | "gamestatefulsets/status" => "where a release stands",
        "hooktemplates" => "what is measured",
        "hookruns" => "measurements that are taken",
        "hookruns/status" => "what came of them",
        "pods" => "the pods of a workload",
        "pods/status" => "the condition `InPlaceUpdateReady`",
        "nodes" => {
            "addresses that hooks, metrics and alerts may not reach; for game workloads, costs of deletion and nodes that are lost"
        }
        "controllerrevisions" => "templates as they were",
        "persistentvolumeclaims" => "claims of numbered pods",
        "canaries" => "what is to be released; the finalizer, and `manualStep` when it is used up",
        "canaries/status" => "where a rollout stands",
        "canaries/finalizers" | "gamedeployments/finalizers" | "gamestatefulsets/finalizers" => {
            "to be the owner of what is made for it"
        }
        "metrictemplates" | "alertproviders" => "what canaries refer to",
        "deployments" => "the target's scale; the primary",
        "daemonsets" => "the target's node selector; the primary",
        "scaledobjects" => "the primary's, with KEDA; the target's while it is parked",
        "services" => "the apex, primary and canary Services",
        "horizontalpodautoscalers" => "the primary's autoscaler; the target's while it is parked",
        "configmaps" => "the primary's copies of what the target reads",
        "secrets" => "the same, and the promoted template",
        "events" => "what happened",
        "endpointslices" => "which requests the canary answered, with APISIX",
        "httproutes" | "grpcroutes" => "traffic with Gateway API",
        "virtualservices" | "destinationrules" => "traffic with Istio",
        "trafficsplits" => "traffic with Linkerd, Open Service Mesh and others of SMI",
        "httpproxies" => "traffic with Contour",
        "ingresses" => "traffic with the NGINX ingress controller and Skipper",
        "upstreams" | "routetables" => "traffic with Gloo",
        "traefikservices" => "traffic with Traefik",
        "trafficroutes" | "meshhttproutes" => "traffic with Kuma",
        "apisixroutes" => "traffic with APISIX",
        other => panic!("`{other}` is granted and not explained"),
    }
}
