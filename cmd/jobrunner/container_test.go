//go:build linux

package main_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// The engine on PATH gets an endpoint's GPUs, variables, registry login, network volume and ports.
// Arguments and log contain no secret, and no container is left.
func TestAContainerOfAnEndpoint(t *testing.T) {
	t.Parallel()
	home, tools, known := t.TempDir(), t.TempDir(), t.TempDir()
	script := must.Do(filepath.Abs("../../jobrunner/run/host/testdata/engine.sh"))(t)
	must.Succeed(t, os.Symlink(script, filepath.Join(tools, "docker")))
	put(t, filepath.Join(home, "jobrunner.yaml"), "rules:\n  - image: registry.example/private/model\n    container: {network: bridge, options: [--shm-size=1g]}\n")
	env := append(environment(home, "GPUCLOUD_API_KEY=k", "FAKE_ENGINE="+known), "PATH="+tools+":/usr/bin:/bin")
	p := serve(t, env, "--data="+filepath.Join(home, "data"), "--config="+filepath.Join(home, "jobrunner.yaml"), "--simulate-gpus=h200x8")
	must.Contain(t, strings.Join(p.greeted, "\n"), "docker 99.1 ("+filepath.Join(tools, "docker")+")")
	login, volume := p.create("/v2/registries", `{"name": "private", "username": "robot", "password": "planted-password"}`), p.createVolume()
	endpoint := p.create("/v2/serverless", `{"name": "contained", "image": "registry.example/private/model", "args": "serve 'two words'", "registry": "`+login+`",
		"env": {"TOKEN": "planted-token"}, "ports": ["8000/http"], "networkVolumes": ["`+volume+`"], "gpu": {"pools": ["HOPPER_141"], "count": 2}, "workers": {"min": 1, "max": 1}}`)
	var list struct {
		Workers []struct {
			ID        string
			StartedAt *string
			GPUs      []struct{ ID string }
		}
	}
	p.until("a worker", func() bool {
		p.call(http.MethodGet, "/v2/serverless/"+endpoint+"/workers", "", &list)
		return len(list.Workers) == 1 && list.Workers[0].StartedAt != nil
	})
	worker := list.Workers[0]
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(known, name)) // "" if it doesn't exist
		return string(text)
	}
	var create []string
	for line := range strings.Lines(read("calls")) {
		if words := strings.Split(strings.TrimSuffix(line, "\n"), "|"); slices.Contains(words[:min(5, len(words))], "create") {
			create = words
		}
	}
	if len(worker.GPUs) != 2 {
		t.Fatalf("%+v", worker)
	}
	args := strings.Join(create, " ")
	for _, want := range []string{
		`--gpus "device=` + worker.GPUs[0].ID + "," + worker.GPUs[1].ID + `"`, "--network bridge", "--publish 127.0.0.1::8000", "--shm-size=1g",
		"target=/runpod-volume", "source=" + filepath.Join(home, "data"), "--label gpucloud.endpoint=" + endpoint, "--label gpucloud.worker=" + worker.ID,
		"registry.example/private/model serve two words",
	} {
		must.Contain(t, args, want)
	}
	if vars := read("env"); !strings.Contains(vars, "TOKEN=planted-token\n") || !strings.Contains(vars, "RUNPOD_AI_API_KEY=") || !strings.Contains(vars, "//host.docker.internal:") || read("env.mode") != "600\n" {
		t.Errorf("the variables, mode %s:\n%s", read("env.mode"), vars)
	}
	must.Contain(t, read("login"), `"registry.example"`)
	p.interrupt()
	if all, _ := os.ReadDir(filepath.Join(known, "containers")); len(all) != 0 {
		t.Errorf("containers are left: %v", all)
	}
	for _, secret := range []string{"planted-password", "planted-token"} {
		must.Hold(t, !strings.Contains(read("calls"), secret) && !strings.Contains(p.stderr.String(), secret), secret, "is in arguments or in the log")
	}
}
