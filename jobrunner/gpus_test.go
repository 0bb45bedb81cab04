package jobrunner_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
)

// The catalog's API shows the machine's GPUs as available, even a type that the catalog
// lacks, and all other types as unavailable.
func TestTheMachinesGPUsAreInTheCatalog(t *testing.T) {
	inventory := must.Do(gpu.Simulate("mixed", slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(inventory.Close)
	d := deployWith(t, jobrunner.Config{GPUs: inventory})
	type answer struct {
		ID, Name, Manufacturer, Availability string
		Memory                               int
		Pool                                 *string
		CUDAVersions                         []struct {
			Version   string
			Available bool
		}
	}
	get := func(path string, into any) {
		t.Helper()
		text := d.must(http.StatusOK, "GET", "/v2/catalog/gpus"+path+"?include=AVAILABILITY&product=SERVERLESS", "").text
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%s: %s %v", path, text, err)
		}
	}
	var list struct{ GPUs []answer }
	get("", &list)
	available := map[string]string{}
	for _, g := range list.GPUs {
		available[g.ID] = g.Availability
	}
	for id, want := range map[string]string{"NVIDIA L40S": "HIGH", "NVIDIA H100 80GB HBM3": "HIGH", "NVIDIA TITAN RTX": "HIGH", "NVIDIA H200": "NONE"} {
		must.Equal(t, available[id], want, id)
	}
	var titan answer
	get("/NVIDIA%20TITAN%20RTX", &titan)
	if titan.Name != "TITAN RTX" || titan.Manufacturer != "NVIDIA" || titan.Memory != 24 || titan.Pool != nil ||
		len(titan.CUDAVersions) != 1 || titan.CUDAVersions[0].Version != "12.8" || !titan.CUDAVersions[0].Available {
		t.Errorf("%+v", titan)
	}
}
