//go:build linux

package main_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/containers"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// containerDeployment has containers of a real engine as workers, which record their jobs on a network volume.
type containerDeployment struct {
	*testDeployment
	engine *containers.Engine
	volume string // id of the network volume
}

const handlerImage = "team/contained:1"

var imageBuilds sync.Map // by name of the engine: a *sync.Once that builds the handler's image

// requireImage builds the image of the handler once per engine.
func requireImage(t *testing.T, e *containers.Engine) {
	t.Helper()
	once, _ := imageBuilds.LoadOrStore(e.Name, &sync.Once{})
	once.(*sync.Once).Do(func() { buildImage(t, e, handlerImage, "contained", nil) })
}

// builder is an engine or cluster that images can be loaded into.
type builder interface {
	Build(t testing.TB, name string, cmd []string, files map[string]string)
}

// buildImage builds an image with the handler in testdata/HANDLER.py, and more files.
func buildImage(t *testing.T, e builder, name, handler string, more map[string]string) {
	t.Helper()
	files := map[string]string{"/worker/runpod/__init__.py": "from . import serverless\n", "/worker/name": name}
	maps.Copy(files, more)
	for path, file := range map[string]string{
		"/worker/runpod/serverless.py": "../../jobrunner/workerapi/testdata/standin.py", "/worker/" + handler + ".py": "testdata/" + handler + ".py", "/worker/served.py": "testdata/served.py",
	} {
		text := must.ReadFile(t, file)
		files[path] = string(text)
	}
	e.Build(t, name, []string{"python3", "-u", "/worker/" + handler + ".py"}, files)
}

// prepareContainers writes a configuration in which all images run as containers with settings.
func prepareContainers(t *testing.T, e *containers.Engine, program, settings string) *containerDeployment {
	t.Helper()
	requireImage(t, e)
	c := &containerDeployment{testDeployment: &testDeployment{home: t.TempDir(), dir: t.TempDir(), env: e.Env}, engine: e}
	writeFile(t, filepath.Join(c.home, "jobrunner.yaml"), "engine: "+program+"\nrules:\n  - image: '**'\n    container: {"+settings+"}\n")
	return c
}

// startContainerDeployment starts a deployment with a network volume and without an endpoint.
func startContainerDeployment(t *testing.T, e *containers.Engine, settings string) *containerDeployment {
	t.Helper()
	c := prepareContainers(t, e, e.Path, settings)
	c.start(t)
	c.volume = c.createVolume()
	c.dir = filepath.Join(c.home, "data", "volumes", c.volume)
	return c
}

func (c *containerDeployment) startEphemeral(t *testing.T) {
	t.Helper()
	c.process = serve(t, environment(c.home, append(c.env, "GPUCLOUD_API_KEY=k")...), "--ephemeral", "--config="+filepath.Join(c.home, "jobrunner.yaml"))
}

// createEndpointOf creates an endpoint with an image, the volume and further members of the request.
func (c *containerDeployment) createEndpointOf(image, members string) {
	c.t.Helper()
	if members != "" {
		members = ", " + members
	}
	c.createEndpoint("/v2/serverless", `{"name": "contained", "image": "`+image+`", "cpu": [{"id": "cpu3c", "vcpuCount": 2}], "networkVolumes": ["`+c.volume+`"]`+members+`}`)
}

type answer struct {
	Name, Worker string
	Args         []string
	Env          map[string]*string
}

func (c *containerDeployment) awaitCompletion(id string) (got answer) {
	c.t.Helper()
	job := c.awaitEnd(id)
	if err := json.Unmarshal(job.Output, &got); err != nil || job.Status != "COMPLETED" {
		c.t.Fatalf("the job is %s with %s, error %q\n%s", job.Status, job.Output, job.Error, c.workerList())
	}
	return got
}

// workerList returns the endpoint's workers with their reasons, and its health.
func (c *containerDeployment) workerList() string {
	_, workers := c.get("/v2/serverless/" + c.endpoint + "/workers")
	_, health := c.get("/v2/" + c.endpoint + "/health")
	return workers + "\n" + health
}

// containers returns the containers of the endpoint, including stopped ones.
func (c *containerDeployment) containers() []string {
	c.t.Helper()
	return c.engine.Containers(c.t, "gpucloud.endpoint="+c.endpoint)
}

// stopAndExpectNoContainer stops the deployment and expects that it leaves no container.
func (c *containerDeployment) stopAndExpectNoContainer() {
	c.t.Helper()
	c.interrupt()
	must.Equal(c.t, c.containers(), nil, "containers are left")
}

// recordCommandLines records this machine's command lines with one of the words. stop ends that and returns them.
func recordCommandLines(words ...string) (stop func() []string) {
	stopped, done := make(chan struct{}), make(chan []string)
	go func() {
		var commandLines []string
		for {
			select {
			case <-stopped:
				done <- commandLines
				return
			case <-time.After(20 * time.Millisecond):
			}
			files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, file := range files {
				text, _ := os.ReadFile(file) // fails if the process has ended
				if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(string(text), w) }) {
					commandLines = append(commandLines, strings.ReplaceAll(string(text), "\x00", " "))
				}
			}
		}
	}()
	return func() []string {
		close(stopped)
		return <-done
	}
}

