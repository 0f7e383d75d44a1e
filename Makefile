# drover's commands for developers and the curious. `make quickstart` and `make test` do their own set-up.

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo v0.0.0-dev)
LDFLAGS := -s -w -X github.com/drover-project/drover.Version=$(VERSION)
AGENT_DIR := server/assets/bin
# What runs on hosts needs no C library and names no path of the machine that built it; what is built for tests is built the same
# way, so that nothing is compiled twice, nor again in another clone.
export CGO_ENABLED = 0
export GOFLAGS = -trimpath
GO_BUILD := go build -ldflags '$(LDFLAGS)'

.PHONY: build agents images release releasetools formatted test fuzz k3s rke2standin rke1images helm oidc e2e e2e-full lint bench soak quickstart setup setup-test setup-e2e clean

build: agents ## bin/drover with the agents inside, and bin/rancher-system-agent
	$(GO_BUILD) -tags embedassets -o bin/drover ./cmd/drover
	cp --remove-destination $(AGENT_DIR)/rancher-system-agent-$(shell go env GOARCH) bin/rancher-system-agent

agents: ## the agents that hosts download from a server, and compressed for the inside of it
	GOARCH=amd64 $(GO_BUILD) -o $(AGENT_DIR)/rancher-system-agent-amd64 ./cmd/rancher-system-agent
	GOARCH=arm64 $(GO_BUILD) -o $(AGENT_DIR)/rancher-system-agent-arm64 ./cmd/rancher-system-agent
	GOARCH=amd64 $(GO_BUILD) -o $(AGENT_DIR)/rancher-agent-amd64 ./cmd/rancher-agent
	GOARCH=arm64 $(GO_BUILD) -o $(AGENT_DIR)/rancher-agent-arm64 ./cmd/rancher-agent
	go run ./packaging/compress $(AGENT_DIR)/rancher-*64

IMAGE_ARCH ?= $(shell go env GOARCH)
images: agents ## container images as archives in bin/, from scratch (BUSYBOX and KUBECTL: static programs to put into them)
	go run ./packaging/images -arch $(IMAGE_ARCH) -version $(VERSION) -bin $(AGENT_DIR) -busybox $(or $(BUSYBOX),/bin/busybox) -kubectl "$(KUBECTL)" suc rancher-agent

release: ## archives, packages, images, sums and their signature in bin/release (RELEASE=v1.2.3; packaging/release/release.sh has the rest)
	./packaging/release/release.sh

RELEASE_TOOL := go tool -modfile=packaging/release/tools.mod
releasetools: ## what makes releases, built; the first time takes some minutes
	$(RELEASE_TOOL) goreleaser --version >/dev/null
	$(RELEASE_TOOL) cyclonedx-gomod version >/dev/null

setup: ## what the test bed needs
	./test/bed/setup.sh all

setup-test: ## what the unit tests need
	./test/bed/setup.sh test

setup-e2e: ## what the end-to-end tests need beside hosts: directories of people, what checks releases, and Chromium
	./test/bed/setup.sh people
	./test/bed/setup.sh release
	./test/bed/setup.sh page

# Decisions have no goroutine that could race, and many orders of events to be tried: the detector would make that five times slower.
NO_GOROUTINES := github.com/drover-project/drover/server/decide

formatted: # before the minutes that tests take
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "gofmt these:"; echo "$$unformatted"; exit 1; }

# The race detector doubles how long tests take, and what is compiled for them: CI runs with it, and people by RACE=1.
RACE ?= $(if $(CI),1)
ifneq ($(RACE),)
# A program with the race detector waits a second before it ends, and tests start hundreds; all goroutines have been waited for by then. The internal
# linker takes a quarter less time than gcc.
define run-tests
	GORACE=atexit_sleep_ms=0 CGO_ENABLED=1 go test -vet=off -race -ldflags=-linkmode=internal $$(go list ./... | grep -v -x $(NO_GOROUTINES))
	go test -vet=off ./tunnel $(NO_GOROUTINES) # the former once more for what the original's library carries, which races with itself
