//go:build linux

package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/containers"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// server is the API server of the real cluster.
type server struct {
	t         *testing.T
	cluster   *containers.Kubernetes
	settings  *rest.Config
	core      coreclient.CoreV1Interface
	dynamic   dynamic.Interface
	resources []*restmapper.APIGroupResources
}

func connect(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, cluster: containers.StartKubernetes(t)}
	s.settings = must.Do(clientcmd.BuildConfigFromFlags("", s.cluster.Kubeconfig))(t)
	s.settings.QPS = -1
	s.core, s.dynamic = coreclient.NewForConfigOrDie(s.settings), dynamic.NewForConfigOrDie(s.settings)
	// The cluster's roles exist once all start hooks have run.
	eventually(t, "the API server's readiness", func() bool {
		return s.core.RESTClient().Get().AbsPath("/readyz").Do(t.Context()).Error() == nil
	})
	s.resources = must.Do(restmapper.GetAPIGroupResources(discovery.NewDiscoveryClientForConfigOrDie(s.settings)))(t)
	return s
}

// create creates an object, which the end of the test deletes. In a dry run it is only checked.
func (s *server) create(text string, dryRun bool) error {
	var object unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		return err
	}
	kind := object.GroupVersionKind()
	mapping, err := restmapper.NewDiscoveryRESTMapper(s.resources).RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = s.dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == "namespace" {
		resource = s.dynamic.Resource(mapping.Resource).Namespace(s.cluster.Namespace)
	}
	options := meta.CreateOptions{FieldValidation: meta.FieldValidationStrict}
	if dryRun {
		options.DryRun = []string{meta.DryRunAll}
	}
	if _, err := resource.Create(s.t.Context(), &object, options); err != nil {
		return fmt.Errorf("%s %s: %w", kind.Kind, object.GetName(), err)
	}
	if !dryRun {
		s.t.Cleanup(func() {
			must.Equal(s.t, resource.Delete(context.Background(), object.GetName(), meta.DeleteOptions{}), nil)
		})
	}
	return nil
}

// The API server accepts every object that each combination of values renders.
func TestChartOnCluster(t *testing.T) {
	s := connect(t)
	for name, v := range combinations {
		objects := must.Do(renderChart(s.cluster.Namespace, v))(t)
		for _, text := range objects {
			if strings.Contains(text, "kind: ServiceMonitor") {
				continue // its definition belongs to the Prometheus operator
			}
			must.Equal(t, s.create(text, true), nil, "error of the API server about the values", name)
		}
	}
	err := s.create("apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {unknown: 1, ports: [{port: 1}]}\n", true)
	must.Hold(t, err != nil, "the API server accepts an unknown member")
}

