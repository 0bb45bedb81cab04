//go:build unix

package main_test

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/node"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// backUpUnderLoad calls copyState under load and kills p. It returns the outputs of jobs acknowledged before the copy.
func backUpUnderLoad(t *testing.T, p *process, copyState func()) (endpoint string, before map[string]string) {
	t.Helper()
	c := p.client("k")
	endpoint = p.createEndpointOfImage("builtin/conformance")
	var mu sync.Mutex
	outputs := map[string]string{}
	ctx, stop := context.WithCancel(t.Context())
	enoughJobs := make(chan struct{})
	var clients sync.WaitGroup
	for client := range 3 {
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				output := fmt.Sprintf(`"%d-%d"`, client, n)
				job, err := c.Jobs.Run(ctx, endpoint, api.Submission{Input: []byte(`{"op": "sleep", "ms": 5, "output": ` + output + `}`)})
				if err != nil {
					must.Hold(t, ctx.Err() != nil, err)
					stop()
					return
				}
				mu.Lock()
				if outputs[job.ID] = output; len(outputs) == 30 {
					close(enoughJobs)
				}
				mu.Unlock()
			}
		})
	}
	select {
	case <-enoughJobs:
	case <-ctx.Done(): // a client has reported its error
		clients.Wait()
		t.FailNow()
	}
	mu.Lock()
	before = maps.Clone(outputs)
	mu.Unlock()
	copyState()
	stop()
	clients.Wait()
	t.Logf("%d jobs were acknowledged before the copy, and %d during it", len(before), len(outputs)-len(before))
	p.kill()
	return endpoint, before
}

// expectCompletion expects that a jobrunner with the copy finishes the jobs, and stops it.
func (p *process) expectCompletion(endpoint string, jobs map[string]string) {
	p.t.Helper()
	for id, output := range jobs {
		awaitOutput(p.t, p.client("k"), endpoint, id, output)
	}
	p.interrupt()
}

// A backup copies the state of a jobrunner under load. A jobrunner with the copy has every job and key.
func TestBackup(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	data, restoredDir := filepath.Join(home, "data"), filepath.Join(home, "restored")
	env := environment(home)
	must.Succeed(t, os.Mkdir(data, 0o700))
	writeFile(t, filepath.Join(data, "api-key"), "k\n")
	p := serve(t, env, "--data="+data, "--limits=off")
	key := strings.TrimSpace(mustPrint(t, env, "keys", "add", "--data="+data, "other"))
	p.call("POST", "/v2/account/secrets", `{"name": "s", "value": "planted-secret"}`, nil)
	endpoint, jobs := backUpUnderLoad(t, p, func() {
		must.Equal(t, mustPrint(t, env, "backup", "--data="+data, restoredDir), restoredDir+"\n", "the output of backup")
	})
	must.Contain(t, mustFail(t, env, "backup", "--data="+data, restoredDir), "expected a folder that does not exist")
	must.Equal(t, must.Do(filepath.Glob(filepath.Join(home, "*restored*")))(t), []string{restoredDir}, "the copies, with unfinished ones")
	must.Equal(t, must.Do(os.Stat(restoredDir))(t).Mode().Perm(), 0o700, "the mode of the copy")
	match, err := exec.Command("grep", "-r", "planted-secret", restoredDir).Output()
	must.Hold(t, err != nil, "the copy has a secret in clear:", string(match))
	must.Hold(t, must.Err(os.Stat(filepath.Join(restoredDir, "secrets.key"))) != nil, "the copy has the key of the secrets")
	must.Succeed(t, os.RemoveAll(data))
	restoredProcess := serve(t, env, "--data="+restoredDir, "--limits=off")
	must.Equal(t, must.Err(restoredProcess.client(key).Endpoints.List(t.Context())), nil, "a request with the added key")
	restoredProcess.expectCompletion(endpoint, jobs)
	must.Contain(t, mustFail(t, env, "backup", "--data="+home, restoredDir+"-2"), "has no database")
	must.Succeed(t, os.Mkdir(filepath.Join(home, "jobrunner.db"), 0o700))
	must.Contain(t, mustFail(t, env, "backup", "--data="+home, restoredDir+"-2"), "opening the database "+home+"/jobrunner.db: the database's file can't be read")
	must.Contain(t, mustFail(t, env, "backup", "--data="+restoredDir, restoredDir+"/api-key/x"), "making the folder of the copy: ")
	// The copy keeps the marker that a PostgreSQL database took over the keys. Otherwise it would accept keys revoked there.
	writeFile(t, filepath.Join(restoredDir, "keys.json.moved"), "")
	mustPrint(t, env, "backup", "--data="+restoredDir, restoredDir+"-3")
	must.Contain(t, mustFail(t, env, "serve", "--listen=127.0.0.1:0", "--data="+restoredDir+"-3"), "are in the deployment's database")
}

