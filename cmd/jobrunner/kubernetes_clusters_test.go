//go:build linux

package main_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// The members of a cluster are Pods that know the primary's address. They survive a kill -9 of the
// jobrunner, and the next one adopts them. If the primary's Pod is gone by then, it is replaced,
// and the others restart with the new address. A cluster without enough GPUs has no Pods.
func clusterOfPods(t *testing.T) {
	c := newInCluster(t)
	make := func(name string, pods int) string {
		return c.createCluster(name, clusterImage, pods, 1, fmt.Sprintf(`,"args":%q,"env":{"COLOR":%q}`, pythonArgs(clusterProgram), name))
	}
	podsOf := func(id string) (names []string) {
		for _, m := range c.members(id) {
			for _, pod := range c.podsWithLabel("pod", m.ID) {
				names = append(names, pod.Metadata.Name)
			}
		}
		return names
	}
	exchange := func(id string, nth int) (primary string) {
		shown := c.awaitClusterStatus(id, "RUNNING")
		must.Hold(t, shown.Network == nil, "a network of its own", shown)
		members := c.members(id)
		primary = members[0].Cluster.IP
		for rank, variables := range c.awaitGreetings(members, "red", nth) {
			want := []string{fmt.Sprint(rank), "2", "1", "2", members[rank].Cluster.IP, primary, "29400"}
			must.Equal(t, variables, want, "the member", rank, "knows")
		}
		return primary
	}
	red := make("red", 2)
	primary := exchange(red, 1)
	before := podsOf(red)

	blue := make("blue", 5) // only four of six are free
	c.awaitReason(c.members(blue)[1].ID, "NVIDIA L4")
	created := podsOf(blue)
	must.Hold(t, len(before) == 2 && len(created) == 0, "Pods", before, created)
	c.call(http.MethodDelete, "/v2/clusters/"+blue, "", nil)

	c.kill()
	c.begin()
	if now := exchange(red, 1); now != primary || !slices.Equal(podsOf(red), before) {
		t.Errorf("the Pods were %v and are %v, the primary's address was %s and is %s", before, podsOf(red), primary, now)
	}
	c.kill()
	c.cluster.DeletePod(t, before[0])
	c.begin()
	c.until("another primary", func() bool {
		now := podsOf(red)
		return len(now) == 2 && now[0] != before[0] && now[1] != before[1]
	})
	exchange(red, 2)
	members := c.members(red)
	c.call(http.MethodDelete, "/v2/clusters/"+red, "", nil)
	c.until("the removal", func() bool {
		return !slices.ContainsFunc(members, func(m memberFacts) bool { return len(c.podsWithLabel("pod", m.ID)) > 0 })
	})
	c.interrupt()
}
