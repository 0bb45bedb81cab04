//go:build unix

package host

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

func TestProcess(t *testing.T) {
	e := local(t, "    process:\n      dir: /\n      run: [sh, -c, 'echo $$ at $PWD: $GREETING $1; exec sleep 1000', sh]\n      template: args\n")
	log := new(livelog.Log)
	p := must.Do(program(t, e, "x:1").Start(t.Context(), run.Spec{
		Container: store.Container{Image: "x", Args: "'two words'", Env: map[string]string{"GREETING": "hello", "TOKEN": "the-secret"}}, Log: log,
	}))(t)
	defer p.Stop(0)
	log.Await(t, "\n", 1)
	id, rest, _ := strings.Cut(log.String(), " ")
	must.Equal(t, rest, "at /: hello two words\n", "log", log)
	pid := must.Do(strconv.Atoi(id))(t)
	line, err := os.ReadFile("/proc/" + id + "/cmdline")
	must.Hold(t, err != nil || !strings.Contains(string(line), "the-secret"), "the command line contains a secret:", string(line))
	p.Stop(0)
	must.Hold(t, !alive(pid), "the process", pid, "still runs")
	must.Hold(t, p.Exit().Text == "stopped by the jobrunner" && p.Usage().Memory == 0, "exit", p.Exit().Text, "usage", p.Usage())
}

// A worker doesn't find the jobs of a killed worker in its folder.
func TestProcessFindsNoJobsOfKilledWorker(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{sdkJobs, "model.bin"} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	e := local(t, "    process:\n      dir: "+dir+"\n      run: [ls, -A]\n")
	log := new(livelog.Log)
	p := must.Do(program(t, e, "x").Start(t.Context(), run.Spec{Log: log}))(t)
	defer p.Stop(0)
	log.Await(t, "\n", 1)
	<-p.Done()
	must.Equal(t, log.String(), "model.bin\n", "it finds", log)
}

func TestProcessStartFails(t *testing.T) {
	dir := t.TempDir()
	tool := filepath.Join(dir, "tool")
	must.Succeed(t, os.WriteFile(tool, []byte("#!/nosuchinterpreter\n"), 0o700))
	e := local(t, "    process:\n      dir: "+dir+"\n      run: [./tool]\n")
	if p, err := program(t, e, "x").Start(t.Context(), run.Spec{Log: new(livelog.Log)}); err == nil {
		p.Stop(0)
		t.Error("it started")
	}
}

func TestUnknownImages(t *testing.T) {
	e := local(t, "    process: {run: [sh]}\n")
	_, err := e.Program("acme/model:2")
	must.Require(t, err != nil, "a program runs it")
	for _, want := range []string{"acme/model:2", e.file, "engine: none", "docs/reference/jobrunner.md"} {
		must.Hold(t, strings.Contains(err.Error(), want), err, "doesn't mention", want)
	}
	must.Hold(t, must.Err(e.Program("--privileged")) != nil, "an option is accepted as an image")
	must.Equal(t, strings.Join(e.Describe(), "\n"), e.file+": 1 × process\ncontainers: off", "engines")
}
