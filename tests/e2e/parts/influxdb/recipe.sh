# InfluxDB, from its published module. This is the last version that answers Flux over `/api/v2/query`, as
# version 2 does, and needs Go alone: from 1.8 on a part of Flux is Rust, and is built by other means than
# Go's. Debian's package is 1.6, which has no Flux.
version=v1.7.11

obtain() { go_build "$1" "-X main.version=${version#v}" github.com/influxdata/influxdb/cmd/influxd; }

check() { says "InfluxDB v${version#v}" "$1/influxd" version; }
