//go:build linux

package host

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// fakeEngine is testdata/engine.sh, under the name of an engine.
type fakeEngine struct {
	t    *testing.T
	dir  string // where engine.sh has its files
	path string
}

func newFakeEngine(t *testing.T, name string) *fakeEngine {
	t.Helper()
	script := must.Do(filepath.Abs("testdata/engine.sh"))(t)
	f := &fakeEngine{t, t.TempDir(), filepath.Join(t.TempDir(), name)}
	must.Succeed(t, os.Symlink(script, f.path))
	t.Setenv("FAKE_ENGINE", f.dir)
	return f
}

func (f *fakeEngine) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(f.dir, name)) // "" if the file doesn't exist
	return string(text)
}

func (f *fakeEngine) write(name, text string) {
	f.t.Helper()
	must.Succeed(f.t, os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600))
}

func (f *fakeEngine) containers() []os.DirEntry {
	all, _ := os.ReadDir(filepath.Join(f.dir, "containers")) // may not exist yet
	return all
}

func (f *fakeEngine) newExecutor(dataDir, rules string) *Executor {
	f.t.Helper()
	e := must.Do(New(f.t.Context(), Config{File: writeConfig(f.t, "engine: "+f.path+"\n"+rules), DataDir: dataDir}))(f.t)
	f.t.Cleanup(func() { _ = e.Close() }) // if the test didn't
	return e
}

// startPod returns the running container of a pod.
func (f *fakeEngine) startPod(log run.Output) *container {
	f.t.Helper()
	must.Succeed(f.t, os.Mkdir(filepath.Join(f.dir, "containers"), 0o700))
	f.write("containers/gpucloud-p", "")
	c := newContainer(newEngine(f.t.Context(), f.path, nil), "gpucloud-p", log)
	c.lifecycle = detachedLifecycle{log: log}
	go c.supervise()
	return c
}

func start(t *testing.T, e *Executor, s run.Spec) run.Process {
	t.Helper()
	p := must.Do(program(t, e, s.Image).Start(t.Context(), s))(t)
	t.Cleanup(func() { p.Stop(0) })
	return p
}

