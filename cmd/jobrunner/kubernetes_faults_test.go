//go:build linux

package main_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/containers"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// If a part of the cluster fails under load, each acknowledged job completes, was retried at most
// once, and ran at most once more than its retries say. The workers need the GPUs of both nodes.
// KUBERNETES_ROUNDS=10 repeats each fault ten times.
func testKubernetesFaults(t *testing.T) {
	k := containers.StartKubernetes(t)
	k.SetGPUs(t, 1, 2, "NVIDIA-L4")
	k.SetGPUs(t, 2, 1, "NVIDIA-L4")
	c := startInCluster(t)
	volume := c.createVolume()
	c.createEndpoint("/v2/serverless", `{"name": "e", "image": "`+clusterImage+`", "gpu": {"pools": ["ADA_24"], "count": 1}, "networkVolumes": ["`+volume+`"],
		"workers": {"min": 0, "max": 3}, "scaling": {"type": "REQUEST_COUNT", "requestCount": 1}}`)
	killAndRestart := func(program string, downtime time.Duration) func() {
		return func() {
			k.Kill(t, program)
			time.Sleep(downtime) // under load
			k.Restart(t, program)
		}
	}
	faults := []struct {
		name  string
		fault func()
	}{
		{"kubelet", func() {
			killAndRestart(containers.Kubelet, 3*time.Second)()
			k.SetGPUs(t, 1, 2, "NVIDIA-L4") // registers again, like a device plugin
		}},
		{"API server", killAndRestart(containers.APIServer, 3*time.Second)},
	}
	rounds := max(1, must.Do(strconv.Atoi(cmp.Or(os.Getenv("KUBERNETES_ROUNDS"), "1")))(t))
	if testing.Short() {
		faults = faults[:1]
	}
	for _, f := range faults {
		var total jobCounts
		for range rounds {
			total.add(c.causeUnderLoad(f.fault, volume))
		}
		t.Logf("%s, %d times: %s", f.name, rounds, total)
	}
	c.interrupt()
	c.awaitEmpty()
}

// causeUnderLoad causes a fault while clients submit jobs, and expects that all complete.
func (c *inCluster) causeUnderLoad(fault func(), volume string) (counts jobCounts) {
	c.t.Helper()
	ctx, endLoad := context.WithCancel(c.t.Context())
	defer endLoad()
	var mu sync.Mutex
	names, nodes := map[string]string{}, map[string]bool{} // names of the jobs by id; nodes that ran any
	var clients sync.WaitGroup
	var finished atomic.Int64
	for i := range 6 {
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				name := fmt.Sprintf("%d-%d-%d", i, n, rand.Int64())
				job, err := c.client("k").Jobs.Run(c.t.Context(), c.endpoint, api.Submission{Input: fmt.Appendf(nil, `{"name": %q, "ms": %d}`, name, rand.IntN(300))})
				if err != nil { // the job API doesn't depend on the cluster
					c.t.Errorf("a submission fails: %v", err)
					return
				}
				mu.Lock()
				names[job.ID] = name
				mu.Unlock()
				for !job.Finished() && ctx.Err() == nil {
					time.Sleep(50 * time.Millisecond)
					if job, err = c.client("k").Jobs.Status(c.t.Context(), c.endpoint, job.ID); err != nil {
						c.t.Error(err)
						return
					}
				}
				finished.Add(1)
			}
		})
	}
	c.waitUntil("work on both nodes", func() bool {
		for _, pod := range c.pods() {
			var spec struct{ NodeName string }
			must.Succeed(c.t, json.Unmarshal(pod.Spec, &spec))
			nodes[spec.NodeName] = true
		}
		delete(nodes, "") // not scheduled yet
		return len(nodes) == 2 && finished.Load() >= 20
	})
	fault()
	time.Sleep(2 * time.Second)
	endLoad()
	clients.Wait()
	counts = jobCounts{acknowledged: len(names), takes: map[int]int{}}
	c.dir = c.cluster.ClaimFolder(c.t, "gpucloud-volume-"+volume)
	for _, id := range slices.Sorted(maps.Keys(names)) {
		job := c.awaitEnd(id)
		var got answer
		if err := json.Unmarshal(job.Output, &got); err != nil || job.Status != "COMPLETED" || got.Name != names[id] || job.Retries > 1 {
			c.t.Errorf("the job %s is %+v, want its name in the output", names[id], job)
			continue
		}
		counts.completed++
		counts.retried += job.Retries
		takes := c.countTakes()[names[id]]
		must.Hold(c.t, takes >= 1 && takes <= 1+job.Retries, "the job", id, "began", takes, "times and was retried", job.Retries, "times")
		counts.takes[takes]++
	}
	return counts
}
