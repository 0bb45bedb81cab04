# Needs only Go and make. Uses Terraform or OpenTofu from PATH, or downloads Terraform.

# The race detector needs a C compiler.
RACE := $(shell command -v $$(go env CC) >/dev/null 2>&1 && echo -race)
# SQLite (C translated to Go) is excluded: it would take a third of the time, and isn't our
# code. It locks with package sync, which the detector sees.
RACING = $(if $(RACE),$(RACE) '-gcflags=modernc.org/...=-race=false -d=checkptr=0')

# go-nvml uses functions that NVML's header marks as deprecated.
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations
# Without paths in the programs, all clones share the results in the build cache. Without
# symbols and debugging information, a program is linked in half the time.
export GOFLAGS := $(GOFLAGS) -trimpath -ldflags=-s
comma := ,
# NVML is loaded at run time, so the linker must not resolve its functions.
LAZY := $(if $(filter linux,$(shell go env GOOS)),-ldflags '-s -extldflags=-Wl$(comma)-z$(comma)lazy')

# The packages whose tests drive a CLI.
ACCEPTANCE := ./resources/... ./datasources/... ./provider/... ./internal/test/scale/... ./conformance/client/...

# go test prints results in package order: packages that compile in seconds come first, those
# whose tests start Terraform, databases, processes or a browser last. The first use runs go list.
TESTED = $(eval TESTED := $(shell go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...))$(TESTED)
SMALL := $(addprefix %/,jobrunner/limits jobrunner/clock jobrunner/rawjson conformance/wire)
LARGE := $(addprefix %/,resources cmd/conformance cmd/jobrunner jobrunner/workerapi jobrunner/engine conformance/selftest \
	internal/test/scale internal/test/fire conformance/mutants/run conformance/client)

# A module of tests whose tools the product doesn't need. go test doesn't notice changed files
# outside a module, so its results aren't cached.
SYSTEM_MODULE := internal/test/system
SYSTEM := ./deploy ./image ./openapi ./page ./report

# Tests often wait for processes, so more packages than processors run at a time.
AT_ONCE := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 2)))

# Runs go test with flags (1) on packages (2), and on packages of SYSTEM_MODULE (3) beside them;
# a pipe connects the two so that an interrupt ends both. Then lists the slowest and the failed
# packages, because failures may be hundreds of lines above.
define go-test
@log=$$(mktemp -d) || exit 1; { \
	$(if $(3),{ go test -C $(SYSTEM_MODULE) -count=1 -p=$(AT_ONCE) $(1) $(3) >$$log/system 2>&1 || : >$$log/failed; } |) \
	{ go test -p=$(AT_ONCE) $(1) $(2) 2>&1 || : >$$log/failed; }; $(if $(3),cat $$log/system;) } | tee $$log/all; \
	status=0; [ ! -e $$log/failed ] || status=1; failed=$$(sed -n 's/^FAIL[[:space:]]\{1,\}\([^[:space:]]\{1,\}\).*/\1/p' $$log/all); \
	slowest=$$(sed -n 's/^\(ok\|FAIL\)[[:space:]]\{1,\}\([^[:space:]]\{1,\}\)[[:space:]]\{1,\}\([0-9.]\{1,\}\)s.*/  \3 s \2/p' $$log/all | sort -rn | head -10); rm -r $$log; \
	[ -z "$$slowest" ] || { echo; echo "Slowest packages:"; echo "$$slowest"; }; \
	[ -z "$$failed" ] || { echo; echo "Failed packages:"; printf '  %s\n' $$failed; }; exit $$status
endef

# Builds the programs that tests run once for all packages (internal/testkit/gobuild).
TESTING := test test-all test-tofu
$(TESTING): export GPUCLOUD_TEST_PROGRAMS = $(CURDIR)/bin/test
$(TESTING): test-programs

# The tests start hundreds of short-lived programs. Less garbage collection saves a sixth of
# the processor time; GOMEMLIMIT bounds large programs.
$(TESTING): export GOGC ?= 1600
$(TESTING): export GOMEMLIMIT ?= 2GiB

.PHONY: help quickstart test test-all coverage test-tofu test-kubernetes kubernetes kubernetes-faults kubernetes-conformance clis image fire mutants variants schemathesis contract-diff fuzz soak nodes nodes-faults bench build snapshot platforms site install lint docs