func TestContainer(t *testing.T) {
	f, log := newFakeEngine(t, "docker"), new(livelog.Log)
	dataDir := t.TempDir()
	e := f.newExecutor(dataDir, "")
	p := start(t, e, run.Spec{
		Endpoint: "ep", ID: "w 1", Log: log, Port: 8123,
		Container: store.Container{
			Image: "registry.example:5000/private/model:2", Args: `{"entrypoint":["python3","-u"],"cmd":["handler.py","two words"]}`, Disk: 20,
			Env: map[string]string{"TOKEN": "the-secret", "GOOGLE_KEY": "a\nthe-secret", "PATH": "/theirs", "RUNPOD_WEBHOOK_GET_JOB": "http://127.0.0.1:8420/v2/ep/job-take/$ID?gpu=x"},
		},
		Login: &run.Login{Username: "robot", Password: "the-secret"}, Mounts: []run.Mount{{Dir: "/data/vol,1", Path: "/runpod-volume"}},
		Devices: []gpu.Device{{UUID: "GPU-a"}, {UUID: "GPU-b"}},
	})
	log.Await(t, "hello from gpucloud-w-1-", 1)

	var create []string // the arguments of the last call of create
	for line := range strings.Lines(f.read("calls")) {
		if words := strings.Split(strings.TrimSuffix(line, "\n"), "|")[1:]; slices.Contains(words[:min(3, len(words))], "create") {
			create = words
		}
	}
	for _, want := range [][]string{
		{"--pull", "never"}, {"--label", "gpucloud.run=" + e.register.Run()}, {"--label", "gpucloud.endpoint=ep"}, {"--label", "gpucloud.worker=w 1"}, {"--log-driver", "none"}, // the jobrunner has the log
		{"--network", "host"}, {"--gpus", `"device=GPU-a,GPU-b"`}, {"--mount", `type=bind,"source=/data/vol,1",target=/runpod-volume`},
		{"--env", "GOOGLE_KEY"}, {"--entrypoint", "python3", "registry.example:5000/private/model:2", "-u", "handler.py", "two words"},
	} {
		must.Hold(t, strings.Contains(strings.Join(create, "|")+"|", "|"+strings.Join(want, "|")+"|"), "no", want, create)
	}
	must.Hold(t, !slices.Contains(create, "--storage-opt") && !slices.Contains(create, "--publish"), "a limit of the disk or a port is among the arguments", create)
	must.Hold(t, !strings.Contains(f.read("calls"), "the-secret"), "the arguments contain a secret")
	got, want := f.read("env"), "PATH=/theirs\nRUNPOD_WEBHOOK_GET_JOB=http://127.0.0.1:8420/v2/ep/job-take/$ID?gpu=x\nTOKEN=the-secret\n"
	must.Hold(t, got == want && f.read("env.mode") == "600\n", "file of variables, mode", f.read("env.mode"), got)
	must.Equal(t, f.read("env.inherited"), "GOOGLE_KEY=a\nthe-secret\n", "inherited")
	login := `{"auths":{"registry.example:5000":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("robot:the-secret")) + `"}}}`
	must.Equal(t, f.read("login"), "600\n"+login+"\nhost unix:///run/fake.sock\n", "login")
	must.Equal(t, f.read("start.dir"), e.scratch+"\n", "folder in which Podman's monitor leaves files")
	files, _ := os.ReadDir(e.scratch)
	must.Hold(t, len(files) == 0, "secrets stay on the disk:", files)
	must.Hold(t, strings.Contains(log.String(), "pulling registry.example:5000/private/model:2\n"), "log", log)

	for deadline := time.Now().Add(time.Minute); p.Usage().Memory == 0; time.Sleep(time.Millisecond) {
		must.Require(t, !time.Now().After(deadline), "no usage within a minute")
	}
	c := p.(*container)
	c.pid = os.Getpid()
	used := c.Usage().CPU
	c.pid = 1 << 30 // its processes have ended
	must.Hold(t, used > 0 && c.Usage().CPU == used, "the CPU time fell from", used, "to", c.Usage().CPU)
	p.Stop(0)
	p.Stop(0)
	must.Equal(t, f.containers(), nil, "containers are left")
	must.Hold(t, p.Exit().Text == "stopped by the jobrunner" && p.Usage() == (run.Usage{}), "exit", p.Exit().Text, "usage", p.Usage())
	must.Succeed(t, e.Close())
	for _, folder := range []string{registerFolder, scratchFolder} {
		files, _ := os.ReadDir(filepath.Join(dataDir, folder))
		must.Hold(t, len(files) == 0, folder, "has", files)
	}
}

func TestContainerExit(t *testing.T) {
	f := newFakeEngine(t, "docker")
	e := f.newExecutor("", "")
	for code, want := range map[string]string{
		"0": "exit status 0", "3": "exit status 3", "139": "exit status 139: killed by SIGSEGV",
		"137": "exit status 137: killed by SIGKILL, neither from the jobrunner nor for lack of memory",
	} {
		f.write("exit", code)
		p := start(t, e, run.Spec{Container: store.Container{Image: "team/x"}, Log: new(livelog.Log)})
		<-p.Done()
		must.Equal(t, p.Exit().Text, want, "the exit of a container with the status", code)
	}
	f.write("exit", "137")
	f.write("oom", "true")
	p := start(t, e, run.Spec{Container: store.Container{Image: "team/x"}, Log: new(livelog.Log)})
	<-p.Done()
	must.Equal(t, p.Exit().Text, "exit status 137: killed by SIGKILL, out of memory", "a container that ran out of memory ended with")
	must.Equal(t, f.containers(), nil, "containers are left")
	must.Equal(t, strings.Count(f.read("calls"), "CALL|pull|"), 1, "pulls of the image")
}

