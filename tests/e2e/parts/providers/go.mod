// Names the modules that definitions of providers and scalers are read from. Nothing is built.
module tidegate/tests/e2e/parts/providers

go 1.26.0

require (
	github.com/kedacore/keda/v2 v2.21.0
	github.com/projectcontour/contour v1.33.8
	github.com/traefik/traefik/v3 v3.7.13
	knative.dev/serving v0.51.0
)
