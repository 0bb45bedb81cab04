//go:build unix

package host

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

func TestProcess(t *testing.T) {
	e := local(t, "    process:\n      dir: /\n      run: [sh, -c, 'echo $$ at $PWD: $GREETING $1; exec sleep 1000', sh]\n      template: args\n")
	log := newOutput()
	p := must.Do(program(t, e, "x:1").Start(t.Context(), run.Spec{
		Container: store.Container{Image: "x", Args: "'two words'", Env: map[string]string{"GREETING": "hello", "TOKEN": "the-secret"}}, Log: log,
	}))(t)
	defer p.Stop(0)
	log.await(t, "\n")
	id, rest, _ := strings.Cut(log.String(), " ")
	must.Equal(t, rest, "at /: hello two words\n", "log", log)
	pid := must.Do(strconv.Atoi(id))(t)
	if line, err := os.ReadFile("/proc/" + id + "/cmdline"); err == nil && strings.Contains(string(line), "the-secret") {
		t.Errorf("the command line contains a secret: %q", line)
	}
	p.Stop(0)
	must.Hold(t, !alive(pid), "the process", pid, "still runs")
	if p.Exit().Text != "stopped by the jobrunner" || p.Usage().Memory != 0 {
		t.Errorf("exit %s, usage %+v", p.Exit().Text, p.Usage())
	}
}

// A worker doesn't find the jobs of a killed worker in its folder.
func TestProcessFindsNoJobsOfKilledWorker(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{sdkJobs, "model.bin"} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	e := local(t, "    process:\n      dir: "+dir+"\n      run: [ls, -A]\n")
	log := newOutput()
	p := must.Do(program(t, e, "x").Start(t.Context(), run.Spec{Log: log}))(t)
	defer p.Stop(0)
	log.await(t, "\n")
	<-p.Done()
	must.Equal(t, log.String(), "model.bin\n", "it finds", log)
}

func TestProcessStartFails(t *testing.T) {
	dir := t.TempDir()
	tool := filepath.Join(dir, "tool")
	must.Succeed(t, os.WriteFile(tool, []byte("#!/nosuchinterpreter\n"), 0o700))
	e := local(t, "    process:\n      dir: "+dir+"\n      run: [./tool]\n")
	if p, err := program(t, e, "x").Start(t.Context(), run.Spec{Log: newOutput()}); err == nil {
		p.Stop(0)
		t.Error("it started")
	}
}

func TestUnknownImages(t *testing.T) {
	e := local(t, "    process: {run: [sh]}\n")
	_, err := e.Program("acme/model:2")
	if err == nil {
		t.Fatal("a program runs it")
	}
	for _, want := range []string{"acme/model:2", e.file, "engine: none", "docs/reference/jobrunner.md"} {
		must.Hold(t, strings.Contains(err.Error(), want), err, "doesn't mention", want)
	}
	must.Hold(t, must.Err(e.Program("--privileged")) != nil, "an option is accepted as an image")
	must.Equal(t, strings.Join(e.Describe(), "\n"), e.file+": 1 × process\ncontainers: off", "engines")
}
