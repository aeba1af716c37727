// Names the module Istio's definitions are read from. Nothing is built.
module tidegate/tests/e2e/parts/istio

go 1.26.0

require istio.io/api v1.31.1