func TestContainerStartFails(t *testing.T) {
	f := newFakeEngine(t, "docker")
	e := f.newExecutor("", "rules:\n  - image: team/limited\n    container:\n      disk_limit: true\n")
	for want, c := range map[string]store.Container{
		"private/x can't be fetched: it has no registry auth, and the registry docker.io wants a login": {Image: "private/x"},
		"--storage-opt is not supported": {Image: "team/limited", Disk: 5},
		"can't be split":                 {Image: "team/x", Args: "'"},
		"invalid variable":               {Image: "team/x", Env: map[string]string{"A B": "x"}},
		"LD_PRELOAD can't be given":      {Image: "team/x", Env: map[string]string{"LD_PRELOAD": "x\ny"}},
		"godebug can't be given":         {Image: "team/x", Env: map[string]string{"godebug": "x\ny"}},
	} {
		p, err := program(t, e, c.Image).Start(t.Context(), run.Spec{Container: c, Log: new(livelog.Log)})
		if err == nil {
			p.Stop(0)
		}
		must.ErrorContains(t, err, want)
	}
	must.Succeed(t, os.Mkdir(filepath.Join(f.dir, "orphans"), 0o700)) // a list that fails: the pod's earlier container may run
	f.write("exit", "0")
	_, err := program(t, e, "team/x").Start(t.Context(), run.Spec{Pod: &run.Pod{FolderID: "folder"}, Container: store.Container{Image: "team/x"}, Log: new(livelog.Log)})
	must.ErrorContains(t, err, "orphans")
	must.Equal(t, f.containers(), nil, "containers are left")
}

func TestContainerSettings(t *testing.T) {
	env := map[string]string{"RUNPOD_WEBHOOK_PING": "http://127.0.0.1:8420/v2/ep/ping/$RUNPOD_POD_ID?gpu=x", "MY_URL": "http://127.0.0.1:8420/", "discovery.type": "single-node"}
	spec := run.Spec{
		Endpoint: "ep", ID: "w", Port: 8123, Devices: []gpu.Device{{UUID: "GPU-a"}, {UUID: "MIG-b"}},
		Container: store.Container{Image: "x", Env: env, Ports: []string{"8123/http", "22/tcp"}, Disk: 7},
	}
	bridge := containerSettings{Network: scalar{Value: "bridge"}, DiskLimit: true, Options: []scalar{{Value: "--shm-size=1g"}}}
	for name, c := range map[string]struct {
		containerSpec
		args, host string // host is this machine in the worker's URLs
	}{
		"docker in a network": {containerSpec{&bridge, spec, "n", "r", false, "linux"},
			`--network bridge --add-host host.docker.internal:host-gateway --publish 127.0.0.1:8123:8123 --publish 127.0.0.1::22 --gpus "device=GPU-a,MIG-b" --storage-opt size=7G --shm-size=1g x`, "host.docker.internal"},
		"podman in a network": {containerSpec{&bridge, spec, "n", "r", true, "linux"},
			`--network bridge --publish 127.0.0.1:8123:8123 --publish 127.0.0.1::22 --device nvidia.com/gpu=GPU-a --device nvidia.com/gpu=MIG-b --storage-opt size=7G --shm-size=1g x`, "host.containers.internal"},
		"docker on a Mac": {containerSpec{&containerSettings{}, spec, "n", "r", false, "darwin"},
			`--publish 127.0.0.1:8123:8123 --publish 127.0.0.1::22 --gpus "device=GPU-a,MIG-b" x`, "host.docker.internal"},
		"podman": {containerSpec{&containerSettings{}, spec, "n", "r", true, "linux"},
			`--network host --device nvidia.com/gpu=GPU-a --device nvidia.com/gpu=MIG-b x`, "127.0.0.1"},
	} {
		dir := t.TempDir()
		args, inherited, err := c.containerSpec.args(dir)
		must.Require(t, err == nil && len(inherited) == 0, "the arguments fail with", err, "or don't fit into the file:", inherited)
		got := strings.Join(args, " ")
		must.Hold(t, strings.HasSuffix(got, " --env-file "+filepath.Join(dir, "env")+" "+c.args), name, got, "want …", c.args)
		file, _ := os.ReadFile(filepath.Join(dir, "env"))
		for _, want := range []string{"RUNPOD_WEBHOOK_PING=http://" + c.host + ":8420/v2/ep/ping/$RUNPOD_POD_ID?gpu=x\n", "MY_URL=http://127.0.0.1:8420/\n", "discovery.type=single-node\n"} {
			must.Hold(t, strings.Contains(string(file), want), name, string(file), "lacks", want)
		}
	}
	// A worker without devices sees none, whatever its image asks for.
	dir := t.TempDir()
	_, _, err := containerSpec{&containerSettings{}, run.Spec{}, "n", "r", false, "linux"}.args(dir)
	must.Succeed(t, err)
	file, _ := os.ReadFile(filepath.Join(dir, "env"))
	must.Hold(t, string(file) == "NVIDIA_VISIBLE_DEVICES=void\n", "the file of variables is", string(file))
}