help: ## This list.
	@sed -n 's/^\([a-z-]*\):.* ## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F '\t' '{printf "%-22s %s\n", $$1, $$2}'

quickstart: build ## Create an endpoint on a local jobrunner, run a job and delete everything.
	@tools/quickstart

.PHONY: test-programs
test-programs:
	@go build -o bin/test/ . ./cmd/...

# The short tests, packages that compile in seconds first.
SHORT = $(filter $(SMALL),$(TESTED)) $(filter-out $(SMALL) $(LARGE),$(TESTED)) $(foreach package,$(LARGE),$(filter $(package),$(TESTED)))

# Packages with very many runs, where the race detector would take a quarter of an hour. It
# runs on a sample of them.
JUDGES := conformance/selftest internal/test/fire
UNRACED := $(JUDGES) conformance/mutants/run
# Packages without the race detector in .ci/run: their tests mostly run programs, which are built
# without it, or make so many plans or numbers in one goroutine that it would take minutes.
# The tests of resources wait for the longest time, so .ci/run starts them first.
RACED_AT_NIGHT := cmd/conformance cmd/jobrunner conformance/cases conformance/client internal/test/ci internal/test/guides internal/test/migrate internal/test/scale provider resources

# Packages that make test leaves to .ci/run, which sets CI: each runs programs or browsers for a
# minute, and a cheaper package tests a part of it.
LEFT_TO_CI := conformance/client conformance/mutants/run internal/test/ci internal/test/fire internal/test/migrate internal/test/scale

test: ## A sample of each kind of test, also with a real Terraform. With CI=1: the tests of .ci/run.
	@echo "Testing. Without a build cache, the first results come after some minutes of compiling."
ifndef CI
	$(call go-test,-short -timeout=20m,$(filter-out $(addprefix %/,$(LEFT_TO_CI)),$(SHORT)),./openapi)
else
	@$(MAKE) --no-print-directory -j2 test-raced test-unraced AT_ONCE=$(shell getconf _NPROCESSORS_ONLN)
endif

# The two halves of test with CI=1, beside each other: one mostly compiles, the other mostly waits.
.PHONY: test-raced test-unraced
test-raced:
	$(call go-test,-short -vet=off $(RACING) -timeout=30m,$(filter-out $(addprefix %/,$(UNRACED) $(RACED_AT_NIGHT)),$(SHORT)),./page ./report)
test-unraced:
	$(call go-test,-short -vet=off -timeout=30m,$(addprefix ./,resources $(UNRACED) $(filter-out resources,$(RACED_AT_NIGHT))),$(filter-out ./page ./report,$(SYSTEM)))

test-all: ## Every test, with the race detector if the code runs in the test process: each night.
	$(call go-test,$(RACING) -timeout=60m,$(filter-out $(addprefix %/,$(UNRACED)),$(shell go list ./...)),$(filter-out ./openapi,$(SYSTEM)))
	$(call go-test,$(RACING) -short -timeout=60m,$(addprefix ./,$(JUDGES)),./openapi)
	$(call go-test,-timeout=60m,$(addprefix ./,$(UNRACED)),./openapi)

# Code in programs that tests start isn't counted.
coverage: ## Coverage of all tests, and the ten least covered packages: each night.
	@mkdir -p bin
	go test -short -timeout=60m -coverpkg=./... -coverprofile=bin/coverage.out $(TESTED) >bin/coverage.log || { cat bin/coverage.log; exit 1; }
	go test -C $(SYSTEM_MODULE) -short -timeout=60m -coverpkg=$$(go list -m)/... -coverprofile=$(CURDIR)/bin/coverage-system.out $(SYSTEM) >bin/coverage.log || { cat bin/coverage.log; exit 1; }
	@tools/least-covered bin/coverage.out bin/coverage-system.out | tee -a $${GITHUB_STEP_SUMMARY:-/dev/null}

clis: ## Build OpenTofu and a newer Terraform into the user's cache, once.
	@go run ./internal/testkit/dev clis

kubernetes: ## Build the programs of a Kubernetes test cluster into the user's cache, once.
	@go run ./internal/testkit/dev kubernetes

