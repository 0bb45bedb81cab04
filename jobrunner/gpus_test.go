package jobrunner_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
)

// The catalog's API shows the machine's GPUs as available, even a type that the catalog
// lacks, and all other types as unavailable.
func TestTheMachinesGPUsAreInTheCatalog(t *testing.T) {
	inventory, err := gpu.Simulate("mixed", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(inventory.Close)
	j, err := jobrunner.New(t.Context(), jobrunner.Config{APIKey: "k", GPUs: inventory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	server := httptest.NewServer(j.Handler())
	t.Cleanup(server.Close)

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
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v2/catalog/gpus"+path+"?include=AVAILABILITY&product=SERVERLESS", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer k")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode == http.StatusOK {
			err = json.Unmarshal(text, into)
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s %v", path, resp.StatusCode, text, err)
		}
	}
	var list struct{ GPUs []answer }
	get("", &list)
	available := map[string]string{}
	for _, g := range list.GPUs {
		available[g.ID] = g.Availability
	}
	for id, want := range map[string]string{"NVIDIA L40S": "HIGH", "NVIDIA H100 80GB HBM3": "HIGH", "NVIDIA TITAN RTX": "HIGH", "NVIDIA H200": "NONE"} {
		if available[id] != want {
			t.Errorf("%s: %q, want %s", id, available[id], want)
		}
	}
	var titan answer
	get("/NVIDIA%20TITAN%20RTX", &titan)
	if titan.Name != "TITAN RTX" || titan.Manufacturer != "NVIDIA" || titan.Memory != 24 || titan.Pool != nil ||
		len(titan.CUDAVersions) != 1 || titan.CUDAVersions[0].Version != "12.8" || !titan.CUDAVersions[0].Available {
		t.Errorf("%+v", titan)
	}
}
