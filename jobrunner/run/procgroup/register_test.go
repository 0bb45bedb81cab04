//go:build unix

package procgroup_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
)

// asJobrunner is a variable that makes this test binary a jobrunner with a group, in the folder that
// it names.
const asJobrunner = "PROCGROUP_TEST_RUN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asJobrunner); dir != "" {
		fmt.Fprintln(os.Stderr, serve(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func serve(dir string) error {
	r, err := procgroup.OpenRegister(dir)
	if err != nil {
		return err
	}
	if err := r.Note("a-note"); err != nil {
		return err
	}
	_, err = procgroup.Start(procgroup.Command{
		Args: []string{"sh", "-c", `echo $$; sleep 1000 & echo $!; python3 -c "$DAEMON" & wait`}, Register: r,
		Env: []string{"PATH=" + os.Getenv("PATH"), "DAEMON=" + daemon}, Output: os.Stdout,
	})
	if err != nil {
		return err
	}
	select {}
}

func open(t *testing.T, dir string) *procgroup.Register {
	t.Helper()
	return must.Do(procgroup.OpenRegister(dir))(t)
}

func killedRuns(t *testing.T, r *procgroup.Register) []procgroup.KilledRun {
	t.Helper()
	return must.Do(r.KilledRuns())(t)
}

func TestProcessesOfKilledRun(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux finds processes that left the group")
	}
	dir := filepath.Join(t.TempDir(), "processes")
	log := new(livelog.Log)
	run := exec.Command(os.Args[0])
	run.Env = append(os.Environ(), asJobrunner+"="+dir)
	run.Stdout, run.Stderr = log, log
	must.Succeed(t, run.Start())
	all := pids(t, awaitLines(t, log, 3))
	r := open(t, dir)
	if l := killedRuns(t, r); len(l) != 0 {
		t.Fatalf("a live run counts as killed: %+v", l)
	}
	// A process of another run.
	stranger := shell(t, "sleep 1000", nil)
	must.Succeed(t, run.Process.Kill())
	_ = run.Wait()
	for end := time.Now().Add(time.Minute); lives(all[0]); time.Sleep(time.Millisecond) { // the kernel ends it with the run
		must.Require(t, !time.Now().After(end), "the command outlives its run")
	}

	l := killedRuns(t, r)
	must.Require(t, len(l) == 1 && slices.Equal(l[0].Notes, []string{"a-note"}), "left:", l)
	n := l[0].Kill() // the command itself ended with the run
	must.Hold(t, n >= 2, n, "processes were killed")
	allGone(t, all)
	select {
	case <-stranger.Done():
		t.Error("the process of another run was killed too")
	default:
	}
	must.Succeed(t, l[0].Forget())
	must.Equal(t, killedRuns(t, r), nil, "forgotten, but")
	must.Succeed(t, r.Close())
	files, _ := os.ReadDir(dir)
	must.Hold(t, len(files) == 0, "files are left:", files)
}

func TestClosedRunLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	g := must.Do(procgroup.Start(procgroup.Command{Args: []string{"sleep", "1000"}, Register: first}))(t)
	g.Kill()
	must.Succeed(t, first.Close())
	second := open(t, dir)
	must.Equal(t, killedRuns(t, second), nil, "left")
	must.Succeed(t, second.Close())
}

func TestRegisterWithoutFolder(t *testing.T) {
	r := open(t, "")
	l := killedRuns(t, r)
	must.Hold(t, l == nil, "left", l)
	must.Succeed(t, r.Note("word"))
	must.Succeed(t, r.Close())
}
