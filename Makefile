# Needs only Go and make. Terraform or OpenTofu is taken from PATH, else fetched.

# The race detector needs a C compiler.
RACE := $(shell command -v $$(go env CC) >/dev/null 2>&1 && echo -race)

.PHONY: quickstart test build lint docs

quickstart: build ## From nothing to a running endpoint, and back to nothing.
	@go run ./internal/quickstart

test: ## Every test, acceptance tests with a real Terraform included.
	go test $(RACE) ./...

build: ## The three binaries, in bin/.
	CGO_ENABLED=0 go build -trimpath -o bin/ .
	go build -trimpath -o bin/ ./cmd/...

lint: ## What CI checks beside the tests.
	go vet ./...
	cd tools && go build -o ../bin/ tool
	bin/golangci-lint run ./...

docs: ## Generated documentation: docs/contract.md, and docs/ of the provider.
	go generate ./internal/contract
	cd tools && go build -o ../bin/ tool
	terraform fmt -recursive examples
	bin/tfplugindocs generate --provider-name gpucloud --rendered-provider-name gpucloud
