# Flagger and its load tester, from their published module, with the manifests of its documentation and of its
# end-to-end tests. They are only read by suites, and nothing of it is kept in this repository.
version=v1.44.0

obtain() {
    local module
    go_build "$1" "" github.com/fluxcd/flagger/cmd/{flagger,loadtester}
    module=$(module_folder github.com/fluxcd/flagger)
    cp -r "$module"/{artifacts,charts,docs,kustomize,test} "$1"
    chmod -R u+w "$1"
}

check() {
    says "Flagger version ${version#v} " "$1/flagger" -version
    grep -q 'name: canaries.flagger.app' "$1/artifacts/flagger/crd.yaml" || fail "no definitions of Flagger's kinds"
}
