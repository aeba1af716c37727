# Graphite: carbon, which takes samples, and graphite-web, which answers. From PyPI, by hash.
version=1.1.10
# The versions for graphite-web's Django and the compiled packages of requirements.txt.
python=3.11

obtain() {
    local python3
    python3=$(find_python)
    "$python3" -m pip --version >/dev/null 2>&1 || fail "pip is missing for $python3"
    note "fetching graphite $version from PyPI"
    "$python3" -m pip --quiet --disable-pip-version-check --no-input install --no-deps --no-compile \
        --root-user-action ignore --require-hashes --requirement requirements.txt --target "$1/lib" ||
        fail "PyPI did not give what requirements.txt names"
    cp serve.py "$1"
    program "$1/carbon" "$python3" lib/bin/carbon-cache.py
    program "$1/graphite-web" "$python3" serve.py
}

# Any Python of that version: the one on PATH, Debian 12's, or the one that was asked for.
find_python() {
    local candidate
    for candidate in "${TIDEGATE_E2E_PYTHON:-}" python3 "python$python" "/usr/bin/python$python"; do
        if [ -n "$candidate" ] && says_version "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    fail "graphite needs Python $python: install it and set TIDEGATE_E2E_PYTHON to it," \
        "or set TIDEGATE_E2E_GRAPHITE to a folder with programs carbon and graphite-web"
}

says_version() { [[ $("$1" --version 2>/dev/null) == "Python $python".* ]]; }

# Makes a program that finds its packages beside itself: program FILE PYTHON SCRIPT
program() {
    cat >"$1" <<SCRIPT
#!/bin/sh
# Started by tests; the folder of its data is in their environment and arguments.
here=\$(cd "\$(dirname "\$0")" && pwd)
export PYTHONPATH="\$here/lib:\$here/lib/opt/graphite/lib:\$here/lib/opt/graphite/webapp"
export PYTHONDONTWRITEBYTECODE=1
exec $2 "\$here/$3" "\$@"
SCRIPT
    chmod +x "$1"
}

check() {
    says "carbon-cache" "$1/carbon" --help
    says "$version" "$1/graphite-web" --version
}
