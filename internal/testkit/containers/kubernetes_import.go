package containers

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
)

// Import loads the images of an archive, as written by `docker save`, on each node.
func (k *Kubernetes) Import(t testing.TB, archive string) {
	t.Helper()
	if err := k.importArchive(archive, k.allNodes()); err != nil {
		t.Fatal(err)
	}
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
