# `make` lists what there is.
.DEFAULT_GOAL := help
.PHONY: help test test-real lint faults fuzz bench fleet examples ci

FUZZTIME ?= 30s

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## all tests with -race; those that need a real Redis take the first they find, or are skipped
	go test -race ./...

test-real: ## the same, but fails where a real Redis is missing; not cached, one package at a time
	FLEETPACE_REQUIRE=redis go test -race -count=1 -p 1 ./...

lint: ## gofmt, go vet and golangci-lint (.golangci.yml gives the reasons)
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'run: gofmt -w .'; exit 1; }
	go vet ./...
	"$$(.ci/tool golangci-lint)" run ./...

faults: ## what breaks on a bad day, on real Redis: one line of figures per fault, about 2 minutes
	go test ./integration -count=1 -run '^TestFault$$' -v | grep -E 'FAULT|NOT JUDGED|^ *---|^ok|^FAIL'

fuzz: ## each fuzz target for FUZZTIME (default 30s)
	.ci/fuzz $(FUZZTIME)

bench: ## all benchmarks
	go test -run '^$$' -bench . -benchmem -p 1 ./...

fleet: ## fleetpace beside what people do today: one limit, 4 server processes, about a minute
	cd bench && go run ./fleet -scenario one

examples: ## run the examples on an embedded Redis and check their results
	.ci/examples

ci: ## everything that CI runs; takes about a quarter of an hour
	.ci/run
