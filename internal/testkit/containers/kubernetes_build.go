package containers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

const (
	// kubernetesVersion is the release of kubernetesPrograms.
	kubernetesVersion = "1.36.3"
	kubernetesModule  = "k8s.io/kubernetes"
)

var kubernetesPrograms = []string{"kube-apiserver", "kube-scheduler", "kubelet"}

// kubernetesFolder returns the folder of the programs, in the user's cache.
func kubernetesFolder() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "gpucloud", "kubernetes-"+kubernetesVersion), err
}

// BuildKubernetes compiles the programs of a cluster into the user's cache, which takes some
// minutes, and returns their folder. It keeps existing programs.
func BuildKubernetes(ctx context.Context) (folder string, err error) {
	if folder, err = kubernetesFolder(); err != nil {
		return "", err
	}
	absent := slices.DeleteFunc(slices.Clone(kubernetesPrograms), func(program string) bool {
		_, err := os.Stat(filepath.Join(folder, program))
		return err == nil
	})
	if len(absent) == 0 { // the sources aren't needed, and may be unreachable
		return folder, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(folder, ".build-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := writeKubernetesModule(ctx, work); err != nil {
		return "", fmt.Errorf("the modules of Kubernetes %s: %w", kubernetesVersion, err)
	}
	build := []string{"build", "-mod=mod", "-ldflags=-s -w", "-o", work + "/"} // one command, so that a program is compiled while another is linked
	for _, program := range absent {
		build = append(build, kubernetesModule+"/cmd/"+program)
	}
	if _, err := gobuild.RunGo(ctx, work, build...); err != nil {
		return "", fmt.Errorf("building Kubernetes: %w", err)
	}
	for _, program := range absent {
		if err := os.Rename(filepath.Join(work, program), filepath.Join(folder, program)); err != nil {
			return "", err
		}
	}
	return folder, nil
}

// writeKubernetesModule writes a module that requires Kubernetes. The go.mod of Kubernetes replaces modules
// with folders that its archive lacks. The written module requires those modules in the versions of the same release.
func writeKubernetesModule(ctx context.Context, work string) error {
	if err := writeFile(work, "go.mod", "module build\n", 0o600); err != nil {
		return err
	}
	if _, err := gobuild.RunGo(ctx, work, "mod", "download", kubernetesModule+"@v"+kubernetesVersion); err != nil {
		return err
	}
	cache, err := gobuild.RunGo(ctx, work, "env", "GOMODCACHE")
	if err != nil {
		return err
	}
	source := filepath.Join(strings.TrimSpace(string(cache)), kubernetesModule+"@v"+kubernetesVersion)
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return err
		}
		if err := writeFile(work, name, dependentModule(string(text)), 0o600); err != nil {
			return err
		}
	}
	if err := writeFile(work, "build.go", "package build\n\nimport _ \""+kubernetesModule+"/cmd/kube-apiserver/app\"\n", 0o600); err != nil {
		return err
	}
	_, err = gobuild.RunGo(ctx, work, "mod", "edit", "-require="+kubernetesModule+"@v"+kubernetesVersion)
	return err
}

// dependentModule converts the go.mod of Kubernetes to one for a module that requires it. It doesn't change a go.sum.
func dependentModule(mod string) string {
	_, minorAndPatch, _ := strings.Cut(kubernetesVersion, ".")
	var out strings.Builder
	for line := range strings.Lines(mod) {
		switch {
		case strings.HasPrefix(line, "module "):
			line = "module build\n"
		case strings.Contains(line, "=> ./staging/"):
			continue
		}
		out.WriteString(strings.Replace(line, " v0.0.0\n", " v0."+minorAndPatch+"\n", 1))
	}
	return out.String()
}

// Import loads the images of an archive, as written by `docker save`, on each node.
func (k *Kubernetes) Import(t testing.TB, archive string) {
	t.Helper()
	must.Succeed(t, k.importArchive(archive, k.allNodes()))
}

func (k *Kubernetes) importArchive(path string, nodes []int) error {
	for _, node := range nodes {
		socket := filepath.Join(k.dir, fmt.Sprintf("containerd%d.sock", node))
		err := await(func() error {
			out, err := exec.Command("ctr", "-a", socket, "-n", "k8s.io", "images", "import", path).CombinedOutput() //nolint:noctx,gosec // the test's own cluster
			if err != nil {
				return fmt.Errorf("ctr images import: %w: %s", err, out)
			}
			return nil
		}, filepath.Join(k.dir, fmt.Sprintf("containerd%d.log", node)))
		if err != nil {
			return err
		}
	}
	return nil
}
