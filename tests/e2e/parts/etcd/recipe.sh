# etcd, from its published module. Debian's `etcd-server` from 3.5.16 on does as well:
# unpack it and set TIDEGATE_E2E_ETCD to the folder with the program.
version=v3.6.8

obtain() {
    go_build "$1" "" go.etcd.io/etcd/server/v3
    mv "$1/server" "$1/etcd"
}

check() { says "etcd Version: ${version#v}" "$1/etcd" --version; }
