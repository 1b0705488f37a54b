# `make` lists what there is.
.DEFAULT_GOAL := help
.PHONY: help test test-real test-alone test-histories test-rest test-local test-modules test-bench test-sdk test-aws test-models test-river test-clients test-several test-python test-browser test-packages test-release release mistakes lint lint-all vuln examples measure soak explore fuzz bench map ci race-env

# In Go 1.26 the race detector crashes in the simulated time of testing/synctest, where two
# threads run timers of one bubble at once. Go 1.27 runs each with a context of its own.
# The Lua of the embedded Redis is not instrumented: each script runs it in one goroutine, and
# tests of scripts take half the time. The embedded Redis itself has a sync.Map, whose code all packages
# of a program share, so it must be. The race detector must then be told of every allocation,
# which the specialized ones leave out. A program would sleep for a second as it ends: there are a
# hundred of them.
RACE_ENV = GOTOOLCHAIN=go1.27.4 GOEXPERIMENT=nosizespecializedmalloc GORACE=atexit_sleep_ms=0 \
	GOFLAGS='$(shell go env GOFLAGS) -race -gcflags=github.com/yuin/gopher-lua/...=-race=false'
RACE = $(RACE_ENV) go test

# Histories that one thread plays have no races, and would take four times as long. The tools and the command of a
# release are built in the same way.
PLAIN = GOTOOLCHAIN=go1.27.4 CGO_ENABLED=0 GOEXPERIMENT= GORACE= GOFLAGS='-trimpath -buildvcs=false' go test
ONE_THREAD = ./internal/world ./lua ./lua/explore

# What runs in real time, with processes that are stopped and killed, runs alone: a machine that is busy with
# other tests stops processes, too.
REAL = ./integration ./cmd/fleetpace

# What takes longest begins first, so that nothing waits for it in the end.
LONGEST = ./reserve ./worker ./transport ./llm ./internal/engine ./deploy

FUZZTIME ?= 30s
SOAK     ?= 10m
EXPLORE  ?= 3m

# The forms of comments are golangci-lint's;
# De Morgan's law and a named embedded field may read better.
CHECKS = all,-ST1000,-ST1020,-ST1021,-ST1022,-QF1001,-QF1008

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## all tests with -race; those that need a real Redis take the first they find, or are skipped
	$(RACE) ./...

test-real: test-alone test-histories test-rest ## the same, but fails where Redis or Docker are missing; nothing is cached, and lint vets

test-alone:
	FLEETPACE_REQUIRE=redis,docker $(RACE) -count=1 -vet=off -timeout 25m -p 1 $(REAL)

test-histories:
	FLEETPACE_REQUIRE=redis,docker $(PLAIN) -count=1 -vet=off -timeout 25m $(ONE_THREAD)

test-rest:
	all=$$(go list ./...) && FLEETPACE_REQUIRE=redis,docker $(RACE) -count=1 -vet=off -timeout 25m $(LONGEST) $$(echo "$$all" | grep -v $(patsubst ./%,-e '/%$$',$(REAL) $(ONE_THREAD)))

test-local: ## what depends on where Redis runs, on a redis-server of this machine
	FLEETPACE_REQUIRE=redis,docker FLEETPACE_REDIS=local $(RACE) -count=1 -vet=off -skip '^TestEachRunsOnBoth$$' ./internal/redistest

test-modules: test-river test-bench test-sdk test-aws ## modules that the library does not need: River, bench, SDKs of providers

test-river:
	cd riverpace && go vet ./... && FLEETPACE_REQUIRE=redis,postgres FLEETPACE_REDIS=local $(RACE) -count=1 -vet=off ./...

test-bench:
	cd bench && go vet ./... && FLEETPACE_REQUIRE=redis $(RACE) -count=1 -vet=off ./...

test-sdk:
	cd transport/sdktest && $(RACE) -count=1 -vet=off ./...

test-aws:
	cd llm/fleetaws && go vet ./... && $(RACE) -count=1 -vet=off ./...

test-models: ## 512 agents with the SDKs of Anthropic, OpenAI and Google, in real time: seven minutes; wants redis-server and an idle machine
	cd transport/sdktest && FLEETPACE_LONG=1 go test -tags models -count=1 -run '^TestModels$$' -v ./...

test-clients: ## the clients in Python and TypeScript, their types, also against the real server; wants node, npm, mypy and httpx
	.ci/clients python typescript
	FLEETPACE_REQUIRE=redis go test -tags clients -count=1 -run '^Test(Languages|ModelsInLanguages|HooksEndAHardStop|HooksPassRefusalsOn)$$' -v ./cmd/fleetpace

