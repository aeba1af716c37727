# Istio's custom resource definitions, read from its published module.
version=v1.31.1

obtain() {
    local module
    module=$(module_folder istio.io/api)
    cp "$module/kubernetes/customresourcedefinitions.gen.yaml" "$1"
    chmod u+w "$1"/*
}

check() {
    grep -q 'name: virtualservices.networking.istio.io' "$1"/*.yaml || fail "no VirtualService among Istio's kinds"
}