test-kubernetes: ## Workers on a real Kubernetes cluster, if its programs are present.
	go test -count=1 -timeout=30m -run=TestKubernetes -v ./cmd/jobrunner
	go test -C $(SYSTEM_MODULE) -count=1 -timeout=30m -run='OnCluster$$|InCluster$$' -v ./deploy

kubernetes-faults: ## Each fault of a real Kubernetes cluster ten times under load; every job is checked (RUNS=3: three times).
	KUBERNETES_ROUNDS=$(or $(RUNS),10) go test -count=1 -timeout=60m -run=TestKubernetes/faults -v ./cmd/jobrunner

kubernetes-conformance: ## The conformance suite against a jobrunner whose workers are Pods of a real cluster, in real time (SELECT=JOB: an area).
	KUBERNETES_CONFORMANCE='$(or $(SELECT),*)' go test -count=1 -timeout=60m -run=TestKubernetes/conforms -v ./cmd/jobrunner

# SHORTLY=-short: a sample.
test-tofu: ## The acceptance tests and the quickstart with OpenTofu, if it is present.
	@tofu=$$(go run ./internal/testkit/dev cli tofu) || exit 1; [ -z "$$tofu" ] || { export TF_ACC_TERRAFORM_PATH=$$tofu; \
		echo "OpenTofu: $$tofu"; $(MAKE) --no-print-directory quickstart && TFCLI_AGAIN=1 go test -timeout=60m $(SHORTLY) $(ACCEPTANCE); }

fire: ## The provider under a thousand generated fault schedules, on each API version.
	go test ./internal/test/fire -count=1 -timeout=80m -run=TestFire$$ -fire.n=1000 -fire.fresh=100

mutants: ## Each mutant against its clause.
	go run ./conformance/mutants/run

variants: ## Each variant against the whole suite.
	go run ./conformance/mutants/run --variants

# EXAMPLES=20: a short run. Needs Python with venv, and installs schemathesis in bin/.
schemathesis: ## Test a jobrunner with schemathesis against its OpenAPI documents, with a full and a scoped key.
	go build $(LAZY) -o bin/ ./cmd/jobrunner
	python3 -m venv bin/schemathesis && bin/schemathesis/bin/pip install -q schemathesis==4.32.5
	bin/schemathesis/bin/python tools/schemathesis/run.py bin/jobrunner

# Fails if a change breaks clients or deployments.
contract-diff: ## DOC=openapi.json, RunPod's v2 document: what it changes compared with the jobrunner's, and whether clients or deployments break.
	@test -f "$(DOC)" || { echo "usage: make contract-diff DOC=openapi.json"; exit 1; }
	@mkdir -p bin && go run ./internal/testkit/dev openapi >bin/openapi-v2.json
	@cd tools && go build -o ../bin/ ./contract-diff
	@bin/contract-diff bin/openapi-v2.json internal/test/system/openapi/testdata/v2.json "$(DOC)"

# Each target runs for FUZZTIME. FUZZ is a part of its name: make fuzz FUZZ=FuzzBodies FUZZTIME=10m
# A finding is written to testdata/fuzz, so that go test fails. If go test passes, the fuzzer
# was only busy when its time was up.
FUZZTIME ?= 30s
FUZZ ?= .

fuzz: ## Each decoder of foreign input on generated input for FUZZTIME; FUZZ=name selects.
	@for folder in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		targets=$$(go test -list '^Fuzz' $$folder) || { echo "$$targets"; exit 1; }; \
		for target in $$(echo "$$targets" | grep '^Fuzz' | grep -e '$(FUZZ)'); do \
			echo "== $$folder $$target"; \
			go test -run='^$$' -fuzz="^$$target$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x -parallel=1 -timeout=0 $$folder || \
				go test -count=1 -timeout=10m -run="^$$target$$" $$folder || exit 1; \
		done; \
	done

soak: ## A hundred shuffled runs of the conformance suite, which must have the same verdicts.
	CONFORMANCE_RUNS=100 go test -count=1 -timeout=40m -run=TestJobrunnerConforms$$ ./conformance/selftest

nodes: ## The whole conformance suite over three jobrunners on one PostgreSQL (RUNS=10: ten times).
	CONFORMANCE_NODES=1 go test -count=$(or $(RUNS),1) -timeout=60m -run=TestThreeNodesConform -v ./conformance/selftest

