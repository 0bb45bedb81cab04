package mgmt_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/mgmt"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

const smallCluster = `{"name":"c","type":"TRAINING","image":"i","compute":{"gpuTypeId":"NVIDIA L4","gpuCountPerPod":2,"podCount":3}}`

// A cluster's pods have the same settings. The operations of pods show these pods, but can't change them.
func TestClusterV2(t *testing.T) {
	d := deploy(t)
	d.mustSend(200, "PUT", "/v2/account/ssh-keys", `{"keys":["ssh-ed25519 AAAA"]}`)
	singlePod := d.create("/v2/pods", `{"name":"p","image":"i","gpu":{"id":"NVIDIA L4"}}`)
	body := `{"name":"c","type":"SLURM","compute":{"gpuTypeId":"NVIDIA L4","gpuCountPerPod":2,"podCount":3},"image":"i","args":"a b","disk":9,"env":{"A":"1"},` +
		`"ports":["22/tcp"],"mounts":{"persistent":{"size":10,"path":"/w"}},"dataCenterIds":["EU-RO-1"],"startSsh":true,"startJupyter":true}`
	created := d.mustSend(201, "POST", "/v2/clusters", body)
	d.expectMembers(created, map[string]string{
		"name": `"c"`, "type": `"SLURM"`, "compute": `{"gpuTypeId":"NVIDIA L4","gpuCountPerPod":2,"podCount":3}`,
		"pods": `{"total":3,"byStatus":{"PROVISIONING":3}}`,
	})
	for _, absent := range []string{"template", "dataCenterId", "network", "primary"} {
		must.Hold(t, !created.has(absent), "nothing is placed, and the cluster has", absent, created.text)
	}
	id, _ := created.get("id").(string)
	path := "/v2/clusters/" + id
	must.Equal(t, d.mustSend(200, "GET", path, "").text, created.text)
	members := d.mustSend(200, "GET", path+"/pods", "")
	for rank := range 3 {
		prefix := fmt.Sprintf("pods.%d.", rank)
		d.expectMembers(members, map[string]string{
			prefix + "name": fmt.Sprintf(`"c-%d"`, rank), prefix + "cluster.id": `"` + id + `"`, prefix + "cluster.rank": fmt.Sprint(rank),
			prefix + "gpu.id": `"NVIDIA L4"`, prefix + "gpu.count": `2`, prefix + "image": `"i"`, prefix + "args": `"a b"`, prefix + "disk": `9`, prefix + "ports": `["22/tcp"]`, prefix + "registry": ``,
			prefix + "mounts": `{"persistent":{"size":10,"path":"/w"}}`, prefix + "dataCenterId": `"EU-RO-1"`, prefix + "cloud": `"SECURE"`, prefix + "actions": `[]`,
			prefix + "env.A": `"1"`, prefix + "status": `"PROVISIONING"`,
		})
		must.Hold(t, members.get(prefix+"env.JUPYTER_PASSWORD") != nil &&
			strings.HasPrefix(fmt.Sprint(members.get(prefix+"env.PUBLIC_KEY")), "ssh-ed25519"), "the pod of rank", rank, "must have a JUPYTER_PASSWORD and the PUBLIC_KEY, has", members.get(prefix+"env"))
	}
	member, _ := members.get("pods.1.id").(string)
	for _, request := range [][3]string{
		{"PATCH", "/v2/pods/" + member, `{"name":"x"}`}, {"DELETE", "/v2/pods/" + member, ""}, {"POST", "/v2/pods/" + member + "/action", `{"action":"stop"}`},
		{"POST", "/v2/pods/" + member + "/action", `{"action":"terminate"}`},
	} {
		d.expectRefusal(409, "belongs to the cluster", request[0], request[1], request[2])
	}
	for query, want := range map[string]int{"": 1, "?includeClusterPods=false": 1, "?includeClusterPods=true": 4} {
		all, _ := d.mustSend(200, "GET", "/v2/pods"+query, "").get("pods").([]any)
		must.Hold(t, len(all) == want, "the query", query, "lists", len(all), "pods, want", want)
	}
	d.expectRefusal(422, "want true or false", "GET", "/v2/pods?includeClusterPods=1", "")
	d.expectMembers(d.mustSend(200, "PATCH", path, `{"name":"d"}`), map[string]string{"name": `"d"`, "pods.total": `3`, "id": `"` + id + `"`})
	must.Equal(t, d.mustSend(200, "GET", path+"/pods", "").text, members.text, "the members after a rename")
	d.create("/v2/clusters", smallCluster)
	d.expectMembers(d.mustSend(200, "GET", "/v2/clusters", ""), map[string]string{"clusters.0.name": `"d"`, "clusters.1.name": `"c"`, "clusters.1.pods.total": `3`, "clusters.2": ``})
	d.mustSend(204, "DELETE", path, "")
	for _, deleted := range []string{path, "/v2/pods/" + member} {
		d.expectRefusal(404, "not found", "GET", deleted, "")
	}
	d.mustSend(200, "GET", "/v2/pods/"+singlePod, "")
	all, _ := d.mustSend(200, "GET", "/v2/pods?includeClusterPods=true", "").get("pods").([]any)
	must.Hold(t, len(all) == 4, len(all), "pods are left, want the single one and 3 of the other cluster")
}

