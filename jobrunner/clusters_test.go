package jobrunner_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
)

// Running pods of a cluster are billed to the cluster and not as pods.
func TestBillingOfClusters(t *testing.T) {
	machine := filepath.Join(t.TempDir(), "gpus.yaml")
	must.Succeed(t, os.WriteFile(machine, []byte("gpus: [{type: NVIDIA L4, count: 4}]"), 0o600))
	inventory := must.Do(gpu.Simulate(machine, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(inventory.Close)
	d := deployWith(t, jobrunner.Config{AdminClock: true, GPUs: inventory, Catalog: catalogFile(t, `
gpus: [{id: NVIDIA L4, price: {secure: 0.5}}]
storage: {disk: 0.73}
`)})
	d.stopClock()
	id, _ := d.must(201, "POST", "/v2/clusters", `{"name":"c","type":"TRAINING","image":"builtin/echo","disk":10,"compute":{"gpuTypeId":"NVIDIA L4","gpuCountPerPod":2,"podCount":2}}`).at("id").(string)
	waitFor(t, func() (bool, any) {
		c := d.must(200, "GET", "/v2/clusters/"+id, "")
		return c.at("pods.byStatus.RUNNING") != nil && c.at("pods.byStatus.PROVISIONING") == nil && c.at("pods.byStatus.STARTING") == nil, c.text
	})
	d.advance(30 * time.Minute)
	d.must(204, "DELETE", "/v2/clusters/"+id, "")
	// 4 GPUs at 0.5 and 2 disks of 10 GB at 0.001, for half an hour.
	d.awaitBilled("/v2/billing/clusters?bucketSize=hour&lastN=2&clusterId="+id, "1.01")
	d.advance(time.Hour)
	d.must(200, "GET", "/v2/billing/clusters?bucketSize=hour&lastN=4", "").expect(map[string]string{"metadata.totals.totalAmount": "1.01", "metadata.uniqueClusterCount": "1"})
	d.must(200, "GET", "/v2/billing/pods?bucketSize=hour&lastN=4", "").expect(map[string]string{"metadata.totals.totalAmount": "0", "metadata.uniquePodCount": "0"})
}
