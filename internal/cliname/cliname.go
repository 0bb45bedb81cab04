// Package cliname says which command line runs a provider: Terraform or
// OpenTofu. The plugin protocol does not: OpenTofu 1.12 calls itself Terraform
// 1.13.0, and the environment and the metadata of its calls are Terraform's. A
// provider is a child process of the command line, so the parent's executable
// answers.
package cliname

import (
	"debug/buildinfo"
	"path/filepath"
	"strings"
	"sync"
)

// The commands of the two command lines.
const (
	Terraform = "terraform"
	OpenTofu  = "tofu"
)

// openTofuModule is the module that OpenTofu's releases are built from.
const openTofuModule = "github.com/opentofu/opentofu"

// Name returns the command that a user types: "tofu" where the parent process
// is OpenTofu, else "terraform". It is also "terraform" where the parent is
// neither: with a provider under a debugger or in a test.
func Name() string { return name() }

var name = sync.OnceValue(func() string {
	executable, err := parentExecutable()
	if err != nil {
		return Terraform
	}
	return identify(executable)
})

// identify reads the module path that Go writes into each executable, because
// version managers and packages rename the file. A build without that path is
// judged by its file name.
func identify(e executable) string {
	info, err := buildinfo.ReadFile(e.open)
	if err == nil && info.Main.Path != "" {
		if info.Main.Path == openTofuModule {
			return OpenTofu
		}
		return Terraform
	}
	if strings.HasPrefix(strings.ToLower(filepath.Base(e.path)), OpenTofu) {
		return OpenTofu
	}
	return Terraform
}

// executable is the program file of a process.
type executable struct {
	path string // where the file was when the process started
	open string // where to read it
}
