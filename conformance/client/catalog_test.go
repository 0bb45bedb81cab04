package client

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
)

//go:embed testdata/contract_ids.tsv
var contractIDs string

// namedIDs are the ids of a kind that the contract or one of its examples names.
func namedIDs(t *testing.T, kind string) (ids []string) {
	t.Helper()
	for line := range strings.Lines(contractIDs) {
		if k, id, _ := strings.Cut(strings.TrimSpace(line), "\t"); k == kind {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		t.Fatalf("testdata/contract_ids.tsv has no %s", kind)
	}
	return ids
}

// asks sends the scripted deployment a request.
func asks(t *testing.T, d *deployment, method, path string, body any) (status int, answer object) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, d.url+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer the-key")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, answer
}

// The scripted deployment offers every id that the contract names, and takes
// these and any other.
func TestCatalog(t *testing.T) {
	t.Parallel()
	d, err := startDeployment("the-key", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	const unknown = "Something New 9000"
	for _, c := range []struct {
		list, member, kind string
		table              []string
		bodies             func(id string) map[string]object // to create with it, by path
	}{
		{"gpus", "gpus", "gpu", contract.GPUTypeIDs, func(id string) map[string]object {
			return map[string]object{
				"/v1/endpoints":  {"name": "e", "gpuTypeIds": []any{id}},
				"/v2/serverless": {"name": "e", "gpu": map[string]any{"pools": []any{"ADA_24"}, "excludedTypes": []any{id}}},
			}
		}},
		{"cpus", "cpus", "cpu", contract.CPUFlavorIDs, func(id string) map[string]object {
			return map[string]object{
				"/v1/endpoints":  {"name": "e", "cpuFlavorIds": []any{id}},
				"/v2/serverless": {"name": "e", "cpu": []any{map[string]any{"id": id, "vcpuCount": 2.0}}},
			}
		}},
		{"datacenters", "dataCenters", "datacenter", contract.DataCenterIDs, func(id string) map[string]object {
			return map[string]object{
				"/v1/networkvolumes":  {"name": "v", "size": 10.0, "dataCenterId": id},
				"/v2/network-volumes": {"name": "v", "size": 10.0, "dataCenter": id},
				"/v1/endpoints":       {"name": "e", "dataCenterIds": []any{id}},
				"/v2/serverless":      {"name": "e", "dataCenterIds": []any{id}},
			}
		}},
	} {
		_, answer := asks(t, d, http.MethodGet, "/v2/catalog/"+c.list, nil)
		var offered []string
		items, _ := answer[c.member].([]any)
		for _, item := range items {
			o, _ := item.(map[string]any)
			id, _ := o["id"].(string)
			offered = append(offered, id)
		}
		for _, id := range append(namedIDs(t, c.kind), c.table...) {
			if !slices.Contains(offered, id) {
				t.Errorf("/v2/catalog/%s does not offer %q", c.list, id)
			}
		}
		for _, id := range append(offered, unknown) {
			if status, o := asks(t, d, http.MethodGet, "/v2/catalog/"+c.list+"/"+url.PathEscape(id), nil); status != http.StatusOK || o.text("id") != id || o.text("name") == "" {
				t.Errorf("/v2/catalog/%s/%s: %d %v", c.list, id, status, o)
			}
			for path, body := range c.bodies(id) {
				takes(t, d, path, body)
			}
		}
	}
}

// Every pool that the contract names is offered with a GPU, and taken, and so is
// any other.
func TestPools(t *testing.T) {
	t.Parallel()
	d, err := startDeployment("the-key", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	_, answer := asks(t, d, http.MethodGet, "/v2/catalog/gpus", nil)
	gpus, _ := answer["gpus"].([]any)
	for _, pool := range append(namedIDs(t, "pool"), contract.GPUPools...) {
		if !slices.ContainsFunc(gpus, func(gpu any) bool { return object(gpu.(map[string]any)).text("pool") == pool }) {
			t.Errorf("no GPU of the catalog is in %s", pool)
		}
		takes(t, d, "/v2/serverless", object{"name": "e", "gpu": map[string]any{"pools": []any{pool}}})
	}
	takes(t, d, "/v2/serverless", object{"name": "e", "gpu": map[string]any{"pools": []any{"NEW_9000"}}})
}

// takes creates an object, and expects all members of the body back.
func takes(t *testing.T, d *deployment, path string, body object) {
	t.Helper()
	status, o := asks(t, d, http.MethodPost, path, body)
	if status != http.StatusOK {
		t.Errorf("POST %s %v: %d %v", path, body, status, o)
		return
	}
	status, o = asks(t, d, http.MethodGet, path+"/"+o.text("id"), nil)
	for member, want := range body {
		sent, _ := json.Marshal(want)
		if got, _ := json.Marshal(o[member]); status != http.StatusOK || !bytes.Equal(got, sent) {
			t.Errorf("GET %s: %d, %s is %s, and %s was sent", path, status, member, got, sent)
		}
	}
}

// A path beside the catalog's is answered 404, and named.
func TestUnserved(t *testing.T) {
	t.Parallel()
	d, err := startDeployment("the-key", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	for _, path := range []string{"/v2/catalog/", "/v2/catalog/tpus", "/v2/catalog/gpus/", "/v2/pods", "/v2/pods"} {
		if status, _ := asks(t, d, http.MethodGet, path, nil); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	if want := []string{"GET /v2/catalog/", "GET /v2/catalog/tpus", "GET /v2/catalog/gpus/", "GET /v2/pods"}; !slices.Equal(d.unservedRequests(), want) {
		t.Errorf("%q", d.unservedRequests())
	}
}