func TestRegistryLogins(t *testing.T) {
	for image, want := range map[string][2]string{ // docker, podman
		"model":                          {"https://index.docker.io/v1/", "docker.io"},
		"team/model:1":                   {"https://index.docker.io/v1/", "docker.io"},
		"docker.io/team/model":           {"https://index.docker.io/v1/", "docker.io"},
		"ghcr.io/team/model":             {"ghcr.io", "ghcr.io"},
		"localhost/model":                {"localhost", "localhost"},
		"registry.example:5000/model:2":  {"registry.example:5000", "registry.example:5000"},
		"registry:5000/team/model@sha:1": {"registry:5000", "registry:5000"},
	} {
		must.Equal(t, [2]string{(&containerEngine{}).registryOf(image), (&containerEngine{podman: true}).registryOf(image)}, want, image)
	}
	f := newFakeEngine(t, "podman")
	e := f.newExecutor("", "")
	start(t, e, run.Spec{Container: store.Container{Image: "private/x"}, Log: new(livelog.Log), Login: &run.Login{Username: "u", Password: "the-secret"}}).Stop(0)
	must.Equal(t, strings.Count(f.read("calls"), "CALL|rm|"), 2, "Podman's removals, one before its command for the start is killed, and one after")
	must.Hold(t, strings.Contains(f.read("login"), `"docker.io"`) && !strings.Contains(f.read("calls"), "the-secret"),
		"login", f.read("login"), "calls", f.read("calls"))
}

// explain adds cause and remedy to an engine's error about an image. TestRealEngines provokes real ones.
func TestPullFailures(t *testing.T) {
	login := &run.Login{Username: "u", Password: "p"}
	for _, c := range []struct {
		image, message string
		login          *run.Login
		want           string
	}{
		{"team/x", "pull access denied for team/x, repository does not exist or may require 'docker login': denied: requested access to the resource is denied", nil,
			"the registry docker.io has no such image, or wants a login"},
		{"docker.io/team/x", "denied: requested access to the resource is denied", login, "the registry docker.io refused the login"},
		{"ghcr.io/team/x", `failed to resolve reference "ghcr.io/team/x": failed to authorize: 403 Forbidden`, nil, "the registry ghcr.io has no such image, or wants a login"},
		{"r.example/x", `Get "https://r.example/v2/": dial tcp: lookup r.example: no such host`, nil, "the registry r.example can't be reached"},
		{"r.example/x", "initializing source docker://r.example/x: pinging container registry r.example: invalid status code from registry 502 (Bad Gateway)", nil, ""},
		{"r.example/x", "unable to retrieve auth token: invalid username/password: unauthorized", login, "the registry r.example refused the login"},
		{"r.example/x", "no space left on device", login, ""},
	} {
		err := explain(run.Spec{Container: store.Container{Image: c.image}, Login: c.login}, errors.New(c.message))
		want := c.message
		if c.want != "" {
			want = " (" + c.message + ")"
		}
		got := err.Error()
		must.Hold(t, strings.HasPrefix(got, c.want) && strings.HasSuffix(got, want) && (c.want != "" || got == c.message), c.message, "is explained as", got, "want", c.want, want)
	}
}