endef
else
# Without what debuggers read two hundred programs are linked in two thirds of the time. Many tests wait for something: twice as many packages as
# there are processors keep those at work.
define run-tests
	go test -vet=off -ldflags='-s -w' -p $$(( 2 * $$(nproc) )) ./...
endef
endif
test: formatted setup-test ## unit and integration tests, with the race detector in CI or by RACE=1; no Docker, no network beyond loopback
	go vet ./...
	$(run-tests)

# What agents read and others wrote: plans, position files, ledgers, registries.yaml, the watch; and
# the state and the config of RKE1 clusters. Twenty executions make an input that was found as small as it needs to be; the default minute is taken
# from the search. A search whose time is over ends with "context deadline exceeded" once in a while, by a race in Go's fuzzing
# (golang/go#75804): without an input that fails it has found nothing. That goes when the race has.
FUZZTIME ?= 10s
FUZZ := plans:FuzzParse plans/drop:FuzzParsePosition plans/apply:FuzzReadLedger \
	installers/image/registries:FuzzParseRegistries plans/remote:FuzzWatchStream tunnel/mux:FuzzSession plans/strictyaml:FuzzStrictYAML \
	rke1/state:FuzzDecode rke1/config:FuzzParse cmd/drover/output:FuzzWriter

# What the server reads and hosts, clusters and directories wrote.
FUZZ += daemon/bundle:FuzzScrub daemon/podlogs:FuzzLines rke1/ecr:FuzzRead rke1/config/check:FuzzForms server/clusterspec:FuzzSchedule \
	installers/kubeconfig:FuzzRead tunnel/answers:FuzzScan tunnel/connect:FuzzDecode rke1/onhost:FuzzLogs rke1/onhost:FuzzDocker \
	plans:FuzzReadHostReport plans:FuzzReadOutcome plans:FuzzDecodeOutputs plans:FuzzDecodeProbeStatuses plans:FuzzDecodePeriodicOutputs \
	server/planapi:FuzzAgentUpdate server/planapi:FuzzAgentBody server/registration:FuzzRequest server/downstream:FuzzSeen \
	server/downstream/kubeproxy:FuzzPeek server/etcdops:FuzzListed server/controllers/certificates:FuzzAnswer server/api/native:FuzzHostLog \
	server/outgoing:FuzzRanges server/directories/ldap:FuzzCount server/api/secrets:FuzzProtobuf cmd/drover/airgap:FuzzOpenSite cmd/drover/airgap:FuzzReadChart

