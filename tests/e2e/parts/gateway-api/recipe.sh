# The Gateway API's custom resource definitions, read from its published module. Those of the experimental channel,
# of which the sandbox has some fields, are in a folder of their own and installed nowhere.
version=v1.5.1

obtain() {
    local module
    module=$(module_folder sigs.k8s.io/gateway-api)
    cp "$module"/config/crd/standard/gateway.networking.k8s.io_*.yaml "$1"
    mkdir "$1/experimental"
    cp "$module"/config/crd/experimental/gateway.networking.k8s.io_{http,grpc}routes.yaml "$1/experimental"
    chmod u+w "$1"/*.yaml "$1"/experimental/*
    # A policy about upgrades of these very definitions; no kind.
    rm -f "$1"/*_vap_*.yaml
}

check() { grep -q "bundle-version: $version" "$1"/*_httproutes.yaml || fail "not gateway-api $version"; }