func TestEngineRecovers(t *testing.T) {
	f := newFakeEngine(t, "docker")
	f.write("down", "")
	e := f.newExecutor("", "")
	must.Equal(t, e.Describe()[1], "containers: docker: Cannot connect to the daemon. Is it running?")
	_, err := e.Program("acme/x")
	must.Require(t, err != nil && strings.Contains(err.Error(), "acme/x") && strings.Contains(err.Error(), "Cannot connect to the daemon"),
		"without an engine, Program returns", err)
	must.Equal(t, strings.Count(f.read("calls"), "CALL|version"), 1, "probes of the engine")
	must.Succeed(t, os.Remove(filepath.Join(f.dir, "down")))
	// Its containers may run, although it didn't answer in time. One never ran, and a restart of the machine ended another.
	f.write("orphans", "a p 3 Up 2 hours\nb p 4 Created\nc p 5 Exited (255) 1 second ago\nd p 6 Exited (1) 1 second ago\n")
	var runs []int64
	for _, o := range e.Orphans(t.Context(), "folder") {
		runs = append(runs, o.Run)
	}
	must.Equal(t, runs, []int64{3, -1, -1, 6}, "the generations of containers")
	must.Contain(t, f.read("calls"), "CALL|ps|--all|--filter|label=gpucloud.deployment=folder")
	engine := e.engines.all[0]
	engine.mu.Lock()
	engine.nextProbe = time.Time{} // the next probe is due
	engine.mu.Unlock()
	program(t, e, "acme/x")
	must.Equal(t, e.Describe()[1], "containers: docker 99.1 ("+f.path+")")
}

// Engines log a long line in pieces, each with its time.
func TestPiecesOfLineAreJoined(t *testing.T) {
	for _, name := range engineNames {
		f, log := newFakeEngine(t, name), new(livelog.Log)
		f.write("logs", "2026-06-01T12:00:00.000000001Z a2026-06-01T12:00:00.000000001Z b\n")
		newContainer(newEngine(t.Context(), f.path, nil), "c", log).followLog(log, time.Time{})
		must.Equal(t, log.String(), "ab\n", name)
	}
}

// New doesn't wait for a slow engine; the first call of Program does.
func TestSlowEngine(t *testing.T) {
	f := newFakeEngine(t, "podman")
	slow := filepath.Join(f.dir, "slow")
	must.Succeed(t, syscall.Mkfifo(slow, 0o600))
	e := f.newExecutor("", "")
	programs := make(chan error)
	go func() {
		_, err := e.Program("acme/x")
		programs <- err
	}()
	must.Succeed(t, os.WriteFile(slow, []byte("go on\n"), 0)) // blocks until the engine reads
	must.Succeed(t, <-programs)

	// A start that is cancelled during docker create waits for it: the daemon would create the container after its removal.
	// The same is true of a pod's start. Podman would lose the container's processes.
	f.write("exit", "0")
	for stage, pod := range map[string]*run.Pod{"creating": nil, "starting": {}} {
		pipe := filepath.Join(f.dir, stage)
		must.Succeed(t, syscall.Mkfifo(pipe, 0o600))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := program(t, e, "acme/x").Start(ctx, run.Spec{Pod: pod, Container: store.Container{Image: "acme/x"}, Log: new(livelog.Log)})
			programs <- err
		}()
		writer := must.Do(os.OpenFile(pipe, os.O_WRONLY, 0))(t)
		cancel()
		must.Succeed(t, writer.Close())
		err := <-programs
		must.Hold(t, errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "does not answer") && len(f.containers()) == 0, stage, "the error is", err, "and", f.containers(), "are left")
		must.Succeed(t, os.Remove(pipe))
	}
	must.Hold(t, f.read("started") != "", "the pod's start was interrupted")
}

// An installed CLI works, or its error has a reason.
func TestRealCLI(t *testing.T) {
	for _, name := range engineNames {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		e := newEngine(t.Context(), path, nil)
		e.probe(t.Context(), probeTimeout)
		switch err := e.problem(); {
		case err == nil:
			t.Logf("%s %s works", name, e.version)
		case !strings.HasPrefix(err.Error(), name+": ") || strings.Contains(err.Error(), "\n") || len(err.Error()) < 20:
			t.Errorf("the error of %s has no reason: %v", name, err)
		default:
			t.Log(err)
		}
	}
}

