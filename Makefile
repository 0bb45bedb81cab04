# Needs only Go and make. Terraform or OpenTofu is taken from PATH, else fetched.

# The race detector needs a C compiler.
RACE := $(shell command -v $$(go env CC) >/dev/null 2>&1 && echo -race)
# SQLite, C turned into Go, is left out of it: it costs a third of the time and is not
# about this code. Its locks are those of package sync, which the detector sees.
RACING = $(if $(RACE),$(RACE) '-gcflags=modernc.org/...=-race=false -d=checkptr=0')

# NVML's header marks much as deprecated that its binding has to have.
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations
comma := ,
# NVML is loaded at run time: its functions must not be looked for before.
LAZY := $(if $(filter linux,$(shell go env GOOS)),-ldflags '-extldflags=-Wl$(comma)-z$(comma)lazy')

# The packages whose tests drive a CLI.
ACCEPTANCE := ./resources/... ./datasources/... ./provider/... ./internal/test/scale/... ./conformance/client/...

# go test shows results in the order of the packages: first those that compile in
# seconds, last those whose tests start Terraform, databases, processes or a browser.
TESTED = $(shell go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)
SMALL := $(addprefix %/,jobrunner/limits jobrunner/clock jobrunner/rawjson conformance/wire)
LARGE := $(addprefix %/,resources jobrunner/workerapi internal/test/scale jobrunner/engine conformance/selftest cmd/jobrunner \
	internal/test/fire conformance/mutants/run conformance/client cmd/conformance)

# Tests of the whole system whose tools the product doesn't need, a module of its own: go
# test doesn't notice that a file outside of the module changed, so that results aren't cached.
SYSTEM_MODULE := internal/test/system
SYSTEM := ./deploy ./image ./openapi ./page ./report

# go test with flags (1) on packages (2) and packages of SYSTEM_MODULE (3). At its end: the
# slowest packages, and once more those that failed, hundreds of lines below their failures.
define go-test
@log=$$(mktemp) || exit 1; { status=0; go test $(1) $(2) 2>&1 || status=1; \
	$(if $(3),go test -C $(SYSTEM_MODULE) -count=1 $(1) $(3) 2>&1 || status=1;) echo $$status >"$$log.status"; } | tee "$$log"; \
	status=$$(cat "$$log.status"); failed=$$(sed -n 's/^FAIL[[:space:]]\{1,\}\([^[:space:]]\{1,\}\).*/\1/p' "$$log"); \
	slowest=$$(sed -n 's/^\(ok\|FAIL\)[[:space:]]\{1,\}\([^[:space:]]\{1,\}\)[[:space:]]\{1,\}\([0-9.]\{1,\}\)s.*/  \3 s \2/p' "$$log" | sort -rn | head -10); rm -f "$$log" "$$log.status"; \
	[ -z "$$slowest" ] || { echo; echo "Slowest packages:"; echo "$$slowest"; }; \
	[ -z "$$failed" ] || { echo; echo "Failed packages:"; printf '  %s\n' $$failed; }; exit "$${status:-1}"
endef

# The programs that tests run are built once for all packages (internal/testkit/gobuild).
TESTING := test test-ci test-all test-tofu
$(TESTING): export GPUCLOUD_TEST_PROGRAMS = $(CURDIR)/bin/test
$(TESTING): test-programs

# These tests start hundreds of short-lived programs and make much garbage: collecting it
# less often saves a sixth of the processor time. GOMEMLIMIT keeps a large one small.
$(TESTING): export GOGC ?= 400
$(TESTING): export GOMEMLIMIT ?= 3GiB

.PHONY: help quickstart test test-ci test-all coverage test-tofu test-kubernetes kubernetes kubernetes-faults kubernetes-conformance clis image fire mutants variants schemathesis contract-diff fuzz soak nodes nodes-faults bench build snapshot platforms site install lint docs

help: ## This list.
	@sed -n 's/^\([a-z-]*\):.* ## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F '\t' '{printf "%-22s %s\n", $$1, $$2}'

