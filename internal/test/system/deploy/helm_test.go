package deploy

import (
	"bytes"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

type values = map[string]any

// required returns the values that a release must have.
func required() values {
	return values{"image": values{"repository": "localhost/gpucloud/jobrunner", "tag": "1.2.3"}, "apiKey": values{"secret": "gpucloud"}}
}

func withRequired(extra values) values {
	v := required()
	maps.Copy(v, extra)
	return v
}

func renderChart(namespace string, v values) (objects []string, err error) {
	chart, err := loader.LoadDir(filepath.Join(root, "deploy/helm/jobrunner"))
	if err != nil {
		return nil, err
	}
	rendered, err := util.ToRenderValues(chart, v, common.ReleaseOptions{Name: "gpucloud", Namespace: namespace, Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.Render(chart, rendered)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, "NOTES.txt") || strings.HasSuffix(name, ".tpl") {
			continue
		}
		for text := range strings.SplitSeq(files[name], "\n---\n") {
			var object any
			if err := yaml.Unmarshal([]byte(text), &object); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if object != nil {
				objects = append(objects, text)
			}
		}
	}
	return objects, nil
}

// decodeObjects decodes manifests into API types, strictly. It checks and counts ServiceMonitors.
func decodeObjects(t *testing.T, objects []string) (all []runtime.Object, monitors int) {
	t.Helper()
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, text := range objects {
		if strings.Contains(text, "kind: ServiceMonitor") {
			checkMonitor(t, text)
			monitors++
			continue
		}
		object, _, err := decoder.Decode([]byte(text), nil, nil)
		must.Succeed(t, err, text)
		all = append(all, object)
	}
	return all, monitors
}

func objectsOf[T runtime.Object](all []runtime.Object) (found []T) {
	for _, object := range all {
		if o, ok := object.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// onlyOf returns the only object of a type.
func onlyOf[T runtime.Object](t *testing.T, all []runtime.Object) T {
	t.Helper()
	found := objectsOf[T](all)
	must.Require(t, len(found) == 1, fmt.Sprintf("expected one object, got %T %[1]v", found))
	return found[0]
}

var combinations = map[string]values{
	"embedded":         required(),
	"long tag":         withRequired(values{"image": values{"repository": "a", "tag": strings.Repeat("a", 62) + "_b"}}),
	"without Pods":     withRequired(values{"workers": values{"enabled": false}}),
	"three nodes":      withRequired(values{"replicas": 3, "postgresql": values{"secret": "engine", "connections": 12}}),
	"no budget":        withRequired(values{"replicas": 2, "postgresql": values{"secret": "engine"}, "disruptionBudget": values{"enabled": false}}),
	"monitored":        withRequired(values{"serviceMonitor": values{"enabled": true, "labels": values{"release": "prometheus"}}}),
	"digest":           withRequired(values{"image": values{"repository": "localhost/jobrunner", "digest": "sha256:" + strings.Repeat("a", 64), "pullSecrets": []any{"pull"}}}),
	"numbers as names": withRequired(values{"image": values{"repository": "a", "pullSecrets": []any{"1"}}, "apiKey": values{"secret": "2"}, "secretsKey": values{"secret": "3"}, "postgresql": values{"secret": "4"}, "persistence": values{"storageClass": "5"}}),
	"other values": withRequired(values{"args": []any{"--webhook-allow=hooks.example.com"}, "config": values{"rules": []any{values{"image": "team/a", "container": values{"pull": "always"}}}},
		"workers":     values{"gpuLabel": "gpu", "storageClass": "shared", "volumeAccess": "ReadWriteOnce", "reserve": "none", "gpuTypes": values{"my-label": "NVIDIA L4"}, "tolerations": []any{values{"key": "dedicated", "operator": "Exists"}}},
		"persistence": values{"size": "20Gi", "storageClass": "fast"}, "service": values{"type": "LoadBalancer", "port": 80, "annotations": values{"a": "b"}},
		"serviceAccount": values{"annotations": values{"a": "b"}}, "podAnnotations": values{"a": "b"}, "nodeSelector": values{"a": "b"},
		"tolerations": []any{values{"operator": "Exists"}}, "affinity": values{"nodeAffinity": values{}}, "logFormat": "text"}),
}

// Every combination of values renders objects without unknown fields, whose references exist.
func TestChart(t *testing.T) {
	for name, v := range combinations {
		t.Run(name, func(t *testing.T) {
			objects := must.Do(renderChart("team", v))(t)
			all, monitors := decodeObjects(t, objects)
			_, monitored := v["serviceMonitor"]
			must.Equal(t, monitors, map[bool]int{true: 1}[monitored], "ServiceMonitors")
			must.Hold(t, !strings.Contains(strings.Join(objects, "\n"), "kind: Secret\n"), "the chart creates a Secret, expected none")
			set := onlyOf[*apps.StatefulSet](t, all)
			config := onlyOf[*core.ConfigMap](t, all)
			account := onlyOf[*core.ServiceAccount](t, all)
			pod := set.Spec.Template.Spec
			container := pod.Containers[0]
			for label, value := range set.Spec.Selector.MatchLabels {
				must.Equal(t, set.Spec.Template.Labels[label], value, "label", label, "of the Pods, which the selector selects")
			}
			must.Hold(t, pod.ServiceAccountName == account.Name && *pod.SecurityContext.RunAsNonRoot && *container.SecurityContext.ReadOnlyRootFilesystem && !*container.SecurityContext.AllowPrivilegeEscalation, "expected the chart's account, a user without root's rights and a read-only root in", pod)
			headless := map[string]bool{} // by Service
			for _, s := range objectsOf[*core.Service](all) {
				headless[s.Name] = s.Spec.ClusterIP == "None"
			}
			must.Hold(t, headless[set.Spec.ServiceName] && len(headless) == 2, "expected two Services, of which the StatefulSet's", set.Spec.ServiceName, "is headless, and got", headless)
			checkFiles(t, set, config)
			must.Equal(t, container.Lifecycle != nil && container.Lifecycle.PreStop.Sleep.Seconds > 0, *set.Spec.Replicas > 1, "one of several replicas stops after the Service's requests")
			checkServe(t, container)
			checkBudget(t, v, all)
		})
	}
}

// A change of the configuration restarts the replicas. A change of their number doesn't.
func TestScalingRestartsNothing(t *testing.T) {
	checksum := func(replicas int, config values) string {
		objects := must.Do(renderChart("team", withRequired(values{"replicas": replicas, "postgresql": values{"secret": "a"}, "config": config})))(t)
		all, _ := decodeObjects(t, objects)
		return onlyOf[*apps.StatefulSet](t, all).Spec.Template.Annotations["checksum/config"]
	}
	must.Equal(t, checksum(3, values{}), checksum(2, values{}), "the checksums with 3 and with 2 replicas")
	must.Hold(t, checksum(2, values{"rules": []any{}}) != checksum(2, values{}), "the checksum doesn't depend on the configuration")
}

// checkServe expects that jobrunner serve has the container's flags and variables.
func checkServe(t *testing.T, c core.Container) {
	t.Helper()
	must.Hold(t, slices.Contains(c.Args, "--listen=:8420"), "expected to listen on IPv4 and IPv6, got", c.Args)
	help := must.Do(exec.Command(program(t), "serve", "--help").Output())(t)
	for _, arg := range c.Args[1:] {
		flag, _, _ := strings.Cut(arg, "=")
		must.Hold(t, regexp.MustCompile(regexp.QuoteMeta(flag)+`[=\s]`).Match(help), "serve has no flag", flag)
	}
	for _, variable := range c.Env {
		must.Hold(t, !strings.HasPrefix(variable.Name, "GPUCLOUD_") || bytes.Contains(help, []byte("$"+variable.Name)), "serve has no variable", variable.Name)
	}
}

// checkMonitor expects a valid ServiceMonitor with one endpoint that has a key.
func checkMonitor(t *testing.T, text string) {
	t.Helper()
	var monitor monitoring.ServiceMonitor
	must.Succeed(t, yaml.UnmarshalStrict([]byte(text), &monitor), text)
	must.Require(t, monitor.GroupVersionKind() == monitoring.SchemeGroupVersion.WithKind(monitoring.ServiceMonitorsKind) &&
		len(monitor.Spec.Endpoints) == 1, "expected a ServiceMonitor with one endpoint and got", monitor)
	endpoint := monitor.Spec.Endpoints[0]
	err := endpoint.Authorization.Validate()
	must.Hold(t, err == nil && endpoint.Authorization.Credentials.Name != "" && endpoint.Path == "/metrics", "expected credentials and the path /metrics and got", endpoint, err)
}

// checkFiles expects a configuration file per replica, with the replica's address.
func checkFiles(t *testing.T, set *apps.StatefulSet, config *core.ConfigMap) {
	t.Helper()
	must.Equal(t, len(config.Data), int(*set.Spec.Replicas), "number of configuration files")
	for i := range int(*set.Spec.Replicas) {
		name := set.Name + "-" + strconv.Itoa(i)
		text, ok := config.Data[name+".yaml"]
		must.Hold(t, ok, name, "has no file in", config.Data)
		must.Hold(t, !strings.Contains(text, "executor: kubernetes") || strings.Contains(text, "url: http://"+name+"."+set.Spec.ServiceName+".team.svc:8420\n"), "the file of", name, "lacks its address:", text)
		// The jobrunner accepts the file and starts, or fails because it has no cluster.
		if strings.Contains(text, "executor: kubernetes") {
			cmd := exec.Command(program(t), "serve", "--listen=127.0.0.1:0", "--ephemeral", "--config="+writeFile(t, "jobrunner.yaml", text))
			cmd.Env = []string{"HOME=" + t.TempDir()}
			out, err := cmd.CombinedOutput()
			must.Hold(t, err != nil && strings.Contains(string(out), "the configuration of the Kubernetes cluster"), "expected an error about the cluster's configuration and got", err, string(out), "with", text)
		} else {
			start(t, nil, []string{"serve", "--listen=127.0.0.1:8420", "--ephemeral", "--config=" + writeFile(t, "jobrunner.yaml", text)}).stop()
		}
	}
}

func checkBudget(t *testing.T, v values, all []runtime.Object) {
	t.Helper()
	n := len(objectsOf[*policy.PodDisruptionBudget](all))
	_, disabled := v["disruptionBudget"]
	_, replicated := v["replicas"]
	must.Hold(t, n == map[bool]int{true: 1}[replicated && !disabled], "got", n, "PodDisruptionBudgets; the values ask for one:", replicated && !disabled)
}

// The schema rejects invalid values with an error that names them.
func TestChartRejects(t *testing.T) {
	for want, v := range map[string]values{
		"repository":        {"apiKey": values{"secret": "a"}},
		"secretsKey":        withRequired(values{"secretsKey": nil}), // left blank
		"service":           withRequired(values{"service": nil}),
		"apiKey":            {"image": values{"repository": "a"}},
		"postgresql":        withRequired(values{"replicas": 2}),
		"replica":           withRequired(values{"replica": 2}),
		"/config/executor":  withRequired(values{"config": values{"executor": "kubernetes"}}),
		"digest":            withRequired(values{"image": values{"repository": "a", "digest": "sha256:1"}}),
		"tolerations":       withRequired(values{"tolerations": []any{values{"operator": "exists"}}}),
		"tolerationSeconds": withRequired(values{"workers": values{"tolerations": []any{values{"operator": "Exists", "tolerationSeconds": 5}}}}), // jobrunner.yaml lacks it
	} {
		_, err := renderChart("team", v)
		must.Hold(t, err != nil && strings.Contains(err.Error(), want), "with", v, "expected an error with", want, "and got", err)
	}
}

// The chart grants its account exactly the rights of the guide.
func TestChartRights(t *testing.T) {
	objects := must.Do(renderChart("2", required()))(t)
	all, _ := decodeObjects(t, objects)
	role, clusterRole := onlyOf[*rbac.Role](t, all), onlyOf[*rbac.ClusterRole](t, all)
	guide := regexp.MustCompile("(?s)```yaml\n# role.yaml\n(.*?)```").FindStringSubmatch(readFile(t, "docs/guides/kubernetes.md"))
	must.Require(t, guide != nil, "docs/guides/kubernetes.md has no role.yaml")
	guideObjects, _ := decodeObjects(t, strings.Split(guide[1], "\n---\n"))
	for what, rules := range map[string][2][]rbac.PolicyRule{
		"Role":        {role.Rules, onlyOf[*rbac.Role](t, guideObjects).Rules},
		"ClusterRole": {clusterRole.Rules, onlyOf[*rbac.ClusterRole](t, guideObjects).Rules},
	} {
		must.Equal(t, fmt.Sprint(rules[0]), fmt.Sprint(rules[1]), "rights of the chart's", what, "compared with the guide's")
	}
	account := onlyOf[*core.ServiceAccount](t, all)
	subject := rbac.Subject{Kind: "ServiceAccount", Name: account.Name, Namespace: "2"}
	binding, clusterBinding := onlyOf[*rbac.RoleBinding](t, all), onlyOf[*rbac.ClusterRoleBinding](t, all)
	must.Hold(t, slices.Equal(binding.Subjects, []rbac.Subject{subject}) && binding.RoleRef.Name == role.Name, "expected the Role for", subject, "and got", binding)
	must.Hold(t, slices.Equal(clusterBinding.Subjects, []rbac.Subject{subject}) && clusterBinding.RoleRef.Name == clusterRole.Name, "expected the ClusterRole for", subject, "and got", clusterBinding)
	// Without workers in the cluster the chart grants nothing.
	objects = must.Do(renderChart("team", combinations["without Pods"]))(t)
	text := strings.Join(objects, "\n")
	must.Hold(t, !strings.Contains(text, "rbac.authorization.k8s.io") && !strings.Contains(text, "automountServiceAccountToken: true"), "the chart grants unused rights:", text)
}

func TestGuideValues(t *testing.T) {
	found := regexp.MustCompile("(?s)```yaml\n# values.yaml\n(.*?)```").FindStringSubmatch(readFile(t, "docs/guides/operate.md"))
	must.Require(t, found != nil, "docs/guides/operate.md has no values.yaml")
	var v values
	must.Succeed(t, yaml.UnmarshalStrict([]byte(found[1]), &v))
	objects := must.Do(renderChart("gpucloud", v))(t)
	all, monitors := decodeObjects(t, objects)
	set := onlyOf[*apps.StatefulSet](t, all)
	must.Hold(t, *set.Spec.Replicas == 3 && monitors == 1, "expected 3 replicas and 1 ServiceMonitor and got", *set.Spec.Replicas, "and", monitors)
}
