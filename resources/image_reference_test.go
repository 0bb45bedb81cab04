package resources_test

import (
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

// The plan of every kind rejects a text that no container engine accepts as an image reference.
// The deployment decides about the others.
func TestImageReferences(t *testing.T) {
	d, p := deploy(t)
	kinds := map[string]map[string]any{
		endpointType:        {"name": "e"},
		podType:             {"name": "p", "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 2}},
		clusterType:         {"name": "c", "type": "TRAINING", "compute": map[string]any{"gpu_type_id": "NVIDIA L4", "gpu_count_per_pod": 1, "pod_count": 2}},
		"gpucloud_template": {"name": d.Name("t")},
	}
	for kind, config := range kinds {
		for _, image := range []string{"my image:1", " worker:1", "worker:1\n", "worker:", "https://ghcr.io/acme/worker", "worker@sha256:12", "a//b"} {
			expectRefusal(t, d, p, tfdrive.State{}, kind, with(config, map[string]any{"image": image}), "image", "Invalid image: expected the reference of a container image, such as ghcr.io/acme/worker:1.2, got ")
		}
		for _, image := range []string{
			"nginx", "ghcr.io/acme/worker:1.2", "localhost:5000/a/b/c_d__e-f.g:Tag_1.x-y", "registry.example.com:443/Team/App:V1", "10.0.0.1:5000/x",
			"worker@sha256:" + strings.Repeat("0", 64), "ghcr.io/a/b:1@sha256:" + strings.Repeat("aF", 32), "[::1]:5000/x", strings.Repeat("a", 64), "a/" + strings.Repeat("b", 300),
		} {
			if err := p.Plan(kind, tfdrive.State{}, with(config, map[string]any{"image": image})).Diagnostics.Err(); err != nil {
				t.Errorf("%s: %s is refused: %s", kind, image, err)
			}
		}
	}
}