quickstart: build ## From nothing to a running endpoint, and back to nothing.
	@tools/quickstart

.PHONY: test-programs
test-programs:
	@go build -o bin/test/ . ./cmd/...

# The short tests, packages that compile in seconds first.
SHORT = $(filter $(SMALL),$(TESTED)) $(filter-out $(SMALL) $(LARGE),$(TESTED)) $(foreach package,$(LARGE),$(filter $(package),$(TESTED)))

test: ## A sample of every kind of test, those with a real Terraform included.
	@echo "Testing. Without a build cache, compiling comes first, and nothing is shown for some minutes."
	$(call go-test,-short -timeout=20m,$(SHORT),$(SYSTEM))

# The packages that drive other processes through all variants, judge every body by two
# documents, or run dozens of schedules of faults: there the race detector costs a quarter
# of an hour, and a sample has it.
JUDGES := conformance/selftest internal/test/fire
UNRACED := $(JUDGES) conformance/mutants/run
# Their tests mostly run programs, which are built without the race detector.
PROGRAMS := cmd/conformance cmd/jobrunner conformance/client internal/test/ci internal/test/guides internal/test/migrate internal/test/scale

test-ci: ## The tests of .ci/run: those of make test, with the race detector where the code runs in the test.
	$(call go-test,-short $(RACING) -timeout=30m,$(filter-out $(addprefix %/,$(UNRACED) $(PROGRAMS)),$(SHORT)),./page ./report)
	$(call go-test,-short -timeout=30m,$(addprefix ./,$(UNRACED) $(PROGRAMS)),$(filter-out ./page ./report,$(SYSTEM)))

test-all: ## Every test, with the race detector where the code runs in the test: each night.
	$(call go-test,$(RACING) -timeout=60m,$(filter-out $(addprefix %/,$(UNRACED)),$(shell go list ./...)),$(filter-out ./openapi,$(SYSTEM)))
	$(call go-test,$(RACING) -short -timeout=60m,$(addprefix ./,$(JUDGES)),./openapi)
	$(call go-test,-timeout=60m,$(addprefix ./,$(UNRACED)),./openapi)

# Code that runs in programs which tests start isn't counted.
coverage: ## Statements that any test runs, and the ten least covered packages of the product: each night.
	@mkdir -p bin
	go test -short -timeout=60m -coverpkg=./... -coverprofile=bin/coverage.out $(TESTED) >bin/coverage.log || { cat bin/coverage.log; exit 1; }
	go test -C $(SYSTEM_MODULE) -short -timeout=60m -coverpkg=$$(go list -m)/... -coverprofile=$(CURDIR)/bin/coverage-system.out $(SYSTEM) >bin/coverage.log || { cat bin/coverage.log; exit 1; }
	@tools/least-covered bin/coverage.out bin/coverage-system.out | tee -a $${GITHUB_STEP_SUMMARY:-/dev/null}

clis: ## OpenTofu and a newer Terraform, built once from their modules into the user's cache.
	@go run ./internal/testkit/dev clis

kubernetes: ## The programs of a Kubernetes cluster for tests, built once from their modules into the user's cache.
	@go run ./internal/testkit/dev kubernetes

test-kubernetes: ## Workers on a real Kubernetes cluster, where its programs are present.
	go test -count=1 -timeout=30m -run=TestKubernetes -v ./cmd/jobrunner
	go test -C $(SYSTEM_MODULE) -count=1 -timeout=30m -run='OnCluster$$|InCluster$$' -v ./deploy

kubernetes-faults: ## Each fault of a real Kubernetes cluster ten times under load, with an account of all jobs (RUNS=3: three times).
	KUBERNETES_ROUNDS=$(or $(RUNS),10) go test -count=1 -timeout=60m -run=TestKubernetes/faults -v ./cmd/jobrunner

