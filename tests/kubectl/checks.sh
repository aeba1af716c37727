# Checks of kubectl, one a line. Settings: KUBECTL, WORK, MANIFESTS. Against another cluster than the
# sandbox, NODE is the prefix of its nodes' names, and ADMIN our user. With TRANSCRIPT, the output of each
# command goes to that file.
set -uo pipefail
passed=0 failed=0
node=${NODE:-sandbox} admin=${ADMIN:-kubernetes-admin} transcript=${TRANSCRIPT:-/dev/null}
# Awaited states come within seconds; on a busy machine it may take a hundred times as long.
patience=120
k() { timeout $((patience + 60)) "$KUBECTL" "$@"; }

note() { # name output
    printf '== %s\n%s\n' "$1" "$2" >>"$transcript"
}

report() { # name status output
    if [ "$2" = ok ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED: %s\n%s\n\n' "$1" "$(sed 's/^/    /' <<<"$3" | head -30)"
    fi
}

# has NAME PATTERN COMMAND...: succeeds, and the output matches.
has() { attempts=1 soon "$@"; }

# soon NAME PATTERN COMMAND...: the same, for a state that follows from the last command in a moment.
soon() {
    local name=$1 pattern=$2 out left=${attempts:-$((patience * 5))}
    shift 2
    until out=$("$@" 2>&1) && grep -qE -- "$pattern" <<<"$out"; do
        left=$((left - 1))
        if [ "$left" -le 0 ]; then
            report "$name" no "wanted /$pattern/ from: $*
$out"
            note "$name" "$out"
            return
        fi
        sleep 0.2
    done
    report "$name" ok
    note "$name" "$out"
}

# fails NAME PATTERN COMMAND...: exits non-zero, and the output matches.
fails() {
    local name=$1 pattern=$2 out
    shift 2
    if out=$("$@" 2>&1); then report "$name" no "should have failed: $*
$out"; elif grep -qE -- "$pattern" <<<"$out"; then report "$name" ok; else
        report "$name" no "wanted /$pattern/ from: $*
$out"
    fi
    note "$name" "$out"
}

same() { # NAME WANT COMMAND...
    local name=$1 want=$2 out
    shift 2
    out=$("$@" 2>&1)
    if [ "$out" = "$want" ]; then report "$name" ok; else report "$name" no "wanted: $want
got: $out"; fi
    note "$name" "$out"
}

m=$MANIFESTS

# Only with `permissions`, against a sandbox that checks them.
if [ "${1:-}" = permissions ]; then
    has 'the administrator may' '^yes$' k auth can-i '*' '*'
    has 'create a role' 'created' k create role reader --verb=get,list --resource=pods
    has 'bind it' 'created' k create rolebinding jane --role=reader --user=jane
    has 'jane may list' '^yes$' k auth can-i list pods --as=jane
    fails 'jane may not delete' '^no' k auth can-i delete pods --as=jane
    has 'run' 'created' k run p --image=p:1
    has 'jane lists' '^p ' k get pods --as=jane
    fails 'jane is refused' 'Forbidden.*User "jane" cannot delete resource "pods" in API group "" in the namespace "default"' k delete pod p --as=jane
    fails 'elsewhere too' 'cannot list resource "pods".*in the namespace "kube-system"' k -n kube-system get pods --as=jane
    has 'jane sees what she may' 'pods .*\[get list\]' k auth can-i --list --as=jane
    has 'an account of its own' 'created' k create serviceaccount bot
    fails 'has no rights' 'forbidden' k get secrets --as=system:serviceaccount:default:bot
    has 'until it is given some' 'created' k create rolebinding bot --clusterrole=view --serviceaccount=default:bot
    has 'and then it has' '^p ' k get pods --as=system:serviceaccount:default:bot
    fails 'but not more' 'forbidden' k get secrets --as=system:serviceaccount:default:bot
    has 'whoami' 'jane' k auth whoami --as=jane
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
fi

# Discovery
has 'version' 'Server Version: v1\.' k version
has 'cluster-info' 'is running at' k cluster-info
has 'api-resources lists built-ins' '^deployments +deploy +apps/v1 +true +Deployment' k api-resources
has 'api-resources lists ours' '^canaries +flagger.app/v1beta1 +true +Canary' k api-resources
has 'api-resources lists short names' '^gamedeployments +gd +tkex.tencent.com/v1alpha1' k api-resources
has 'api-versions' '^flagger.app/v1beta1$' k api-versions
has 'explain canary.spec' 'analysis' k explain canary.spec
has 'explain canary.spec.analysis.stepWeight' 'FIELD: stepWeight <(integer|number)>' k explain canary.spec.analysis.stepWeight
has 'explain deployment.spec' 'progressDeadlineSeconds' k explain deployment.spec
has 'explain --recursive' 'maxSurge' k explain deployment.spec.strategy --recursive
has 'get nodes' "^$node-0 +Ready" k get nodes
has 'get nodes -o wide' 'INTERNAL-IP' k get nodes -o wide
has 'get namespaces' '^kube-system +Active' k get ns

# create: typed commands send protobuf
has 'create namespace' 'namespace/shop created' k create namespace shop
has 'create configmap' 'configmap/settings created' k -n shop create configmap settings --from-literal=colour=blue
same 'configmap value' blue k -n shop get cm settings -o 'jsonpath={.data.colour}'
has 'create secret' 'secret/token created' k -n shop create secret generic token --from-literal=key=value
same 'secret value' dmFsdWU= k -n shop get secret token -o 'jsonpath={.data.key}'
has 'create deployment' 'deployment.apps/web created' k -n shop create deployment web --image=web:1.0 --replicas=3 --port=8080
has 'rollout status' 'successfully rolled out' k -n shop rollout status deployment web
has 'create service' 'service/clip created' k -n shop create service clusterip clip --tcp=80:8080
has 'create serviceaccount' 'serviceaccount/bot created' k -n shop create serviceaccount bot
has 'create role' 'role.rbac.authorization.k8s.io/reader created' k -n shop create role reader --verb=get,list --resource=pods
has 'create rolebinding' 'created' k -n shop create rolebinding read --role=reader --serviceaccount=shop:bot
has 'create token' '.' k -n shop create token bot
has 'expose' 'service/web exposed' k -n shop expose deployment web --port=80 --target-port=8080
fails 'create twice' 'AlreadyExists.*already exists' k create namespace shop
fails 'create in no namespace' 'namespaces "nowhere" not found' k -n nowhere create configmap x

# get
has 'get pods' '^web-[a-z0-9]+-[a-z0-9]{5} +1/1 +Running +0 ' k -n shop get pods
has 'get pods -o wide' "web-.* 10\.24[4-7]\.[0-9.]+ +$node-[01] " k -n shop get pods -o wide
has 'get deployment' '^web +3/3 +3 +3 ' k -n shop get deploy
has 'get all' 'replicaset.apps/web-' k -n shop get all
has 'get -A' '^shop +web ' k get deployments -A
has 'get -l' 'web-' k -n shop get pods -l app=web
has 'get -l without match' 'No resources found in shop namespace' k -n shop get pods -l app=other
has 'get --field-selector' 'web-' k -n shop get pods --field-selector status.phase=Running
has 'get -o yaml' '^kind: Deployment$' k -n shop get deploy web -o yaml
same 'get -o jsonpath' 3 k -n shop get deploy web -o 'jsonpath={.status.readyReplicas}'
has 'get -o name' '^deployment.apps/web$' k -n shop get deploy -o name
has 'get custom-columns' '^web +web:1.0' k -n shop get deploy -o custom-columns=N:.metadata.name,I:.spec.template.spec.containers[0].image
has 'get --sort-by' 'web' k -n shop get pods --sort-by=.metadata.creationTimestamp
has 'get several kinds' 'service/web' k -n shop get deploy,svc
soon 'get endpointslices' '10\.24[4-7]\.' k -n shop get endpointslices
fails 'get what is not there' 'deployments.apps "ghost" not found' k -n shop get deploy ghost
fails 'get an unknown kind' "doesn't have a resource type \"ghosts\"" k get ghosts
has 'get --raw' '"gitVersion"' k get --raw /version
k -n shop get pods -w --output-watch-events >"$WORK/watch" 2>&1 &
watch=$!
soon 'get -w begins with what is there' '^3$' grep -c '^ADDED' "$WORK/watch"

# Changes
has 'scale' 'deployment.apps/web scaled' k -n shop scale deployment web --replicas=5
has 'wait for jsonpath' 'condition met' k -n shop wait deploy/web --for=jsonpath='{.status.readyReplicas}'=5 --timeout=${patience}s
has 'wait for condition' 'condition met' k -n shop wait deploy/web --for=condition=Available --timeout=${patience}s
fails 'wait times out' 'timed out' k -n shop wait deploy/web --for=condition=Never --timeout=1s
# Both of them: the output of a watch is compared when it is whole.
soon 'both new pods run' '^[2-9]$' grep -cE '^MODIFIED +web-[^ ]+ +1/1 +Running' "$WORK/watch"
has 'get -w shows new pods run' 'MODIFIED +web-[^ ]+ +1/1 +Running' cat "$WORK/watch"
has 'get -w shows changes' 'ADDED +web-' cat "$WORK/watch"
kill "$watch" 2>/dev/null; wait "$watch" 2>/dev/null
has 'set image' 'image updated' k -n shop set image deployment/web web=web:2.0
has 'rollout status after set image' 'successfully rolled out' k -n shop rollout status deploy/web
same 'pods run the new image' 'web:2.0 5' k -n shop get rs -l app=web -o 'jsonpath={range .items[?(@.status.readyReplicas>0)]}{.spec.template.spec.containers[0].image} {.status.readyReplicas}{end}'
has 'rollout history' '^2 ' k -n shop rollout history deployment web
has 'rollout history --revision' 'web:1.0' k -n shop rollout history deployment web --revision=1
has 'rollout undo' 'rolled back' k -n shop rollout undo deployment web
has 'rollout status after undo' 'successfully rolled out' k -n shop rollout status deploy/web
same 'undo brought the old image back' web:1.0 k -n shop get deploy web -o 'jsonpath={.spec.template.spec.containers[0].image}'
has 'rollout pause' 'paused' k -n shop rollout pause deployment web
has 'rollout resume' 'resumed' k -n shop rollout resume deployment web
has 'rollout restart' 'restarted' k -n shop rollout restart deployment web
has 'rollout status after restart' 'successfully rolled out' k -n shop rollout status deploy/web
has 'label' 'labeled' k -n shop label deploy web tier=front
same 'label is there' front k -n shop get deploy web -o 'jsonpath={.metadata.labels.tier}'
has 'label removed' 'unlabeled' k -n shop label deploy web tier-
fails 'bad label' 'Invalid value|invalid label' k -n shop label deploy web 'tier=-bad-'
has 'annotate' 'annotated' k -n shop annotate deploy web note=hello
has 'patch merge' 'patched' k -n shop patch deploy web --type merge -p '{"spec":{"minReadySeconds":1}}'
has 'patch json' 'patched' k -n shop patch deploy web --type json -p '[{"op":"replace","path":"/spec/minReadySeconds","value":0}]'
has 'patch strategic' 'patched' k -n shop patch deploy web -p '{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"A","value":"1"}]}]}}}}'
same 'strategic patch kept the image' web:1.0 k -n shop get deploy web -o 'jsonpath={.spec.template.spec.containers[0].image}'
fails 'patch with a bad value' 'must be greater than or equal to 0' k -n shop patch deploy web -p '{"spec":{"replicas":-1}}'
fails 'patch of an immutable field' 'field is immutable' k -n shop patch deploy web --type json -p '[{"op":"replace","path":"/spec/selector/matchLabels","value":{"app":"other"}}]'
fails 'json patch test' 'rejected|test' k -n shop patch deploy web --type json -p '[{"op":"test","path":"/spec/replicas","value":99}]'
has 'set env' 'env updated' k -n shop set env deployment/web MODE=fast
has 'set resources' 'resource requirements updated' k -n shop set resources deployment/web --limits=cpu=200m,memory=64Mi
has 'autoscale' 'autoscaled' k -n shop autoscale deployment web --min=2 --max=6 --cpu-percent=80
printf '#!/bin/sh\nsed -i "s/hello/edited/" "$1"\n' >"$WORK/editor"; chmod +x "$WORK/editor"
has 'edit' 'deployment.apps/web edited' env KUBE_EDITOR="$WORK/editor" "$KUBECTL" -n shop edit deploy web
same 'edit took' edited k -n shop get deploy web -o 'jsonpath={.metadata.annotations.note}'
# The workloads described below must have come to rest, with the last old pod gone.
has 'rollout status after all changes' 'successfully rolled out' k -n shop rollout status deploy/web
soon 'old pods have gone' '^5$' bash -c "$KUBECTL -n shop get pods -l app=web -o name | wc -l"

# apply, client side
has 'apply creates' 'deployment.apps/api created' k apply -f "$m/app.yaml"
has 'apply again' 'deployment.apps/api unchanged' k apply -f "$m/app.yaml"
has 'diff without a difference' '^$' bash -c "$KUBECTL diff -f $m/app.yaml && echo"
has 'apply a change' 'deployment.apps/api configured' bash -c "sed 's/api:1.0/api:1.1/' $m/app.yaml | $KUBECTL apply -f -"
fails 'diff shows a difference' '^\+.*api:1.0' k diff -f "$m/app.yaml"
has 'apply --dry-run=server' 'configured \(server dry run\)' k apply --dry-run=server -f "$m/app.yaml"
same 'a dry run changes nothing' api:1.1 k get deploy api -o 'jsonpath={.spec.template.spec.containers[0].image}'
has 'apply removes what left the manifest' 'configured' bash -c "grep -v 'tier: backend' $m/app.yaml | $KUBECTL apply -f -"
same 'it is gone' '' k get deploy api -o 'jsonpath={.metadata.labels.tier}'
fails 'apply with an unknown field' 'unknown field "spec.replica"' k apply -f "$m/bad-field.yaml"
fails 'apply with a bad type' 'replicas|cannot' bash -c "sed 's/replicas: 2/replicas: many/' $m/app.yaml | $KUBECTL apply -f -"
has 'replace' 'replaced' k replace -f "$m/app.yaml"
fails 'replace what is not there' 'not found' bash -c "sed 's/name: api/name: ghost/' $m/app.yaml | $KUBECTL replace -f -"

# apply, server side
has 'apply --server-side creates' 'configmap/shared serverside-applied' k apply --server-side --field-manager=one -f "$m/shared.yaml"
fails 'a conflict is refused' 'conflict with "one".*|conflicts? with "one"' bash -c "sed 's/blue/red/' $m/shared.yaml | $KUBECTL apply --server-side --field-manager=two -f -"
has 'a conflict can be forced' 'serverside-applied' bash -c "sed 's/blue/red/' $m/shared.yaml | $KUBECTL apply --server-side --force-conflicts --field-manager=two -f -"
same 'the forced value' red k get cm shared -o 'jsonpath={.data.colour}'
has 'apply --server-side of a client-side object' 'serverside-applied' k apply --server-side -f "$m/app.yaml"
has 'managed fields' 'manager: two' k get cm shared -o yaml --show-managed-fields

# Custom resources
has 'apply a Canary' 'canary.flagger.app/api created' k apply -f "$m/canary.yaml"
has 'get canary' '^api ' k get canary
has 'get canary -o wide' 'STEPWEIGHT' k get canary -o wide
has 'apply a changed Canary' 'configured' bash -c "sed 's/stepWeight: 10/stepWeight: 20/' $m/canary.yaml | $KUBECTL apply -f -"
same 'the change is there' 20 k get canary api -o 'jsonpath={.spec.analysis.stepWeight}'
has 'apply --server-side a Canary' 'serverside-applied' k apply --server-side --force-conflicts -f "$m/canary.yaml"
fails 'a Canary with an unknown field' 'unknown field "spec.analysiss"' bash -c "sed 's/analysis:/analysiss:/' $m/canary.yaml | $KUBECTL apply -f -"
fails 'a Canary with a bad enum' 'Unsupported value|unsupported' bash -c "sed 's/kind: Deployment/kind: Pod/' $m/canary.yaml | $KUBECTL apply -f -"
has 'patch a Canary' 'patched' k patch canary api --type merge -p '{"spec":{"manualStep":{"weight":10}}}'
fails 'a bound is kept' 'manualStep.weight' k patch canary api --type merge -p '{"spec":{"manualStep":{"weight":101}}}'
fails 'no strategic merge for a Canary' 'UnsupportedMediaType|unknown format|not supported' k patch canary api --type strategic -p '{"spec":{"suspend":true}}'
has 'patch --subresource=status' 'patched' k patch canary api --subresource=status --type merge -p '{"status":{"phase":"Progressing","canaryWeight":10,"failedChecks":0,"iterations":0}}'
has 'printer columns show status' '^api +Progressing +10' k get canary
has 'describe a Canary' 'Step Weight' k describe canary api
has 'apply a GameDeployment' 'created' k apply -f "$m/game.yaml"
same 'JSON patch of a stored default' false bash -c "$KUBECTL patch gd game --type=json -p='[{\"op\":\"replace\",\"path\":\"/spec/updateStrategy/paused\",\"value\":false}]' >/dev/null; $KUBECTL get gd game -o jsonpath={.spec.updateStrategy.paused}"
has 'scale a custom resource' 'scaled' k scale gamedeployment game --replicas=2
has 'get crd' 'canaries.flagger.app' k get crd
has 'wait for an established CRD' 'condition met' k wait crd/canaries.flagger.app --for=condition=Established --timeout=${patience}s
has 'a CRD of the user' 'created' k apply -f "$m/crd.yaml"
soon 'and its objects' 'widget.example.com/one created' k apply -f "$m/widget.yaml"
has 'with its columns' '^one +7' k get widgets
same 'with its defaults' small k get widget one -o 'jsonpath={.spec.size}'
fails 'with its CEL rule' 'count must not shrink' k patch widget one --type merge -p '{"spec":{"count":1}}'

# Details
has 'describe deployment' 'StrategyType: +RollingUpdate' k -n shop describe deployment web
has 'describe shows events' 'ScalingReplicaSet' k -n shop describe deployment web
has 'describe pod' "Node: +$node-" bash -c "$KUBECTL -n shop describe \$($KUBECTL -n shop get pods -o name | head -1)"
soon 'describe service' 'Endpoints: +10\.24[4-7]\..* \+ 2 more' k -n shop describe service web
has 'describe node' 'Allocatable' k describe node "$node-0"
has 'describe configmap' 'colour' k -n shop describe cm settings
# It reads metrics every quarter of a minute, and reports then that there are none.
soon 'the autoscaler has looked' 'SucceededGetScale' k -n shop get hpa web -o 'jsonpath={.status.conditions[*].reason}'
soon 'describe hpa' 'Warning +FailedGetResourceMetric' k -n shop describe hpa web
has 'get hpa' '^web +Deployment/web ' k -n shop get hpa
has 'describe namespace' 'Status: +Active' k describe ns shop
has 'events' 'ScalingReplicaSet' k -n shop events
has 'events --for' 'ScalingReplicaSet' k -n shop events --for deployment/web
has 'get events' 'ScalingReplicaSet' k -n shop get events
has 'logs' '.' k -n shop logs deploy/web
has 'logs --tail' '.' k -n shop logs deploy/web --tail=1
has 'auth can-i' '^yes$' k auth can-i create deployments
has 'auth whoami' "$admin" k auth whoami
has 'auth can-i --list' '\*' k auth can-i --list

# A bad image, and back
has 'set a bad image' 'image updated' k set image deployment/api api=api:image-pull-error
fails 'its rollout does not finish' 'timed out|error' k rollout status deploy/api --timeout=3s
# The last retry: the states before it depend on time.
soon 'pods say why' 'ImagePullBackOff' k get pods -l app=api
has 'undo mends it' 'rolled back' k rollout undo deployment api
has 'rollout finishes' 'successfully rolled out' k rollout status deploy/api --timeout=${patience}s

# Other workloads
has 'apply statefulset and daemonset' 'statefulset.apps/db created' k apply -f "$m/workloads.yaml"
has 'statefulset rolls out' 'roll out complete|rolling update complete' k rollout status statefulset/db --timeout=${patience}s
has 'statefulset pods have ordinals' '^db-1 ' k get pods -l app=db
has 'daemonset rolls out' 'successfully rolled out' k rollout status daemonset/agent --timeout=${patience}s
has 'restart a statefulset' 'restarted' k rollout restart statefulset/db
has 'statefulset rolls out again' 'complete' k rollout status statefulset/db --timeout=${patience}s
has 'undo a daemonset' 'rolled back|skipped rollback' bash -c "$KUBECTL set image ds/agent agent=agent:2 && $KUBECTL rollout status ds/agent --timeout=${patience}s && $KUBECTL rollout undo ds/agent"

# Nodes, single pods, and other creations
has 'run' 'pod/lone created' k run lone --image=lone:1 --restart=Never
has 'wait for a pod' 'condition met' k wait pod/lone --for=condition=Ready --timeout=${patience}s
has 'delete --now' 'deleted' k delete pod lone --now --timeout=${patience}s
has 'cordon' 'cordoned' k cordon "$node-1"
has 'get nodes shows it' 'SchedulingDisabled' k get nodes
has 'drain' 'drained' k drain "$node-1" --ignore-daemonsets --force --delete-emptydir-data --timeout=${patience}s
same 'only daemons are left there' 'agent' bash -c "$KUBECTL get pods -A --field-selector spec.nodeName=$node-1 -o jsonpath='{.items[*].metadata.labels.app}'"
has 'uncordon' 'uncordoned' k uncordon "$node-1"
has 'taint' 'tainted' k taint nodes "$node-1" slow=yes:NoSchedule
has 'untaint' 'untainted' k taint nodes "$node-1" slow-
has 'create ingress' 'created' k create ingress web --rule='example.com/*=web:80'
has 'get ingress' 'example.com' k get ingress
has 'describe ingress' 'example.com' k describe ingress web
has 'create poddisruptionbudget' 'created' k create pdb budget --selector=app=db --min-available=2
has 'get pdb' '^budget +2' k get pdb
has 'create clusterrole' 'created' k create clusterrole lister --verb=list --resource=pods,deployments.apps
has 'create clusterrolebinding' 'created' k create clusterrolebinding lister --clusterrole=lister --user=jane
has 'describe clusterrole' 'deployments.apps' k describe clusterrole lister
has 'get --chunk-size' 'kube-system' k get ns --chunk-size=1
has 'patch --dry-run=server' 'patched' k patch ns default --type merge -p '{"metadata":{"labels":{"x":"y"}}}' --dry-run=server
same 'which changed nothing' '' k get ns default -o 'jsonpath={.metadata.labels.x}'
has 'get --show-labels' 'kubernetes.io/metadata.name=default' k get ns default --show-labels
has 'get -o go-template' 'default' k get ns -o 'go-template={{range .items}}{{.metadata.name}} {{end}}'
has 'proxy of a raw path' 'ok' k get --raw '/readyz?verbose'

# Deletion
has 'delete waits' 'deleted' k delete deployment api --timeout=${patience}s
same 'its pods go with it' '' bash -c "$KUBECTL wait pod -l app=api --for=delete --timeout=${patience}s >/dev/null 2>&1; $KUBECTL get pods -l app=api -o name"
has 'delete --cascade=orphan' 'deleted' k delete deployment web -n shop --cascade=orphan
has 'orphans stay' 'replicaset' k -n shop get rs -o name
has 'delete --cascade=foreground' 'deleted' k delete statefulset db --cascade=foreground --timeout=${patience}s
same 'foreground leaves nothing' '' k get pods -l app=db -o name
has 'delete by label' 'deleted' k -n shop delete pods -l app=web --timeout=${patience}s
has 'delete by file' 'deleted' k delete -f "$m/canary.yaml"
has 'delete a CRD with its objects' 'deleted' k delete crd widgets.example.com --timeout=${patience}s
fails 'the kind is gone' "doesn't have a resource type|could not find" k get widgets
has 'wait --for=delete' '' bash -c "$KUBECTL delete cm shared --wait=false && $KUBECTL wait cm/shared --for=delete --timeout=${patience}s"
has 'delete a namespace with all in it' 'deleted' k delete namespace shop --timeout=${patience}s
fails 'the namespace is gone' 'not found' k get ns shop
fails 'default stays' 'may not be deleted|forbidden' k delete ns default

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
