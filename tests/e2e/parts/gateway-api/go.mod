// Names the module the Gateway API's definitions are read from. Nothing is built.
module tidegate/tests/e2e/parts/gateway-api

go 1.26.0

require sigs.k8s.io/gateway-api v1.5.1