kubernetes-conformance: ## The conformance suite against a jobrunner whose workers are Pods of a real cluster, by the wall's clock (SELECT=JOB: an area).
	KUBERNETES_CONFORMANCE='$(or $(SELECT),*)' go test -count=1 -timeout=60m -run=TestKubernetes/conforms -v ./cmd/jobrunner

# SHORTLY=-short: a sample.
test-tofu: ## The acceptance tests and the quickstart with OpenTofu, where it is present.
	@tofu=$$(go run ./internal/testkit/dev cli tofu) || exit 1; [ -z "$$tofu" ] || { export TF_ACC_TERRAFORM_PATH=$$tofu; \
		echo "OpenTofu: $$tofu"; $(MAKE) --no-print-directory quickstart && TFCLI_AGAIN=1 go test -timeout=60m $(SHORTLY) $(ACCEPTANCE); }

fire: ## The provider under a thousand generated schedules of faults, on each version.
	go test ./internal/test/fire -count=1 -timeout=80m -run=TestFire$$ -fire.n=1000 -fire.fresh=100

mutants: ## Each fault of a jobrunner against its clause; FULL=1: against all that do not load it.
	go run ./conformance/mutants/run $(if $(FULL),--full)

variants: ## Each deployment that differs where the contract leaves a choice, against the whole suite.
	go run ./conformance/mutants/run --variants

# EXAMPLES=20: a short run. It needs Python with venv, and installs schemathesis in bin/.
schemathesis: ## A jobrunner judged by schemathesis, by both documents that it serves, with a full and a scoped key.
	go build $(LAZY) -o bin/ ./cmd/jobrunner
	python3 -m venv bin/schemathesis && bin/schemathesis/bin/pip install -q schemathesis==4.32.5
	bin/schemathesis/bin/python tools/schemathesis/run.py bin/jobrunner

# Exit status 2 if a change breaks clients or deployments.
contract-diff: ## DOC=openapi.json, a document of version 2 from the operator: what it changes beside the document that the jobrunner serves, and whom that breaks.
	@test -f "$(DOC)" || { echo "usage: make contract-diff DOC=openapi.json"; exit 1; }
	@go build $(LAZY) -o bin/ ./cmd/jobrunner
	@cd tools && go build -o ../bin/ ./contract-diff
	@bin/contract-diff bin/jobrunner internal/test/system/openapi/testdata/v2.json "$(DOC)"

# Each target has so long. What it finds is in testdata/fuzz, where plain go test
# fails for it; an engine that was only busy when its time was up found nothing. FUZZ is a part of its name: make fuzz FUZZ=FuzzBodies FUZZTIME=10m
FUZZTIME ?= 30s
FUZZ ?= .

fuzz: ## Each decoder of what others send, on generated input for FUZZTIME; FUZZ=name chooses.
	@for folder in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		targets=$$(go test -list '^Fuzz' $$folder) || { echo "$$targets"; exit 1; }; \
		for target in $$(echo "$$targets" | grep '^Fuzz' | grep -e '$(FUZZ)'); do \
			echo "== $$folder $$target"; \
			go test -run='^$$' -fuzz="^$$target$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x -parallel=1 -timeout=0 $$folder || \
				go test -count=1 -timeout=10m -run="^$$target$$" $$folder || exit 1; \
		done; \
	done

soak: ## A hundred runs of the conformance suite, shuffled: the same verdicts.
	CONFORMANCE_RUNS=100 go test -count=1 -timeout=40m -run=TestJobrunnerConforms$$ ./conformance/selftest

nodes: ## The whole conformance suite over three jobrunners on one PostgreSQL (RUNS=10: ten times).
	CONFORMANCE_NODES=1 go test -count=$(or $(RUNS),1) -timeout=60m -run=TestThreeNodesConform -v ./conformance/selftest

nodes-faults: ## Each fault of three jobrunners on one PostgreSQL ten times under load, and a rolling upgrade, with an account of all jobs.
	NODES_ROUNDS=$(or $(RUNS),10) go test -count=1 -timeout=90m -run='TestNodesUnderFaults|TestRollingUpgrade' -v ./cmd/jobrunner