// A worker in a Python image runs jobs with the endpoint's unchanged variables and arguments, and is
// removed with the deployment. Its files on the network volume stay for the next deployment.
func testRealContainer(t *testing.T, e *containers.Engine) {
	c := startContainerDeployment(t, e, "options: [--memory=200m, --cpus=0.5, --label=mine=yes]")
	must.Contain(t, strings.Join(c.startupLines, "\n"), "containers: "+e.Name+" ")
	env := map[string]string{
		"TOKEN": "planted-token", "EMPTY": "", "QUOTED": `"a 'b" $HOME #c\n`, "SINGLE": `'x'`, "SPACES": "  both sides  ", "HASH": "# no comment",
		"LINES": "first\nplanted-second\n", "UMLAUT": "ü→🙂", "PATH": "/usr/bin:/bin:/theirs", "EQUALS": "a=b=c", "TAB": "\ttab",
	}
	members := must.Do(json.Marshal(env))(t)
	input := must.Do(json.Marshal(map[string]any{"name": "one", "env": slices.Collect(maps.Keys(env))}))(t)
	stopRecording := recordCommandLines("planted-token", "planted-second")
	c.createEndpointOf(handlerImage, `"args": "python3 -u /worker/contained.py serve 'two words' '$HOME' '\"' ''", "env": `+string(members)+`, "workers": {"min": 1, "max": 1}`)
	firstAnswer := c.awaitCompletion(c.submit(string(input)))
	secondAnswer := c.awaitCompletion(c.submit(`{"name": "two"}`))
	must.Equal(t, firstAnswer.Args, []string{"serve", "two words", "$HOME", `"`, ""}, "arguments")
	for name, want := range env {
		if firstAnswer.Env[name] == nil || *firstAnswer.Env[name] != want {
			t.Errorf("the variable %s is %v, want %q", name, firstAnswer.Env[name], want)
		}
	}
	must.Equal(t, secondAnswer.Worker, firstAnswer.Worker, "the worker of the second job")
	must.Equal(t, stopRecording(), nil, "arguments of processes contain secrets")
	containers := c.containers()
	must.Require(t, len(containers) == 1, "containers:", containers)
	must.Equal(t, e.Output(t, "inspect", "--format", `{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}} {{index .Config.Labels "mine"}} {{index .Config.Labels "gpucloud.worker"}} {{.HostConfig.NetworkMode}}`, containers[0]), fmt.Sprint(200<<20, " 500000000 yes ", secondAnswer.Worker, " host"), "inspect")
	command := e.Output(t, "inspect", "--format", `{{json .Config.Cmd}} {{json .Args}} {{json .Config.Labels}} {{json .Name}}`, containers[0])
	must.Hold(t, !strings.Contains(command, "planted"), "the command contains secrets:", command)
	c.waitUntil("the worker's usage", func() bool {
		var list struct {
			Workers []struct{ MemoryBytes, CPUSeconds float64 }
		}
		c.call(http.MethodGet, "/v2/serverless/"+c.endpoint+"/workers", "", &list)
		return len(list.Workers) == 1 && list.Workers[0].MemoryBytes > 1<<20 && list.Workers[0].CPUSeconds > 0
	})
	c.stopAndExpectNoContainer()
	begins := c.recordedLines("begins")
	must.Hold(t, len(begins) == 2, "the network volume records the begins", begins)
	c.start(t)
	c.awaitCompletion(c.submit(`{"name": "three"}`))
	takes := c.countTakes()
	must.Hold(t, takes["one"] == 1 && takes["three"] == 1, "with the next deployment, the network volume records the begins", takes)
	c.stopAndExpectNoContainer()
	must.Hold(t, !strings.Contains(c.stderr.String(), "planted"), "a secret is in the log", &c.stderr)
}

// TestRealEngines tests real container engines concurrently, and the scenarios of each in turn.
func TestRealEngines(t *testing.T) {
	acctest.LeaveToCI(t, "TestAContainerOfAnEndpoint tests a simulated engine")
	t.Parallel()
	containers.Each(t, func(t *testing.T, e *containers.Engine) {
		requireImage(t, e)
		t.Run("container", func(t *testing.T) { testRealContainer(t, e) })
		if testing.Short() {
			return
		}
		for name, scenario := range map[string]func(*testing.T, *containers.Engine){
			"private registry": testRealPrivateRegistry, "crashes": testRealCrashes, "failed starts": testRealStartsThatFail, "kill": testRealKills, "stop": testRealStop,
			"load balancer": testRealLoadBalancer, "published ports": testRealPublishedPorts, "ephemeral kill": testRealEphemeralKills,
		} {
			t.Run(name, func(t *testing.T) { scenario(t, e) })
		}
	})
}
