//go:build unix

package main_test

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// newerSteps is the environment variable from which the newer version reads its additional schema steps.
const newerSteps = "TEST_NEWER_STEPS"

// writeNewerVersion returns an overlay for go build that makes the jobrunner read additional schema steps
// from a variable, and submit jobs with the added column.
func writeNewerVersion(t *testing.T) (overlay string) {
	t.Helper()
	dir := t.TempDir()
	edited := map[string]string{}
	for file, edit := range map[string][2]string{
		"schema.go": {"// schema is", "import \"os\"\nimport \"strings\"\n\nfunc init() { schema = append(schema, strings.Split(os.Getenv(\"" + newerSteps + "\"), \"|\")...) }\n\n// schema is"},
		"store.go":  {"INSERT INTO jobs (k, ` + fixedColumns + `, ` + runColumns + `, ` + otherColumns + `, done) VALUES (", "INSERT INTO jobs (added, k, ` + fixedColumns + `, ` + runColumns + `, ` + otherColumns + `, done) VALUES ('by the newer version', "},
	} {
		source := must.Do(filepath.Abs(filepath.Join("..", "..", "jobrunner", "engine", file)))(t)
		text := must.ReadFile(t, source)
		must.Require(t, strings.Count(string(text), edit[0]) == 1, file, "does not have", edit[0], "once")
		edited[source] = filepath.Join(dir, file)
		writeFile(t, edited[source], strings.Replace(string(text), edit[0], edit[1], 1))
	}
	overlay = filepath.Join(dir, "overlay.json")
	writeFile(t, overlay, string(must.Do(json.Marshal(map[string]any{"Replace": edited}))(t)))
	return overlay
}

// startVersion starts a node with a newer program and its additional schema steps.
func (c *nodes) startVersion(i int, program, steps string) {
	c.t.Helper()
	p := &process{t: c.lifetime, cmd: exec.Command(program, append([]string{"serve", "--listen=127.0.0.1:0", "--data=" + c.dirs[i]}, c.args...)...)}
	p.start(append(c.env[:len(c.env):len(c.env)], newerSteps+"="+steps))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes[i] = p
}

// Three nodes are upgraded one after the other under load to a version that adds to the schema, and one is
// downgraded. Old and new nodes work together, and every acknowledged job completes without a retry. A
// version with a breaking schema doesn't start while older nodes run, and older nodes don't start after it.
func TestRollingUpgrade(t *testing.T) {
	overlay, newerBinary := writeNewerVersion(t), filepath.Join(t.TempDir(), "jobrunner")
	if testing.Short() {
		t.Skip("builds another version of the program")
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", newerBinary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const maxWorkers, addColumn = 2, "ALTER TABLE jobs ADD COLUMN added TEXT NOT NULL DEFAULT ''"
	const breakingChange = addColumn + "|" + sqldb.Breaking + "CREATE TABLE unknown_to_older (k BIGINT)"
	c := startNodes(t, 3)
	endpoint := createQueueEndpoint(t, c.processes[0].client("k"), "upgraded", "builtin/conformance", maxWorkers)
	ctx, endLoad := context.WithCancel(t.Context())
	defer endLoad()
	awaitSubmitters, stopWatching := c.submitJobs(ctx, endpoint, 6), c.watchMaximum(endpoint, maxWorkers)
	version := func() (n int) {
		must.Equal(t, c.query(&n, "SELECT version FROM meta WHERE component = 'engine'"), nil)
		return n
	}
	completedJobs := func() (n int) {
		must.Equal(t, c.query(&n, "SELECT COALESCE(MAX(completed), 0) FROM counts WHERE endpoint = $1", endpoint), nil)
		return n
	}
	awaitProgress := func() {
		t.Helper()
		before := completedJobs()
		waitUntil(t, "jobs to complete", func() bool { return completedJobs() >= before+20 })
	}
	awaitProgress()
	versionBefore := version()
	for _, i := range []int{(c.leader(endpoint) + 1) % 3, c.leader(endpoint), (c.leader(endpoint) + 2) % 3} {
		c.processes[i].interrupt()
		c.startVersion(i, newerBinary, addColumn)
		awaitProgress()
	}
	must.Equal(t, version(), versionBefore+1, "the schema's version after the upgrade")
	downgraded := c.leader(endpoint)
	c.processes[downgraded].interrupt()
	c.start(downgraded)
	awaitProgress()
	must.Equal(t, version(), versionBefore+1, "the schema's version after the start of the older program")
	endLoad()
	t.Log(c.awaitAll(endpoint, awaitSubmitters()))
	stopWatching()
	var newerJobs, retried int
	err := c.query(&newerJobs, "SELECT COUNT(*) FROM jobs WHERE added <> ''")
	must.Hold(t, err == nil && newerJobs != 0, "no job was submitted to a newer node:", newerJobs, err)
	err = c.query(&retried, "SELECT COUNT(*) FROM jobs WHERE retries > 0")
	must.Hold(t, err == nil && retried == 0, "jobs were retried:", retried, err)

	args := append([]string{"serve", "--listen=127.0.0.1:0", "--data=" + t.TempDir()}, c.args...)
	expectRefusal := func(program, text string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = append(c.env[:len(c.env):len(c.env)], newerSteps+"="+breakingChange)
		out, err := cmd.CombinedOutput()
		must.Hold(t, err != nil && strings.Contains(string(out), text), "expected an error with", text, "got", err, string(out))
	}
	expectRefusal(newerBinary, "older jobrunners can't work with, and 3 run")
	for i := range c.processes {
		c.processes[i].interrupt()
	}
	c.startVersion(0, newerBinary, breakingChange)
	expectRefusal(binary, "newer version of this program")
	status, text := c.send(t.Context(), 0, "POST", "/v2/"+endpoint+"/runsync", `{"input":{"op":"echo"}}`)
	must.Hold(t, status == 200 && strings.Contains(text, `"COMPLETED"`), "the version with the breaking schema returned", status, text)
}

// If another node makes a breaking schema change, an older running node reports it and exits.
func TestOutdatedNode(t *testing.T) {
	acctest.LeaveToCI(t, "package sqldb tests a breaking migration")
	t.Parallel()
	c := startNodes(t, 1)
	var version int
	must.Succeed(t, c.query(&version, "UPDATE compatible SET version = (SELECT version FROM meta WHERE component = 'engine') + 1 WHERE component = 'engine' RETURNING version"))
	err := c.processes[0].cmd.Wait()
	output := c.processes[0].stderr.String()
	must.Hold(t, err != nil && strings.Contains(output, "this jobrunner is older than the database"), "the older node ended with", err, output)
}