bench: ## The job API beside its floor, on a quiet machine: writes docs/reference/performance.md.
	go test -count=1 -run='^$$' -bench=. -benchtime=3x -timeout=60m ./internal/test/bench -bench.report=$(CURDIR)/docs/reference/performance.md

build: ## The three binaries, in bin/.
	@[ -e bin/jobrunner ] || echo "Building: the first time takes about three minutes on two cores."
	CGO_ENABLED=0 go build -trimpath -o bin/ .
	go build -trimpath $(LAZY) -o bin/ ./cmd/...

# PUSH=registry.example.com/team/jobrunner:1 also pushes it.
VERSION ?= $(shell git describe --tags --always --dirty)

image: ## The container image of the jobrunner for amd64 and arm64, in bin/image, without a container engine.
	@go run -C $(SYSTEM_MODULE) ./image -version=$(VERSION) -revision=$$(git rev-parse HEAD) -created=$$(git log -1 --format=%ct) $(if $(PUSH),-push=$(PUSH))

snapshot: ## Everything of a release, in bin/dist, without publishing it; PLATFORMS=here: archives for this platform alone.
	@PLATFORMS=$(PLATFORMS) tools/snapshot
	@go test -count=1 -timeout=10m -run=TestDist ./internal/test/release -dist=$(CURDIR)/bin/dist

platforms: ## The programs compile on each system: after a change that depends on one.
	for system in darwin windows freebsd; do GOOS=$$system CGO_ENABLED=0 go build . ./cmd/... || exit 1; done
	GOARCH=386 CGO_ENABLED=0 go build ./provider/...

site: ## The documentation as a website, in bin/site, with mkdocs (Debian: apt-get install mkdocs).
	mkdocs build --strict
	@echo "Open bin/site/index.html, or run: mkdocs serve"

# Where both CLIs look before they ask a registry.
PLUGINS := $(HOME)/.terraform.d/plugins
INSTALLED := gpucloud/gpucloud/0.0.1/$(shell go env GOOS)_$(shell go env GOARCH)

install: build ## The built provider, where Terraform and OpenTofu find it by themselves.
	@for host in registry.terraform.io registry.opentofu.org; do \
		mkdir -p "$(PLUGINS)/$$host/$(INSTALLED)" && cp bin/terraform-provider-gpucloud "$(PLUGINS)/$$host/$(INSTALLED)/" || exit 1; \
	done
	@echo "The provider is in $(PLUGINS). terraform init finds it there; after another build, remove .terraform.lock.hcl first."

lint: ## What CI checks beside the tests.
	go vet ./...
	go vet -C $(SYSTEM_MODULE) ./...
	cd tools && go build -o ../bin/ tool
	bin/golangci-lint run ./...
	cd $(SYSTEM_MODULE) && ../../../bin/golangci-lint run ./...
	cd tools/actionlint && go build -o ../../bin/ tool
	bin/actionlint -shellcheck= $(wildcard .github/workflows/*.yml examples/ci/github/.github/workflows/*.yml)

# tfplugindocs empties the guides of the folder that it writes to, so that it
# writes to one of its own.
docs: ## Generated documentation: docs/reference/contract.md, docs/reference/clauses.md, docs/reference/fidelity.md, docs/reference/licences.md, and docs/ of the provider.
	go generate ./internal/contract ./conformance/clauses ./internal/test/fidelity
	go run -C tools ./licences
	cd tools && go build -o ../bin/ github.com/hashicorp/terraform-plugin-docs/cmd/tfplugindocs
	terraform fmt -recursive examples
	rm -rf bin/docs $(addprefix docs/,resources data-sources ephemeral-resources list-resources actions functions)
	go run ./internal/testkit/dev schema > bin/schema.json
	bin/tfplugindocs generate --providers-schema bin/schema.json --provider-name gpucloud --rendered-provider-name gpucloud --rendered-website-dir bin/docs
	cp -R bin/docs/. docs/
