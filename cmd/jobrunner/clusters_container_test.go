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

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/containers"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// withoutGPUs is an engine program that drops GPU options and calls the real engine, so that tests
// can simulate GPUs.
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

// newContainerClusters starts a deployment whose clusters are containers of an engine.
func newContainerClusters(t *testing.T, e *containers.Engine, settings string, gpus int, args ...string) *containerDeployment {
	t.Helper()
	engine := filepath.Join(t.TempDir(), e.Name)
	put(t, engine, fmt.Sprintf(withoutGPUs, e.Path))
	if err := os.Chmod(engine, 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	c := prepareContainers(t, e, engine, settings)
	put(t, c.machine(), fmt.Sprintf("gpus: [{type: NVIDIA L4, count: %d}]\n", gpus))
	c.start(t, append([]string{"--simulate-gpus=" + c.machine()}, args...)...)
	return c
}

// greetingCluster creates a cluster whose members greet each other.
func (c *containerDeployment) greetingCluster(name string, pods int) string {
	c.t.Helper()
	return c.createCluster(name, handlerImage, pods, 1, fmt.Sprintf(`,"args":%q,"env":{"COLOR":%q}`, pythonArgs(clusterProgram), name))
}

// networksOf returns the networks with a label.
func (c *containerDeployment) networksOf(label string) []string {
	c.t.Helper()
	return strings.Fields(c.engine.Output(c.t, "network", "ls", "--filter", "label="+label, "--format", "{{.Name}}"))
}

// TestRealClusters tests clusters of containers with a real Docker and Podman.
func TestRealClusters(t *testing.T) {
	acctest.LeaveToCI(t, "TestPodsFollowTheModel tests clusters of processes")
	t.Parallel()
	containers.Each(t, func(t *testing.T, e *containers.Engine) {
		requireImage(t, e)
		t.Run("own network", func(t *testing.T) { realClusterNetwork(t, e) })
		t.Run("host network", func(t *testing.T) { realClusterOnHost(t, e) })
	})
}

// The containers of a cluster have addresses in the cluster's own network. Containers and
// network survive a kill -9 of the jobrunner, and the next jobrunner adopts them. A deletion
// removes them, even if it was interrupted.
func realClusterNetwork(t *testing.T, e *containers.Engine) {
	if e.Name == "podman" {
		t.Skip("each command of the tests' podman has separate mounts and doesn't see networks of other commands")
	}
	e.Network(t) // skips the test without a container network
	c := newContainerClusters(t, e, "", 4)
	red, blue := c.greetingCluster("red", 2), c.greetingCluster("blue", 2)
	blocks := map[string]bool{}
	for name, id := range map[string]string{"red": red, "blue": blue} {
		shown := c.awaitClusterStatus(id, "RUNNING")
		members := c.members(id)
		variables := c.awaitGreetings(members, name, 1)
		if shown.Network == nil || !strings.HasPrefix(shown.Network.CIDR, "10.65.") || blocks[shown.Network.CIDR] {
			t.Fatalf("%+v", shown)
		}
		blocks[shown.Network.CIDR] = true
		start := strings.TrimSuffix(shown.Network.CIDR, "0/24")
		for rank, m := range members {
			own := fmt.Sprint(start, rank+2)
			if want := []string{fmt.Sprint(rank), "2", "1", "2", own, start + "2", "29400"}; !slices.Equal(variables[rank], want) || m.Cluster.IP != own || m.GlobalNetworking.Enabled {
				t.Errorf("the member %d knows %q, want %q: %+v", rank, variables[rank], want, m.Cluster)
			}
		}
	}
	label := "gpucloud.cluster="
	if nets := c.networksOf(label + red); len(nets) != 1 {
		t.Fatalf("networks %v", nets)
	}
	before := c.getCluster(red)
	containersBefore := c.podContainers(c.members(red)[1].ID)
	c.kill()
	c.start(t, "--simulate-gpus="+c.machine())
	after := c.awaitClusterStatus(red, "RUNNING")
	must.Hold(t, *after.Network == *before.Network && slices.Equal(c.podContainers(c.members(red)[1].ID), containersBefore), "the cluster was", before, after)
	// The jobrunner is killed before it removes the network.
	removed := c.members(blue)
	c.call(http.MethodDelete, "/v2/clusters/"+blue, "", nil)
	c.kill()
	c.start(t, "--simulate-gpus="+c.machine())
	c.until("the removal", func() bool {
		return len(c.networksOf(label+blue)) == 0 && len(c.podContainers(removed[0].ID)) == 0 && len(c.podContainers(removed[1].ID)) == 0
	})
	c.call(http.MethodDelete, "/v2/clusters/"+red, "", nil)
	c.until("the removal", func() bool { return len(c.networksOf(label+red)) == 0 })
	// A stopped jobrunner leaves no network. After its next start the addresses are the same.
	green := c.greetingCluster("green", 3)
	before = c.awaitClusterStatus(green, "RUNNING")
	c.interrupt()
	must.Equal(t, c.networksOf("gpucloud.cluster"), nil, "a stopped jobrunner left the networks")
	c.start(t, "--simulate-gpus="+c.machine())
	after = c.awaitClusterStatus(green, "RUNNING")
	must.Hold(t, *after.Network == *before.Network, "the network was", before.Network, after.Network)
	c.awaitGreetings(c.members(green), "green", 2)
	c.interrupt()
}

// Containers in the host network share its loopback address, like processes.
func realClusterOnHost(t *testing.T, e *containers.Engine) {
	c := newContainerClusters(t, e, "network: host", 2)
	id := c.greetingCluster("red", 2)
	shown := c.awaitClusterStatus(id, "RUNNING")
	c.awaitGreetings(c.members(id), "red", 1)
	must.Hold(t, shown.Network != nil && shown.Network.CIDR == "127.0.0.0/8", shown)
	c.call(http.MethodDelete, "/v2/clusters/"+id, "", nil)
	c.interrupt()
}
