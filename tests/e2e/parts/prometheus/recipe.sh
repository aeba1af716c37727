# Prometheus, from Debian's package: unpacked, not installed.
version=2.42.0
suite=bookworm

obtain() {
    need apt-get "apt, or set TIDEGATE_E2E_PROMETHEUS to a folder with prometheus and promtool"
    need dpkg dpkg
    local apt=$1/apt archives
    mkdir -p "$apt"/lists/partial "$apt"/cache/archives/partial
    # Debian's own, or a mirror of it; other archives of the machine have no such suite. Before its first
    # update apt does not know its own archives.
    archives=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -E '/debian/?$' | sort -u) ||
        archives=http://deb.debian.org/debian
    sed "s|.*|deb & $suite main|" <<<"$archives" >"$apt/sources.list"
    cat >"$apt/apt.conf" <<CONF
Dir::Etc::SourceList "$apt/sources.list";
Dir::Etc::SourceParts "-";
Dir::State::Lists "$apt/lists";
Dir::Cache "$apt/cache";
APT::Sandbox::User "$(id -un)";
CONF
    note "fetching prometheus $version from Debian $suite"
    (
        export APT_CONFIG=$apt/apt.conf
        apt-get -qq update && cd "$apt" && apt-get -qq download "prometheus/$suite" 2>"$apt/log"
    ) || fail "Debian $suite did not give prometheus: $(tail -n 1 "$apt/log" 2>/dev/null)"
    dpkg -x "$apt"/prometheus_*.deb "$apt/unpacked"
    mv "$apt"/unpacked/usr/bin/prom* "$1"
    rm -r "$apt"
}

check() {
    says "prometheus, version $version" "$1/prometheus" --version
    says "promtool, version $version" "$1/promtool" --version
}