nodes-faults: ## Each fault of a database a hundred times under load, each of three jobrunners on one PostgreSQL ten times, and a rolling upgrade; every job is checked.
	go test -count=1 -timeout=60m -run=TestFaults -v ./jobrunner/engine -faults=$(or $(RUNS),10)0
	NODES_ROUNDS=$(or $(RUNS),10) go test -count=1 -timeout=90m -run='TestNodesUnderFaults|TestRollingUpgrade' -v ./cmd/jobrunner

bench: ## Compare the job API with its floor, on a quiet machine: writes docs/reference/performance.md.
	go test -count=1 -run='^$$' -bench=. -benchtime=3x -timeout=60m ./internal/test/bench -bench.report=$(CURDIR)/docs/reference/performance.md

build: ## The three binaries, in bin/.
	@[ -e bin/jobrunner ] || echo "Building: the first build takes about three minutes on two cores."
	CGO_ENABLED=0 go build -o bin/ .
	go build $(LAZY) -o bin/ ./cmd/...

# PUSH=registry.example.com/team/jobrunner:1 also pushes it.
VERSION ?= $(shell git describe --tags --always --dirty)

image: ## The container image of the jobrunner for amd64 and arm64, in bin/image, without a container engine.
	@go run -C $(SYSTEM_MODULE) ./image -version=$(VERSION) -revision=$$(git rev-parse HEAD) -created=$$(git log -1 --format=%ct) $(if $(PUSH),-push=$(PUSH))

snapshot: ## Build and test a release in bin/dist without publishing it; PLATFORMS=here: only this platform.
	@PLATFORMS=$(PLATFORMS) tools/snapshot
	@go test -count=1 -timeout=10m -run=TestDist ./internal/test/release -dist=$(CURDIR)/bin/dist

platforms: ## Compile the programs and tests for each system.
	for system in darwin windows freebsd; do export GOOS=$$system CGO_ENABLED=0; go build . ./cmd/... && go vet ./... || exit 1; done
	GOARCH=386 CGO_ENABLED=0 go build ./provider/...

site: ## The documentation as a website, in bin/site, with mkdocs (Debian: apt-get install mkdocs).
	mkdocs build --strict
	@echo "Open bin/site/index.html, or run: mkdocs serve"

# Both CLIs look here before they ask a registry.
PLUGINS := $(HOME)/.terraform.d/plugins
INSTALLED := gpucloud/gpucloud/0.0.1/$(shell go env GOOS)_$(shell go env GOARCH)

install: build ## Build, and install the provider for Terraform and OpenTofu.
	@for host in registry.terraform.io registry.opentofu.org; do \
		mkdir -p "$(PLUGINS)/$$host/$(INSTALLED)" && cp bin/terraform-provider-gpucloud "$(PLUGINS)/$$host/$(INSTALLED)/" || exit 1; \
	done
	@echo "The provider is in $(PLUGINS), where terraform init finds it. After another build, remove .terraform.lock.hcl first."

lint: ## Linters, which include go vet.
	cd tools && go build -o ../bin/ tool
	bin/golangci-lint run ./...
	cd $(SYSTEM_MODULE) && ../../../bin/golangci-lint run ./...
	cd tools/actionlint && go build -o ../../bin/ tool
	bin/actionlint -shellcheck= $(wildcard .github/workflows/*.yml examples/ci/github/.github/workflows/*.yml)

# tfplugindocs deletes guides/ in its output folder, so it writes to bin/docs.
docs: ## Generate documentation: docs/reference/contract.md, clauses.md, fidelity.md, licences.md, and the provider's pages.
	go generate ./internal/contract ./conformance/clauses ./internal/test/fidelity
	go run -C tools ./licences
	cd tools && go build -o ../bin/ github.com/hashicorp/terraform-plugin-docs/cmd/tfplugindocs
	terraform fmt -recursive examples
	rm -rf bin/docs $(addprefix docs/,resources data-sources ephemeral-resources list-resources actions functions)
	go run ./internal/testkit/dev schema > bin/schema.json
	bin/tfplugindocs generate --providers-schema bin/schema.json --provider-name gpucloud --rendered-provider-name gpucloud --rendered-website-dir bin/docs
	cp -R bin/docs/. docs/