// Only some types have roles.
func TestClusterRolesV2(t *testing.T) {
	d := deploy(t)
	for kind, want := range map[string][2]string{
		"TRAINING": {}, "APPLICATION": {}, "RAY": {`"RAY_HEAD"`, `"RAY_WORKER"`}, "SLURM": {`"SLURM_CONTROLLER"`, `"SLURM_COMPUTE"`},
	} {
		id := d.create("/v2/clusters", strings.Replace(smallCluster, "TRAINING", kind, 1))
		d.expectMembers(d.mustSend(200, "GET", "/v2/clusters/"+id+"/pods", ""), map[string]string{"pods.0.cluster.role": want[0], "pods.1.cluster.role": want[1], "pods.2.cluster.role": want[1]})
	}
}

// A rejected create stores neither a cluster nor pods.
func TestInvalidClustersV2(t *testing.T) {
	d := deploy(t)
	volume := d.createVolume("EU-RO-1")
	template, serverless := d.createTemplate("t", ""), d.createTemplate("s", `,"serverless":true`)
	for _, c := range []struct {
		old, new string
		status   int
		text     string
	}{
		{`"gpuCountPerPod":2`, `"gpuCountPerPod":9`, 400, "invalid number of GPUs of a pod: expected 8 at most, got 9"},
		{`"podCount":3`, `"podCount":3,"cpu":2`, 422, "$.compute: additional properties 'cpu' not allowed"},
		{`"podCount":3}`, `"podCount":99},"env":{"A":"` + strings.Repeat("x", 200_000) + `"}`, 400, "at most 16777216 are allowed"},
		{`"image":"i",`, ``, 400, "expected image"},
		{`"image":"i"`, `"templateId":"nowhere"`, 404, "not found"},
		{`"image":"i"`, `"templateId":"` + serverless + `"`, 422, "want one for pods"},
		{`"image":"i"`, `"image":"i","templateId":"` + template + `"`, 400, "templateId and image exclude each other"},
		{`"image":"i"`, `"args":"","templateId":"` + template + `"`, 400, "templateId and args exclude each other"},
		{`"image":"i"`, `"disk":5,"templateId":"` + template + `"`, 400, "templateId and disk exclude each other"},
		{`"image":"i"`, `"env":{},"templateId":"` + template + `"`, 400, "templateId and env exclude each other"},
		{`"image":"i"`, `"ports":[],"templateId":"` + template + `"`, 400, "templateId and ports exclude each other"},
		{`"image":"i"`, `"mounts":{},"templateId":"` + template + `"`, 400, "templateId and mounts exclude each other"},
		{`"image":"i"`, `"registry":null,"templateId":"` + template + `"`, 422, "additional properties 'registry' not allowed"},
		{`"image":"i"`, `"image":"i","mounts":{"persistent":{"size":10,"path":"/w"},"network":[{"volumeId":"` + volume + `","path":"/w"}]}`, 400, "exclude each other"},
		{`"image":"i"`, `"image":"i","mounts":{"network":[{"volumeId":"nothing","path":"/w"}]}`, 400, "does not exist"},
		{`"image":"i"`, `"image":"i","dataCenterIds":["US-TX-3"],"mounts":{"network":[{"volumeId":"` + volume + `","path":"/w"}]}`, 400, "is in the data center EU-RO-1"},
	} {
		body := strings.Replace(smallCluster, c.old, c.new, 1)
		must.Require(t, body != smallCluster, "nothing to replace:", c.old)
		d.expectRefusal(c.status, c.text, "POST", "/v2/clusters", body)
	}
	d.expectMembers(d.mustSend(200, "GET", "/v2/clusters", ""), map[string]string{"clusters": `[]`})
	d.expectMembers(d.mustSend(200, "GET", "/v2/pods?includeClusterPods=true", ""), map[string]string{"pods": `[]`})

	path := "/v2/clusters/" + d.create("/v2/clusters", smallCluster)
	d.expectRefusal(422, "", "PATCH", path, `{}`)
	d.expectMembers(d.mustSend(200, "GET", path, ""), map[string]string{"name": `"c"`})
}

