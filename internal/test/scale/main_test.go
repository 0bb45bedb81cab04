//go:build unix

// Package scale_test tests the provider at scale and under signals, with a real Terraform, the
// provider as its own process, and a deployment behind a proxy that counts, holds and drops
// requests.
package scale_test

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

// built is the folder with a folder per provider binary.
var built string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "gpucloud-scale-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// The packages of the providers' main functions.
const (
	ours          = "github.com/gpucloud/terraform-provider-gpucloud"
	null          = ours + "/internal/test/scale/nullprovider"
	panicProvider = ours + "/internal/test/scale/panicprovider"
)

var builds sync.Map // func() (dir string, err error) by package

// binary builds a provider once and returns its folder.
func binary(t testing.TB, pkg string) string {
	t.Helper()
	once, _ := builds.LoadOrStore(pkg, sync.OnceValues(func() (string, error) {
		dir := filepath.Join(built, filepath.Base(pkg))
		if err := gobuild.Programs(t.Context(), dir, pkg); err != nil {
			return "", err
		}
		return dir, os.Rename(filepath.Join(dir, path.Base(pkg)), filepath.Join(dir, "terraform-provider-gpucloud"))
	}))
	dir := must.Do(once.(func() (string, error))())(t)
	return dir
}

var findCLI = sync.OnceValues(func() (tfcli.CLI, error) { return tfcli.Default(context.Background()) })