test-several: ## two servers behind a round-robin proxy are killed in turn for a minute; wants node, npm and an idle machine
	cd clients/typescript && npm ci --no-audit --no-fund && npm run build
	FLEETPACE_REQUIRE=redis go test -tags clients -count=1 -run '^TestServersAreKilled$$' -v ./cmd/fleetpace

test-python: ## the client in Python, with a server that is played; test-clients has the real one
	cd clients/python && PYTHONPATH=src python3 -m unittest tests.test_contract tests.test_hanging_up tests.test_hostile tests.test_retry_after tests.test_tls

test-browser: ## the web page in a real Chromium; FLEETPACE_SCREENSHOTS names a folder for pictures
	cd monitor/browsertest && go vet ./... && FLEETPACE_REQUIRE=redis $(RACE) -count=1 -vet=off ./...

test-packages: ## build the packages of a release that take seconds, twice, and try them
	cd release && go vet ./... && FLEETPACE_REQUIRE=docker $(RACE) -count=1 -vet=off ./...

test-release: ## build all that a release consists of, twice, and try it; wants node and npm
	cd release && go vet -tags release ./... && $(RACE) -tags release -count=1 -vet=off -timeout 50m -v ./...

release: ## build a release into dist/: make release VERSION=0.3.0
	release/build '$(VERSION)'

lint: ## gofmt, go mod tidy, go vet, spelling, and staticcheck
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'run: gofmt -w .'; exit 1; }
	@command -v codespell >/dev/null || { echo 'install codespell (a package of Debian, or pip)'; exit 1; }
	codespell $$(git ls-files)
	go mod tidy -diff
	go vet ./...
	go vet -tags clients ./cmd/fleetpace
	"$$(.ci/tool staticcheck)" -checks $(CHECKS) ./...

lint-all: ## golangci-lint (.golangci.yml gives the reasons); its first run compiles for minutes
	"$$(.ci/tool golangci-lint)" run ./...

vuln: ## known vulnerabilities in what the module uses
	"$$(.ci/tool govulncheck)" ./...

examples: ## run the examples on an embedded Redis; they fail if anything is lost
	go run ./examples/crawler -json
	go run ./examples/batch -json
	go run ./examples/batch -json -api llm

map: ## draw the packages into CONTRIBUTING.md
	go run ./docs/map

measure: ## speed, utilization and lateness beside others: figures, no verdicts; about four minutes
	cd bench && go run . cost && go run . fleet && go run . fleet -scenario mixed && go run . http && go run . growth

soak: ## long histories, faults and load for SOAK (default 10m), with new random seeds
	FLEETPACE_WORLD=$(SOAK) go test -count=1 -timeout 0 -run '^TestHistories$$' ./internal/world
	FLEETPACE_REDIS=local FLEETPACE_HISTORIES=10000 FLEETPACE_FIRST_HISTORY=$$(date +%6N) go test -count=1 -timeout 0 -run '^TestScriptsEqualModel$$' ./lua
	FLEETPACE_HISTORIES=200 FLEETPACE_FIRST_HISTORY=$$(date +%6N) go test -count=1 -timeout 0 -run '^TestHistories$$' ./llm
	FLEETPACE_SOAK=$(SOAK) $(RACE) -count=1 -timeout 0 -run '^Test(Soak|SlotsOfKilled)' -v ./integration

explore: ## each small world of the scripts, two actions deeper than the tests or for EXPLORE (default 3m)
	go run ./lua/explore -deeper 2 -limit $(EXPLORE)

mistakes: ## plant mistakes in the engine, one build for each, and write down which history of the world finds it
	FLEETPACE_WORLD_MISTAKES=1 go test -count=1 -timeout 0 -run '^TestMistakesInTheEngine$$' -v ./internal/world
	FLEETPACE_PRINT=1 go test -count=1 -run '^TestPageOfMistakes$$' ./internal/world

fuzz: ## each fuzz target for FUZZTIME (default 30s)
	.ci/fuzz $(FUZZTIME)

bench: ## all benchmarks
	go test -run '^$$' -bench . -benchmem -p 1 ./...

ci: ## everything that CI runs; at most a quarter of an hour
	.ci/run

race-env: # how most tests are built, for .ci/run: each further kind of build takes minutes
	@printf '%s\n' "$(RACE_ENV)"