// A cluster keeps its template's id. Its pods have the template's settings, including the registry.
func TestClusterFromTemplateV2(t *testing.T) {
	d := deploy(t)
	registry := d.create("/v2/registries", `{"name":"r","username":"u","password":"p"}`)
	template := d.createTemplate("t", `,"registry":"`+registry+`","mounts":{"persistent":{"size":30,"path":"/t"}},"startSsh":false,"startJupyter":true`)
	created := d.mustSend(201, "POST", "/v2/clusters", strings.Replace(smallCluster, `"image":"i"`, `"templateId":"`+template+`"`, 1))
	id, _ := created.get("id").(string)
	d.mustSend(200, "PATCH", "/v2/templates/"+template, `{"image":"changed"}`) // the pods don't follow
	members := d.mustSend(200, "GET", "/v2/clusters/"+id+"/pods", "")
	for _, prefix := range []string{"pods.0.", "pods.2."} {
		d.expectMembers(members, map[string]string{
			prefix + "image": `"from/template"`, prefix + "args": `"a b"`, prefix + "disk": `7`, prefix + "ports": `["22/tcp"]`, prefix + "env.A": `"1"`,
			prefix + "mounts": `{"persistent":{"size":30,"path":"/t"}}`, prefix + "registry": `"` + registry + `"`, prefix + "gpu.count": `2`,
		})
		must.Hold(t, members.get(prefix+"env.JUPYTER_PASSWORD") != nil,
			"the template starts Jupyter, and the pod has", members.get(prefix+"env"))
	}
	d.expectMembers(d.mustSend(200, "GET", "/v2/clusters/"+id, ""), map[string]string{"template": `"` + template + `"`})
	d.expectRefusal(400, "was made from it", "DELETE", "/v2/templates/"+template, "")
	d.expectRefusal(400, "in use", "DELETE", "/v2/registries/"+registry, "")
	d.expectRefusal(422, "templateId", "PATCH", "/v2/clusters/"+id, `{"templateId":"`+template+`"}`)
	d.mustSend(204, "DELETE", "/v2/clusters/"+id, "")
	d.mustSend(204, "DELETE", "/v2/templates/"+template, "")
	d.mustSend(204, "DELETE", "/v2/registries/"+registry, "")
}

func TestCreateClusterIsAtomic(t *testing.T) {
	var s *store.Store
	d := deploy(t, func(c *mgmt.Config) { s = c.Store })
	_, _, err := s.CreateCluster(t.Context(), func(*store.Tx) (store.Cluster, []store.Pod, error) {
		good := store.Pod{Head: store.Head{Name: "m"}, Cluster: new(store.ClusterMember), CPU: &store.PodCPU{FlavorIDs: []string{"cpu3c"}, VCPUCount: 2}}
		bad := good
		bad.CPU = nil
		return store.Cluster{}, []store.Pod{good, bad}, nil
	})
	must.Hold(t, err != nil, "a pod without compute was stored")
	d.expectMembers(d.mustSend(200, "GET", "/v2/pods?includeClusterPods=true", ""), map[string]string{"pods": `[]`})
	d.expectMembers(d.mustSend(200, "GET", "/v2/clusters", ""), map[string]string{"clusters": `[]`})
}