fuzz: setup-test ## what is read from outside, FUZZTIME (10s) each
	@set -e; for target in $(FUZZ); do \
		package=./$${target%:*} name=$${target#*:}; \
		echo "$$package $$name"; \
		log=$$(mktemp); \
		go test -vet=off -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x $$package 2>&1 | tee $$log; \
		if grep -q '^FAIL' $$log && { ! grep -q '^    context deadline exceeded$$' $$log || grep -q 'Failing input' $$log; }; then exit 1; fi; \
		grep -qE '^(ok|FAIL)' $$log || exit 1; \
		! grep -q 'no fuzz tests to fuzz' $$log || exit 1; \
		rm $$log; \
	done

k3s: setup ## the real k3s that the end-to-end tests install, into a cache outside the repository; the first time takes a quarter of an hour
	go run ./test/realk3s/build

rke2standin: setup ## the stand-in of RKE2 that `make e2e-full` installs, into the same cache; a minute once k3s is built
	go run ./test/rke2standin/build

RKE1_VERSIONS ?= v1.23.17-rancher1-1
rke1images: setup ## the images of RKE1's clusters that the end-to-end tests make, into the same cache; the first time takes a quarter of an hour
	go run ./test/rke1images/build -versions $(RKE1_VERSIONS) $(RKE1_ADDONS)

helm: ## helm 3, which `make e2e-full` installs charts of clusters with, into the same cache; the first time takes some minutes
	go run ./test/helm/build

PROVIDER := test/oidc/node_modules/.package-lock.json
oidc: $(PROVIDER) ## the OpenID provider that the end-to-end tests log in at
$(PROVIDER): test/oidc/package-lock.json
	./test/bed/setup.sh people
	cd test/oidc && npm ci --no-audit --no-fund

# Pictures of all pages of the web page, which people look at.
SHOTS ?= $(CURDIR)/bin/shots

e2e: k3s rke1images setup-e2e oidc releasetools ## a systemd host joins a real server and becomes Active with the real k3s, and everything is killed once; three servers and a worker join and change
	PATH="$${DROVER_CACHE:-/var/cache/drover}/k3s:$$PATH" go test -vet=off -count=1 -run 'Kubectl|TestScripts/kubeconfig' ./server/api/kube ./server/planapi ./cmd/drover/cli # kubectl itself, which the kit of k3s has
	DROVER_SHOTS=$(SHOTS) go test -vet=off -tags e2e -count=1 -timeout 60m ./test/...

# The checkers are pinned in test/lint/tools.mod, apart from the product's own dependencies.
LINT_TOOL := go tool -modfile=test/lint/tools.mod

lint: formatted setup-test ## formatting, vet, golangci-lint (staticcheck and gosec in it), known vulnerabilities, shell scripts
	go vet ./...
	go vet -tags e2e,e2e_full ./test/...
	GOOS=darwin go vet ./cmd/drover # which people have on their own machines
	GOOS=windows go vet ./cmd/drover
	$(LINT_TOOL) golangci-lint run -c test/lint/golangci.yml ./...
	$(LINT_TOOL) golangci-lint run -c test/lint/golangci.yml --build-tags e2e,e2e_full ./test/...
	@if curl -fsS -m 10 -o /dev/null $${GOVULNDB:-https://vuln.go.dev}/index/db.json; then \
		echo govulncheck ./...; $(LINT_TOOL) govulncheck ./...; \
	else \
		echo "known vulnerabilities were NOT looked up: $${GOVULNDB:-https://vuln.go.dev} cannot be reached (GOVULNDB takes a copy of the database)"; \
	fi
	shellcheck -s sh packaging/release/*.sh packaging/release/scripts/* installers/*.sh install.sh system-agent-uninstall.sh packaging/suc/run.sh test/bed/setup.sh test/realk3s/image/run.sh test/rke2standin/image/*.sh test/rke1images/image/bash test/rke1images/image/install-cni.sh test/peer/build-agent.sh
	shellcheck -s sh -e SC2034,SC2154 installers/hostjob/*.sh # each stands behind once.sh
	shellcheck -s bash test/rke1images/image/entrypoint.sh

bench: build ## the measures of docs/benchmarks.md, on this machine
	go run ./test/bench
	go test -run '^$$' -bench "Carriers|SlowLine" -benchtime 3s ./tunnel
	@echo "both agents under a kube-apiserver, which needs the kit that make k3s builds: go test -tags e2e -run '^$$' -bench Plan -benchtime 40x ./test/peer"

HOURS ?= 1
soak: build ## a fleet of 5,000 simulated agents at work on two servers for HOURS (1), with a chart in docs: what grows is a leak
	go run ./test/bench -only soak -hours $(HOURS) -agents 5000 -charts docs

e2e-full: RKE1_VERSIONS = v1.23.17-rancher1-1,v1.23.16-rancher2-3,v1.24.17-rancher1-1,v1.30.8-rancher1-1
e2e-full: RKE1_ADDONS = -addons
e2e-full: k3s rke2standin rke1images helm setup-e2e oidc ## e2e, and the slower half: a host in trouble, its pods through the tunnel, a host without any registry, clusters of many machines that change and are killed, clusters of RKE2's stand-in, charts of clusters by helm
	DROVER_SHOTS=$(SHOTS) go test -vet=off -tags e2e,e2e_full -count=1 -timeout 120m ./test/...

quickstart: setup ## a server, a host and a cluster on this machine, until Ctrl-C
	go run ./test/quickstart

clean: ## what was built
	rm -rf bin $(AGENT_DIR)
