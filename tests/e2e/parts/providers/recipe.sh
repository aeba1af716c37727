# Custom resource definitions of providers and scalers, read from their published modules: a folder for each.
# Those of App Mesh, APISIX, Gloo and Kuma are not there: the module proxy does not give their modules. Those of
# SMI are not either: they are written for apiextensions.k8s.io/v1beta1, which no server takes any more.
version=2026-11

modules=(
    keda=github.com/kedacore/keda/v2
    contour=github.com/projectcontour/contour
    traefik=github.com/traefik/traefik/v3
    knative=knative.dev/serving
)

# The definitions of one, in its module.
definitions() { # NAME
    case $1 in
        keda) echo config/crd/bases/keda.sh_scaledobjects.yaml ;;
        contour) echo examples/contour/01-crds.yaml ;;
        traefik) echo docs/content/reference/dynamic-configuration/kubernetes-crd-definition-v1.yml ;;
        knative) echo config/core/300-resources/service.yaml ;;
    esac
}

obtain() {
    local entry name module
    for entry in "${modules[@]}"; do
        name=${entry%%=*}
        module=$(module_folder "${entry#*=}")
        mkdir "$1/$name"
        cp "$module/$(definitions "$name")" "$1/$name/definitions.yaml"
        chmod u+w "$1/$name"/*
    done
}

check() {
    local kind
    for kind in keda/scaledobjects.keda.sh contour/httpproxies.projectcontour.io \
        traefik/traefikservices.traefik.io knative/services.serving.knative.dev; do
        grep -q "name: ${kind#*/}" "$1/${kind%%/*}/definitions.yaml" || fail "no ${kind#*/} among the definitions"
    done
}