// A jobrunner needs the rights of the chart to start, and they are sufficient.
func TestChartRightsOnCluster(t *testing.T) {
	s := connect(t)
	objects := must.Do(renderChart(s.cluster.Namespace, required()))(t)
	created := 0
	createKinds := func(kinds ...string) {
		t.Helper()
		for _, text := range objects {
			for _, kind := range kinds {
				if strings.Contains(text, "\nkind: "+kind+"\n") {
					created++
					must.Succeed(t, s.create(text, false))
				}
			}
		}
	}
	createKinds("ServiceAccount")
	token, err := s.core.ServiceAccounts(s.cluster.Namespace).CreateToken(t.Context(), "gpucloud-jobrunner", &authentication.TokenRequest{}, meta.CreateOptions{})
	must.Succeed(t, err)
	kubeconfig := writeFile(t, "kubeconfig", fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "a",
		"clusters": [{"name": "a", "cluster": {"server": %q, "insecure-skip-tls-verify": true}}], "users": [{"name": "a", "user": {"token": %q}}],
		"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": %q}}]}`, s.settings.Host, token.Status.Token, s.cluster.Namespace))
	gateway := s.cluster.NewGateway(t)
	config := writeFile(t, "jobrunner.yaml", fmt.Sprintf("executor: kubernetes\nkubernetes:\n  url: %s\n  kubeconfig: %s\n  reserve: none\n  tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists}]\n", gateway.URL, kubeconfig))

	cmd := exec.CommandContext(t.Context(), program(t), "serve", "--listen=127.0.0.1:0", "--ephemeral", "--config="+config)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "forbidden") {
		t.Errorf("without rights, the jobrunner ended with %v, expected forbidden in its output: %s", err, out)
	}
	createKinds("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
	must.Equal(t, created, 5, "number of created objects")
	j := start(t, nil, []string{"serve", "--listen=127.0.0.1:8420", "--ephemeral", "--config=" + config})
	gateway.Forward(strings.TrimPrefix(j.url, "http://"))
	// The jobrunner creates a Pod and reports the node's message about its image as the reason.
	status, text := j.do(http.MethodPost, "/v2/serverless", `{"name": "e", "image": "127.0.0.1:1/team/absent", "workers": {"min": 1, "max": 1}, "cpu": [{"id": "cpu3c", "vcpuCount": 2}], "env": {"A": "b"}}`)
	var endpoint struct{ ID string }
	if err := json.Unmarshal([]byte(text), &endpoint); err != nil || status != http.StatusCreated {
		t.Fatalf("creating the endpoint was answered with %d %s", status, text)
	}
	eventually(t, "the worker's reason", func() bool {
		_, workers := j.do(http.MethodGet, "/v2/serverless/"+endpoint.ID+"/workers", "")
		return strings.Contains(workers, "the registry 127.0.0.1:1 can't be reached")
	})
	j.stop()
	log := j.stderr.String()
	must.Hold(t, !strings.Contains(log, "forbidden"), "a right is missing:", log)
	pods, err := s.core.Pods(s.cluster.Namespace).List(t.Context(), meta.ListOptions{LabelSelector: "gpucloud/endpoint=" + endpoint.ID})
	must.Hold(t, err == nil && len(pods.Items) == 0, "expected that no Pods are left and got", len(pods.Items), err)
}

// A jobrunner in the chart's Pod becomes ready by its probes and runs a job. The cluster has no controllers.
func TestJobrunnerInCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("compiling the jobrunner for the image takes a minute")
	}
	s := connect(t)
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "run", "./image", "-platforms=linux/"+runtime.GOARCH, "-version=test", "-o="+dir)
	build.Dir = ".." // the program expects the module's folder
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.cluster.Import(t, filepath.Join(dir, "jobrunner-linux-"+runtime.GOARCH+".tar"))
	objects := must.Do(renderChart(s.cluster.Namespace, values{
		"image":  values{"repository": "localhost/gpucloud/jobrunner", "tag": "test", "pullPolicy": "Never"},
		"apiKey": values{"secret": "jobrunner-key"}, "workers": values{"enabled": false},
		"tolerations": []any{values{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}},
	}))(t)
	const key = "at-least-twenty-characters"
	for _, text := range append(objects, "apiVersion: v1\nkind: Secret\nmetadata: {name: jobrunner-key}\nstringData: {api-key: "+key+"}\n") {
		if strings.Contains(text, "\nkind: ConfigMap\n") || strings.Contains(text, "\nkind: ServiceAccount\n") || strings.Contains(text, "\nkind: Secret\n") {
			must.Succeed(t, s.create(text, false))
		}
	}
	decoded, _ := decodeObjects(t, objects)
	set := onlyOf[*apps.StatefulSet](t, decoded)
	pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: set.Name + "-0", Labels: set.Spec.Template.Labels}, Spec: set.Spec.Template.Spec}
	pod.Spec.Volumes = append(pod.Spec.Volumes, core.Volume{Name: "data"}) // an empty folder instead of the claim
	pods := s.core.Pods(s.cluster.Namespace)
	must.Do(pods.Create(t.Context(), pod, meta.CreateOptions{}))(t)
	t.Cleanup(func() {
		_ = pods.Delete(context.Background(), pod.Name, meta.DeleteOptions{GracePeriodSeconds: new(int64)})
	})
	var address string
	eventually(t, "the Pod's readiness", func() bool {
		status := must.Do(pods.Get(t.Context(), pod.Name, meta.GetOptions{}))(t).Status
		address = status.PodIP
		for _, condition := range status.Conditions {
			if condition.Type == core.PodReady && condition.Status == core.ConditionTrue {
				return true
			}
		}
		if statuses := status.ContainerStatuses; len(statuses) > 0 && statuses[0].RestartCount > 0 {
			log, _ := pods.GetLogs(pod.Name, &core.PodLogOptions{Previous: true}).DoRaw(t.Context())
			t.Fatalf("the jobrunner ended: %+v\n%s", statuses[0].LastTerminationState, log)
		}
		return false
	})
	j := &jobrunner{t: t, url: "http://" + address + ":8420", key: key}
	j.checkJob()
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(100 * time.Millisecond) {
		must.Require(t, !time.Now().After(deadline), "timed out waiting for", what)
	}
}
