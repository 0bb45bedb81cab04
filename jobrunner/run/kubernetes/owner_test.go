package kubernetes

import (
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

func ownedBy(apiVersion, kind, name string) []meta.OwnerReference {
	yes := true
	return []meta.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: "uid", Controller: &yes}}
}

// The jobrunner's Pod owns workers; the Pod's own owner owns pods, so that they outlive the Pod.
func TestOwners(t *testing.T) {
	about := func(name string, owners []meta.OwnerReference) meta.ObjectMeta {
		return meta.ObjectMeta{Name: name, Namespace: "gpucloud", OwnerReferences: owners}
	}
	for name, c := range map[string]struct {
		objects         []runtime.Object
		worker, lasting string
	}{
		"a Deployment": {[]runtime.Object{
			&core.Pod{ObjectMeta: about("self", ownedBy("apps/v1", "ReplicaSet", "set"))}, &apps.ReplicaSet{ObjectMeta: about("set", ownedBy("apps/v1", "Deployment", "jobrunner"))},
		}, "Pod self", "Deployment jobrunner"},
		"a StatefulSet":  {[]runtime.Object{&core.Pod{ObjectMeta: about("self", ownedBy("apps/v1", "StatefulSet", "jobrunner"))}}, "Pod self", "StatefulSet jobrunner"},
		"a Pod alone":    {[]runtime.Object{&core.Pod{ObjectMeta: about("self", nil)}}, "Pod self", "Pod self"},
		"another's name": {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := simulateAs(t, "self", c.objects...)
			for want, w := range map[string]run.Spec{"worker": plain(), "lasting": podSpec("d1"), "ephemeral": podSpec("")} {
				o := must.Do(s.build(w))(t)
				got := ""
				for _, owner := range o.pod.OwnerReferences {
					got += owner.Kind + " " + owner.Name
				}
				must.Equal(t, got, map[string]string{"worker": c.worker, "ephemeral": c.worker, "lasting": c.lasting}[want], want)
			}
		})
	}
}
