# Needs only Go and make. Terraform or OpenTofu is taken from PATH, else fetched.

# The race detector needs a C compiler.
RACE := $(shell command -v $$(go env CC) >/dev/null 2>&1 && echo -race)

# NVML's header marks much as deprecated that its binding has to have.
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations
comma := ,
# NVML is loaded at run time: its functions must not be looked for before.
LAZY := $(if $(filter linux,$(shell go env GOOS)),-ldflags '-extldflags=-Wl$(comma)-z$(comma)lazy')

# The packages whose tests drive a command line.
ACCEPTANCE := ./resources/... ./provider/... ./internal/test/scale/... ./conformance/client/...

# go test shows results in the order of the packages: first those that compile in
# seconds, last those whose tests start Terraform, databases, processes or a browser.
TESTED = $(shell go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)
SMALL := $(addprefix %/,jobrunner/limits jobrunner/clock jobrunner/rawjson conformance/wire)
LARGE := $(addprefix %/,resources jobrunner/workerapi internal/test/scale jobrunner/engine conformance/selftest cmd/jobrunner \
	internal/test/fire jobrunner/page conformance/mutants/run conformance/client cmd/conformance)

.PHONY: help quickstart test test-all test-tofu clis fire mutants variants fuzz soak bench build lint docs

help: ## This list.
	@sed -n 's/^\([a-z-]*\):.* ## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F '\t' '{printf "%-12s %s\n", $$1, $$2}'

quickstart: build ## From nothing to a running endpoint, and back to nothing.
	@go run ./internal/quickstart

test: ## A sample of every kind of test, those with a real Terraform included.
	@echo "Testing. Without a build cache, compiling comes first: a minute or two on two cores."
	@go test -short $(filter $(SMALL),$(TESTED)) $(filter-out $(SMALL) $(LARGE),$(TESTED)) \
		$(foreach package,$(LARGE),$(filter $(package),$(TESTED)))

# The packages that drive other processes through all variants, or virtual hours:
# there the race detector costs a quarter of an hour, and a sample has it.
DRIVERS := %/conformance/mutants/run %/conformance/selftest

test-all: ## Every test, with the race detector where the code runs in the test.
	go test $(RACE) -timeout=30m $(filter-out $(DRIVERS),$(shell go list ./...))
	go test $(RACE) -short -timeout=30m ./conformance/selftest
	go test -timeout=30m ./conformance/selftest ./conformance/mutants/run

clis: ## OpenTofu and a newer Terraform, built once from their modules into the user's cache.
	@go run ./internal/clis

test-tofu: ## The acceptance tests and the quickstart with OpenTofu, where it is present.
	@tofu=$$(go run ./internal/clis --find tofu) || exit 1; [ -z "$$tofu" ] || { export TF_ACC_TERRAFORM_PATH=$$tofu; \
		echo "OpenTofu: $$tofu"; $(MAKE) --no-print-directory quickstart && go test $(ACCEPTANCE); }

fire: ## The provider under a thousand generated schedules of faults, on each version.
	go test ./internal/test/fire -count=1 -timeout=40m -run=TestFire$$ -fire.n=1000 -fire.fresh=100

mutants: ## Each fault of a jobrunner against its clause; FULL=1: against all that do not load it.
	go run ./conformance/mutants/run $(if $(FULL),--full)

variants: ## Each deployment that differs where the contract leaves a choice, against the whole suite.
	go run ./conformance/mutants/run --variants

# Each target has so long. What it finds is in testdata/fuzz, where plain go test
# fails for it; an engine that was only busy when its time was up found nothing. FUZZ is a part of its name: make fuzz FUZZ=FuzzBodies FUZZTIME=10m
FUZZTIME ?= 30s
FUZZ ?= .

fuzz: ## Each decoder of what others send, on generated input for FUZZTIME; FUZZ=name chooses.
	@for folder in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		targets=$$(go test -list '^Fuzz' $$folder) || { echo "$$targets"; exit 1; }; \
		for target in $$(echo "$$targets" | grep '^Fuzz' | grep -e '$(FUZZ)'); do \
			echo "== $$folder $$target"; \
			go test -run='^$$' -fuzz="^$$target$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x -parallel=1 $$folder || \
				go test -count=1 -run="^$$target$$" $$folder || exit 1; \
		done; \
	done

soak: ## A hundred runs of the conformance suite, shuffled: the same verdicts.
	CONFORMANCE_RUNS=100 go test -count=1 -timeout=40m -run=TestJobrunnerConforms$$ ./conformance/selftest

bench: ## The job API beside its floor, on a quiet machine: writes docs/performance.md.
	go test -count=1 -run='^$$' -bench=. -benchtime=3x -timeout=60m ./internal/bench -bench.report=$(CURDIR)/docs/performance.md

build: ## The three binaries, in bin/.
	CGO_ENABLED=0 go build -trimpath -o bin/ .
	go build -trimpath $(LAZY) -o bin/ ./cmd/...

lint: ## What CI checks beside the tests.
	go vet ./...
	cd tools && go build -o ../bin/ tool
	bin/golangci-lint run ./...

# tfplugindocs empties the guides of the folder that it writes to, so that it
# writes to one of its own.
docs: ## Generated documentation: docs/contract.md, docs/clauses.md, and docs/ of the provider.
	go generate ./internal/testkit/contract ./conformance/clauses
	cd tools && go build -o ../bin/ tool
	terraform fmt -recursive examples
	rm -rf bin/docs docs/resources
	bin/tfplugindocs generate --provider-name gpucloud --rendered-provider-name gpucloud --rendered-website-dir bin/docs
	cp -R bin/docs/. docs/