// pg_dump copies the state of a jobrunner under load, and pg_restore restores it.
func TestBackupOfPostgres(t *testing.T) {
	acctest.LeaveToCI(t, "TestBackup tests it on SQLite")
	t.Parallel()
	source := must.Do(url.Parse(pgtest.Start(t)))(t)
	for _, program := range []string{"pg_dump", "pg_restore"} {
		if _, err := exec.LookPath(program); err != nil {
			must.Require(t, os.Getenv("CI") == "", err) // CI installs it
			t.Skip(err)                                 // the error names the program; on some systems PostgreSQL's clients are a separate package
		}
	}
	schema := source.Query().Get("search_path")
	libpqURL, target := *source, *source
	libpqURL.RawQuery = "sslmode=disable" // libpq doesn't accept search_path
	target.Path = "/restored_" + schema
	pgtest.Exec(t, libpqURL.String(), "CREATE DATABASE restored_"+schema)
	t.Cleanup(func() { pgtest.Exec(t, libpqURL.String(), "DROP DATABASE restored_"+schema+" WITH (FORCE)") })
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
	}
	env := environment(t.TempDir(), "GPUCLOUD_API_KEY=k")
	dump := filepath.Join(t.TempDir(), "dump")
	oldFolder := t.TempDir()
	writeFile(t, filepath.Join(oldFolder, "jobrunner.db"), "")
	p := serve(t, append(env, "GPUCLOUD_ENGINE="+source.String()), "--data="+oldFolder, "--limits=off")
	endpoint, jobs := backUpUnderLoad(t, p, func() {
		run("pg_dump", "--format=custom", "--no-owner", "--schema="+schema, "--file="+dump, "--dbname="+libpqURL.String())
	})
	must.Contain(t, p.stderr.String(), "the jobs and objects in the data folder are not used")
	restoredURL := libpqURL
	restoredURL.Path = target.Path
	// A dump that was cut leaves nothing, so that the whole one can be restored after it.
	restore := []string{"--single-transaction", "--no-owner", "--dbname=" + restoredURL.String()}
	whole := must.ReadFile(t, dump)
	writeFile(t, dump+"-cut", string(whole[:len(whole)-64]))
	out, err := exec.Command("pg_restore", append(restore, dump+"-cut")...).CombinedOutput()
	must.Hold(t, err != nil, "pg_restore accepts a dump that was cut", string(out))
	run("pg_restore", append(restore, dump)...)
	serve(t, append(env, "GPUCLOUD_ENGINE="+target.String()), "--data="+t.TempDir(), "--limits=off").expectCompletion(endpoint, jobs)
}

func TestInterruptedBackup(t *testing.T) {
	t.Parallel()
	data, target := t.TempDir(), t.TempDir()
	pipe := filepath.Join(data, node.FolderIDFile)
	if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
		t.Skipf("%s %v", out, err)
	}
	cmd := exec.Command(binary, "backup", filepath.Join(target, "copy"), "--data="+data)
	cmd.Env = environment(t.TempDir())
	must.Succeed(t, cmd.Start())
	writer := must.Do(os.OpenFile(pipe, os.O_WRONLY, 0))(t) // waits until the backup reads
	defer writer.Close()
	must.Succeed(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait() // the exit status is checked below
	must.Equal(t, cmd.ProcessState.ExitCode(), 1, "exit status")
	must.Equal(t, must.Do(os.ReadDir(target))(t), nil, "files of the interrupted copy")
}
