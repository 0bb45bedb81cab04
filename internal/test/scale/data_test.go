//go:build unix

package scale_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// A plan with a thousand data sources by id, a thousand by name and one of all objects lists
// their kind once.
func TestCallsOfDataSources(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 20
	}
	eachVersion(t, func(t *testing.T, v api.Version) {
		d := deploy(t)
		for i := range n {
			d.makeVolume(t, fmt.Sprint("v", i))
		}
		tf := workspace(t, d, ours, v)
		tf.configure(fmt.Sprintf(`data "gpucloud_network_volumes" "all" {}
data "gpucloud_network_volume" "by_name" {
  count = %d
  name  = "v${count.index}"
}
data "gpucloud_network_volume" "by_id" {
  count = %[1]d
  id    = data.gpucloud_network_volumes.all.network_volumes[count.index].id
}
`, n))
		calls := d.counted(func() {
			if out := tf.run("plan"); !strings.Contains(out, "No changes.") {
				t.Errorf("the plan has changes:\n%s", out)
			}
		})
		want := map[api.Version]map[string]int{
			api.V1: {"GET /v1/networkvolumes": 1, "GET /v1/templates": 1}, // Configure lists the templates
			api.V2: {"GET /v2/network-volumes": 1, "GET /v2/templates": 1},
		}[v]
		if !maps.Equal(calls, want) {
			t.Errorf("%d data sources made the calls %v, expected %v", 2*n+1, calls, want)
		}
	})
}

// makeVolume creates a network volume without Terraform.
func (d *deployment) makeVolume(t *testing.T, name string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, d.url+"/v2/network-volumes", strings.NewReader(fmt.Sprintf(`{"name":%q,"size":10,"dataCenter":"EU-RO-1"}`, name)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode > 299 {
		t.Fatalf("%s: %s %v", resp.Status, text, err)
	}
}
