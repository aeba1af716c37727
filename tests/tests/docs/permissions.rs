//! `permissions.md`: the rules of the shipped role, and their reasons.

use std::fmt::Write as _;

use tidegate_operator::install::{Rule, Scope, game_rules, rules};

use crate::markdown::{code, table};

const INTRO: &str = "\
# Permissions

The ClusterRole of `tidegate install` grants the operator these permissions, in every namespace. A
test runs whole rollouts on every provider with them. It fails if a request is denied, and if a
permission is granted that no rollout uses. The same test runs for the smallest role, with all flags
of [the next section](#leave-out-what-is-not-used).

";

const GAME: &str = "
## Game workloads

The ClusterRole `tidegate-game` is for [GameDeployment and
GameStatefulSet](../guide/game-workloads.md). `--without-game` leaves it out.

";

const OUTRO: &str = "
The operator may also create, read and update the Lease `flagger-leader-election` in its own
namespace. The list of served kinds and their schemas is readable by every account of a cluster and
needs no rule.

**Finalizers.** No request uses `update` of finalizers. The admission plugin
`OwnerReferencesPermissionEnforcement`, which some clusters enable, requires it for owner references
that block the owner's deletion.

That plugin also requires the permission to delete an object for a change of its owner references.
This role deletes neither workloads nor scalers. A primary with other owners than its canary is
therefore promoted with its owners unchanged, and the log says so.

**Nodes** are cluster-scoped. An operator that may not list them, such as one with Flagger's role,
works without them. It logs this once, and hooks, metrics and alerts can then reach the addresses of
nodes until `--deny-addresses` refuses their ranges. Game workloads wait until the operator can list
nodes, because it must know which pods are lost.

## Leave out what is not used

Three flags of `tidegate install` make the roles smaller, and tell the operator so.

| Flag | Left out | Consequence |
| --- | --- | --- |
| `--without-game` | the CRDs of game workloads and the role `tidegate-game`: every permission to create, change or delete pods | `--enable-game-workloads=false`: GameDeployments are ignored, also those that another controller runs |
| `--without-config-tracking` | all permissions for ConfigMaps; `list`, `watch` and `delete` of Secrets | `--enable-config-tracking=false`: a changed ConfigMap or Secret starts no rollout, and primaries mount the target's own. Copies of earlier promotions stay until their canary is deleted |
| `--namespaced` | all ClusterRoles but `tidegate-nodes`, which reads nodes | `--namespace`: the operator lives in the namespace that it watches, and has a Role there. Canaries elsewhere are ignored. The kinds of Kuma are cluster-scoped, so it needs an operator without this flag |

`--namespaced` installs of several namespaces share the CRDs, which are cluster-scoped, and the
ClusterRole `tidegate-nodes`. `--without-crds` leaves the CRDs to another install. Without the right
to create ClusterRoles, delete that role and its binding from the output: see *Nodes*.

`kubectl apply` deletes no role that the new output lacks. After a change to `--without-game`:

```sh
kubectl delete clusterrole,clusterrolebinding tidegate-game
```

After a change to `--namespaced`, also delete `tidegate`.

## Secrets

| Permission | Purpose | Bounded by |
| --- | --- | --- |
| `list`, `watch` | a changed Secret is a new revision; copies that no primary mounts are found | `--without-config-tracking` removes it, `--namespaced` confines it |
| `get` | the Secret that is copied; the promoted template; logins of metric templates, alert providers and hooks | `--namespaced` confines it |
| `create`, `patch` | the primary's copies, and the promoted template in `<target>-primary-promoted` | `--namespaced` confines it |
| `delete` | copies that no primary mounts, and those whose `type` changes | as `list` |

Secrets are hashed on arrival, and only the hash is kept. A Secret that a rollout needs, such as the
token of a chat, is read by name at that moment.

These permissions cannot be narrower. RBAC bounds `list` and `watch` by Role and by
`resourceNames`, never by label, and targets name Secrets that do not exist at installation. To read
each Secret by name at intervals would take its place, but then every idle canary would send
requests. `get` without `list` reads any Secret whose name is known.
";

pub(crate) fn page() -> String {
    let rows: Vec<_> = rules(Scope::default()).iter().map(row).collect();
    let rows = table(["Group", "Resource", "Verbs", "Purpose"], &rows);
    let mut text = INTRO.to_owned();
    let game: Vec<_> = game_rules().iter().map(row).collect();
    let game = table(["Group", "Resource", "Verbs", "Purpose"], &game);
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
            "the workloads; `paused`, `retry` and requests by annotation"
        }
        "gamedeployments/status" | "gamestatefulsets/status" => "the status of a release",
        "hooktemplates" => "definitions of hooks",
        "hookruns" => "runs of hooks",
        "hookruns/status" => "results of runs",
        "pods" if rule.verbs == ["list"] => "the cause while pods do not become ready",
        "pods" => "the pods of a workload",
        "pods/status" => "the condition `InPlaceUpdateReady`",
        "nodes" => {
            "addresses that hooks, metrics and alerts may not reach; for game workloads, deletion costs and lost nodes"
        }
        "controllerrevisions" => "previous templates",
        "persistentvolumeclaims" => "claims of stateful pods",
        "canaries" => "the canaries; the finalizer, and the removal of `manualStep`",
        "canaries/status" => "the status of a rollout",
        "canaries/finalizers" | "gamedeployments/finalizers" | "gamestatefulsets/finalizers" => {
            "owner references to it"
        }
        "metrictemplates" | "alertproviders" => "references of canaries",
        "deployments" => "the target's scale; the primary",
        "daemonsets" => "the target's node selector; the primary",
        "scaledobjects" => "the primary's, with KEDA; the target's while it is scaled to zero",
        "services" => "the apex, primary and canary Services",
        "horizontalpodautoscalers" => {
            "the primary's autoscaler; the target's while it is scaled to zero"
        }
        "configmaps" => "the primary's copies of the target's configuration",
        "secrets" => "copies of the configuration, and the promoted template",
        "events" => "events of canaries",
        "endpointslices" => "the canary's addresses, for metrics of APISIX",
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
