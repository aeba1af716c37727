# API server, controller manager and kubectl, from Kubernetes' published modules.
version=v1.36.3

obtain() {
    local minor=${version#v1.} stamps=() package
    # A build from modules has no version of its own, and `kubectl version` fails without one.
    for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        stamps+=(-X "$package.gitVersion=$version" -X "$package.gitMajor=1")
        stamps+=(-X "$package.gitMinor=${minor%.*}" -X "$package.gitTreeState=clean")
    done
    go_build "$1" "${stamps[*]}" k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager,kubectl}
}

check() {
    says "Kubernetes $version" "$1/kube-apiserver" --version
    says "Kubernetes $version" "$1/kube-controller-manager" --version
    says "Client Version: $version" "$1/kubectl" version --client
}