func TestContainersOfKilledRun(t *testing.T) {
	f := newFakeEngine(t, "docker")
	dataDir := t.TempDir()
	// A run that ended without Close: its file stays, its lock is gone.
	register := filepath.Join(dataDir, registerFolder)
	must.Succeed(t, os.MkdirAll(register, 0o700))
	must.Succeed(t, os.WriteFile(filepath.Join(register, "the-killed.run"), []byte(f.path+"\n"), 0o600))
	secrets := filepath.Join(dataDir, scratchFolder, "the-killed")
	must.Succeed(t, os.MkdirAll(secrets, 0o700))
	must.Succeed(t, os.Mkdir(filepath.Join(f.dir, "containers"), 0o700))
	f.write("containers/gpucloud-a", "the-killed\n")
	f.write("containers/gpucloud-b", "another\n")

	f.write("down", "")
	must.Succeed(t, f.newExecutor(dataDir, "").Close())
	must.Require(t, len(f.containers()) == 2, "an engine that is down removed a container")
	must.Succeed(t, os.Remove(filepath.Join(f.dir, "down")))
	must.Succeed(t, f.newExecutor(dataDir, "").Close())
	all := f.containers()
	must.Hold(t, len(all) == 1 && all[0].Name() == "gpucloud-b", "containers", all)
	must.Hold(t, must.Err(os.Stat(secrets)) != nil, "the scratch folder is left")

	// A run that ended while its engine was down left a container, too.
	e := f.newExecutor(dataDir, "")
	p := start(t, e, run.Spec{Container: store.Container{Image: "team/x"}, Log: new(livelog.Log)})
	f.write("down", "")
	p.Stop(0)
	must.Succeed(t, e.Close())
	must.Succeed(t, os.Remove(filepath.Join(f.dir, "down")))
	must.Succeed(t, f.newExecutor(dataDir, "").Close())
	must.Equal(t, f.containers(), all, "the containers after another start")
	r := must.Do(procgroup.OpenRegister(register))(t)
	must.Equal(t, must.Do(r.KilledRuns())(t), nil, "killed runs that are left")
	must.Succeed(t, r.Close())
}

// A jobrunner with OptionalDataDir starts even if its data folder can't be written.
func TestUnwritableDataFolder(t *testing.T) {
	f := newFakeEngine(t, "docker")
	c := Config{File: writeConfig(t, "engine: "+f.path+"\n"), DataDir: filepath.Join(f.path, "no-folder")}
	must.Require(t, must.Err(New(t.Context(), c)) != nil, "it starts without its data folder")
	c.OptionalDataDir = true
	e := must.Do(New(t.Context(), c))(t)
	start(t, e, run.Spec{Container: store.Container{Image: "team/x"}, Log: new(livelog.Log)}).Stop(0)
	must.Succeed(t, e.Close())
}

// If Docker restarts, its containers end, and their pods start again.
func TestEngineRestarts(t *testing.T) {
	f := newFakeEngine(t, "docker")
	f.write("down", "")
	c := f.startPod(new(livelog.Log))
	for deadline := time.Now().Add(time.Minute); !strings.Contains(f.read("calls"), "CALL|inspect|"); time.Sleep(time.Millisecond) {
		must.Require(t, !time.Now().After(deadline), "the container isn't inspected within a minute")
	}
	must.Succeed(t, os.Remove(filepath.Join(f.dir, "down")))
	<-c.Done()
	must.Equal(t, c.Exit(), dockerRestart, "the exit of a pod")

	log := new(livelog.Log)
	p := start(t, f.newExecutor("", ""), run.Spec{Container: store.Container{Image: "team/x"}, Log: log})
	log.Await(t, "hello", 1)
	f.write("down", "")
	must.Succeed(t, os.RemoveAll(filepath.Join(f.dir, "containers")))
	<-p.Done()
	must.Equal(t, p.Exit(), dockerRestart, "the exit of a worker")
	must.Succeed(t, os.Remove(filepath.Join(f.dir, "down")))
}

// A pod can be stopped even if its engine doesn't respond any more.
func TestStopWithoutEngine(t *testing.T) {
	f, log := newFakeEngine(t, "docker"), new(livelog.Log)
	pipe := filepath.Join(f.dir, "logs")
	must.Succeed(t, syscall.Mkfifo(pipe, 0o600))
	c := f.startPod(log)
	defer must.Do(os.OpenFile(pipe, os.O_WRONLY, 0))(t).Close() // the engine's command for the log hangs
	f.write("down", "")
	c.Stop(time.Second)
	must.Hold(t, c.Exit().Text == run.Stopped && strings.Count(log.String(), "could not be removed") == 1, "the exit is", c.Exit(), "and the log", log)
	must.Succeed(t, os.Remove(filepath.Join(f.dir, "down")))
	c.engine.probes.Wait()
	must.Equal(t, len(f.containers()), 0, "the number of containers after the engine responds again")
}
