//go:build linux

package main_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/containers"
)

// withoutGPUs stands in for an engine on a machine with the GPUs that a test simulates:
// it passes everything on to the real one but the options that name GPUs.
const withoutGPUs = `#!/bin/sh
for word; do
	shift
	case "$word" in
	--gpus) skip=1; continue ;;
	--device) device=1; continue ;;
	esac
	[ -n "$skip" ] && { skip=; continue; }
	[ -n "$device" ] && { device=; case "$word" in nvidia.com/*) continue ;; esac; set -- "$@" --device; }
	set -- "$@" "$word"
done
exec %s "$@"
`

// newContainedClusters starts a deployment whose clusters are containers of an engine.
func newContainedClusters(t *testing.T, e *containers.Engine, settings string, gpus int, args ...string) *contained {
	t.Helper()
	c := &contained{handlers: &handlers{home: t.TempDir(), dir: t.TempDir(), env: e.Env}, engine: e}
	image(t, e)
	engine := filepath.Join(c.dir, e.Name)
	put(t, engine, fmt.Sprintf(withoutGPUs, e.Path))
	if err := os.Chmod(engine, 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	put(t, filepath.Join(c.home, "jobrunner.yaml"), "engine: "+engine+"\nrules:\n  - image: '**'\n    container: {"+settings+"}\n")
	put(t, c.machine(), fmt.Sprintf("gpus: [{type: NVIDIA L4, count: %d}]\n", gpus))
	c.start(t, append([]string{"--simulate-gpus=" + c.machine()}, args...)...)
	return c
}

// containedCluster makes a cluster of the program whose members greet each other.
func (c *contained) containedCluster(name string, pods int) string {
	c.t.Helper()
	args := `python3 -u -c '` + strings.ReplaceAll(clusterProgram, "'", `'"'"'`) + `'`
	return c.cluster(name, containedImage, pods, 1, fmt.Sprintf(`,"args":%q,"env":{"COLOR":%q}`, args, name))
}

// networksOf are the networks with a label.
func (c *contained) networksOf(label string) []string {
	c.t.Helper()
	return strings.Fields(c.engine.Output(c.t, "network", "ls", "--filter", "label="+label, "--format", "{{.Name}}"))
}

// TestRealClusters tries clusters of containers of a real Docker and Podman.
func TestRealClusters(t *testing.T) {
	t.Parallel()
	containers.Each(t, func(t *testing.T, e *containers.Engine) {
		image(t, e)
		t.Run("own network", func(t *testing.T) { realClusterNetwork(t, e) })
		t.Run("host network", func(t *testing.T) { realClusterOnHost(t, e) })
	})
}

// The containers of a cluster have addresses of their own in a network of the engine,
// which another cluster does not share. A kill -9 of the jobrunner leaves both, and the
// next one goes on with them; a deletion removes both, also one that was cut short.
func realClusterNetwork(t *testing.T, e *containers.Engine) {
	if e.Name == "podman" {
		t.Skip("each command of the tests' podman has mounts of its own, and so does not see the networks of others")
	}
	e.Network(t) // or there are none here
	c := newContainedClusters(t, e, "", 4)
	red, blue := c.containedCluster("red", 2), c.containedCluster("blue", 2)
	blocks := map[string]bool{}
	for name, id := range map[string]string{"red": red, "blue": blue} {
		shown := c.clusterIs(id, "RUNNING")
		members := c.members(id)
		knows := c.exchanges(members, name, 1)
		if shown.Network == nil || !strings.HasPrefix(shown.Network.CIDR, "10.65.") || blocks[shown.Network.CIDR] {
			t.Fatalf("%+v", shown)
		}
		blocks[shown.Network.CIDR] = true
		start := strings.TrimSuffix(shown.Network.CIDR, "0/24")
		for rank, m := range members {
			own := fmt.Sprint(start, rank+2)
			if want := []string{fmt.Sprint(rank), "2", "1", "2", own, start + "2", "29400"}; !slices.Equal(knows[rank], want) || m.Cluster.IP != own || m.GlobalNetworking.Enabled {
				t.Errorf("the member %d knows %q, want %q: %+v", rank, knows[rank], want, m.Cluster)
			}
		}
	}
	label := "gpucloud.cluster="
	if nets := c.networksOf(label + red); len(nets) != 1 {
		t.Fatalf("networks %v", nets)
	}
	before := c.clusterNow(red)
	held := c.podContainers(c.members(red)[1].ID)
	c.kill()
	c.start(t, "--simulate-gpus="+c.machine())
	if after := c.clusterIs(red, "RUNNING"); *after.Network != *before.Network || !slices.Equal(c.podContainers(c.members(red)[1].ID), held) {
		t.Errorf("the cluster was %+v and is %+v", before, after)
	}
	// One whose network was not removed before the jobrunner was killed.
	removed := c.members(blue)
	c.call(http.MethodDelete, "/v2/clusters/"+blue, "", nil)
	c.kill()
	c.start(t, "--simulate-gpus="+c.machine())
	c.until("the removal", func() bool {
		return len(c.networksOf(label+blue)) == 0 && len(c.podContainers(removed[0].ID)) == 0 && len(c.podContainers(removed[1].ID)) == 0
	})
	c.call(http.MethodDelete, "/v2/clusters/"+red, "", nil)
	c.until("the removal", func() bool { return len(c.networksOf(label+red)) == 0 })
	// A jobrunner that stops leaves none, and goes on with the same addresses.
	green := c.containedCluster("green", 3)
	before = c.clusterIs(green, "RUNNING")
	c.interrupt()
	if nets := c.networksOf("gpucloud.cluster"); len(nets) > 0 {
		t.Errorf("a jobrunner that stopped left the networks %v", nets)
	}
	c.start(t, "--simulate-gpus="+c.machine())
	if after := c.clusterIs(green, "RUNNING"); *after.Network != *before.Network {
		t.Errorf("the network was %+v and is %+v", before.Network, after.Network)
	}
	c.exchanges(c.members(green), "green", 2)
	c.interrupt()
}

// Containers in this machine's own network share its loopback, as processes do.
func realClusterOnHost(t *testing.T, e *containers.Engine) {
	c := newContainedClusters(t, e, "network: host", 2)
	id := c.containedCluster("red", 2)
	shown := c.clusterIs(id, "RUNNING")
	c.exchanges(c.members(id), "red", 1)
	if shown.Network == nil || shown.Network.CIDR != "127.0.0.0/8" {
		t.Errorf("%+v", shown)
	}
	c.call(http.MethodDelete, "/v2/clusters/"+id, "", nil)
	c.interrupt()
}
