package kubernetes

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// The guide grants exactly the permissions that are used.
func TestRights(t *testing.T) {
	yes := true
	self := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "self", Namespace: "gpucloud", OwnerReferences: []meta.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "set", Controller: &yes}}}}
	s := simulateAs(t, "self", self)
	// so that the worker's Pod is the only one
	must.Succeed(t, s.fake.CoreV1().Pods("gpucloud").Delete(t.Context(), "self", meta.DeleteOptions{}))
	must.Do(s.Inventory(t.Context()))(t)
	for i := range 2 {
		w := plain()
		w.Mounts = []run.Mount{{Name: "volume-v", Size: int64(10 + i), Path: "/v"}}
		_, process := s.run(w)
		process.Stop(0)
	}
	must.Do(s.RemoveRun(t.Context(), "run-1"))(t)
	must.Succeed(t, s.RemoveVolume(t.Context(), "volume-v"))
	s.beginPod(podSpec("d1"))
	used := map[string]bool{}
	for _, a := range s.fake.Actions() {
		resource := a.GetResource().Resource
		if a.GetSubresource() != "" {
			resource += "/" + a.GetSubresource()
		}
		used[resource+" "+a.GetVerb()] = true
	}
	delete(used, "version get")        // everyone has this permission
	delete(used, "pods/status update") // used only by the test
	guide := must.ReadFile(t, "../../../docs/guides/kubernetes.md")
	granted := map[string]bool{}
	for _, block := range regexp.MustCompile("(?s)```yaml\n# role.yaml\n(.*?)```").FindAllStringSubmatch(string(guide), -1) {
		for document := range strings.SplitSeq(block[1], "\n---\n") {
			var role struct {
				Rules []struct {
					APIGroups        []string `yaml:"apiGroups"`
					Resources, Verbs []string
				}
			}
			must.Succeed(t, yaml.Unmarshal([]byte(document), &role))
			for _, rule := range role.Rules {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						granted[resource+" "+verb] = true
					}
				}
			}
		}
	}
	if !maps.Equal(used, granted) {
		t.Errorf("used: %q\ngranted by the guide: %q", slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(granted)))
	}
}
