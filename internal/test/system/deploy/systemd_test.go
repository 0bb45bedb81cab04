//go:build linux

package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

const unitFolder = "deploy/systemd/"

func settings(text string) map[string][]string {
	found := map[string][]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			found[name] = append(found[name], value)
		}
	}
	return found
}

// command returns the arguments of the unit's ExecStart, with a state folder.
func command(t *testing.T, state string) []string {
	t.Helper()
	unit := settings(readFile(t, unitFolder+"jobrunner.service"))
	start := unit["ExecStart"]
	must.Require(t, len(start) == 1 && slices.Equal(unit["OOMPolicy"], []string{"continue"}), "expected one ExecStart, and a worker that runs out of memory to stop nothing else, and got", unit)
	words := strings.Fields(strings.NewReplacer("${STATE_DIRECTORY}", state, "$JOBRUNNER_FLAGS", "").Replace(start[0]))
	must.Equal(t, words[0], "/usr/local/bin/jobrunner", "program that the unit starts")
	return words[1:]
}

// The unit's command runs a job, and stores it in the state folder.
func TestUnitServes(t *testing.T) {
	state := t.TempDir()
	j := start(t, nil, command(t, state))
	j.checkJob()
	j.stop()
	must.Do(os.Stat(filepath.Join(state, "jobrunner.db")))(t)
}

// With the drop-in, the state is in PostgreSQL and the key comes from its file.
func TestUnitServesFromPostgres(t *testing.T) {
	credentials := t.TempDir()
	dropIn := settings(readFile(t, unitFolder+"postgresql.conf"))
	contents := map[string]string{"/etc/gpucloud/engine": pgtest.Start(t), "/etc/gpucloud/api-key": "the-key-of-all-nodes"}
	for _, credential := range dropIn["LoadCredential"] {
		name, path, _ := strings.Cut(credential, ":")
		must.Hold(t, contents[path] != "", "the drop-in loads an unexpected credential,", credential)
		must.Succeed(t, os.WriteFile(filepath.Join(credentials, name), []byte(contents[path]+"\n"), 0o600))
	}
	var env []string
	for _, variable := range dropIn["Environment"] {
		env = append(env, strings.ReplaceAll(variable, "%d", credentials))
	}
	state := t.TempDir()
	j := start(t, env, command(t, state))
	j.key = "the-key-of-all-nodes"
	j.checkJob()
	j.stop()
	for _, name := range []string{"jobrunner.db", "api-key"} {
		must.Hold(t, must.Err(os.Stat(filepath.Join(state, name))) != nil, name, "is in the state folder, but shouldn't be written with PostgreSQL")
	}
}

// systemd accepts every setting of the unit and its drop-ins, with an exposure of at most 2.0 of 10.
func TestUnitIsValid(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		must.Require(t, os.Getenv("CI") == "", "CI must have systemd-analyze:", err)
		t.Skip("systemd-analyze is not installed (Debian: apt-get install --no-install-recommends systemd)")
	}
	dir := t.TempDir()
	unit := filepath.Join(dir, "jobrunner.service")
	dropIns := unit + ".d"
	must.Succeed(t, os.Mkdir(dropIns, 0o700))
	for path, text := range map[string]string{
		unit:                                  strings.ReplaceAll(readFile(t, unitFolder+"jobrunner.service"), "/usr/local/bin/jobrunner", program(t)),
		filepath.Join(dropIns, "docker.conf"): readFile(t, unitFolder+"docker.conf"),
		filepath.Join(dropIns, "postgresql.conf"): readFile(t, unitFolder+"postgresql.conf"),
	} {
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
	}
	run := func(args ...string) (string, error) {
		cmd := exec.Command(analyze, args...)
		cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":", "LC_ALL=C")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out := must.Do(run("verify", "--man=no", unit))(t)
	must.Hold(t, strings.TrimSpace(out) == "", "systemd-analyze verify complains:", out)
	must.Succeed(t, os.Remove(filepath.Join(dropIns, "docker.conf"))) // gives root's rights
	if out, err := run("security", "--offline=yes", "--threshold=20", unit); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}
