package main_test

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func (p *process) getStatus(key, path string) int {
	p.t.Helper()
	resp, _, err := send(p.t.Context(), http.MethodGet, p.url+path, key, "")
	must.Succeed(p.t, err)
	return resp.StatusCode
}

// keys add and keys list warn if no deployment uses the folder, because usually another folder was meant.
func TestKeyOfNoDeployment(t *testing.T) {
	t.Parallel()
	env := environment(t.TempDir(), "GPUCLOUD_API_KEY=k")
	add := func(name string, args ...string) (output string) {
		t.Helper()
		_, output, status := execute(t, env, "", append([]string{"keys", "add", name}, args...)...)
		must.Require(t, status == 0, "keys add ended with", status, output)
		return output
	}
	must.Contain(t, add("before"), "No deployment has its state in", "only a deployment with --keys", "with --data")
	serve(t, env)
	output := add("used")
	must.Hold(t, !strings.Contains(output, "No deployment"), "while the deployment runs, keys add printed", output)
	_, output, _ = execute(t, env, "", "keys", "list", "--data", t.TempDir())
	must.Contain(t, output, "No deployment has its state in")
	_, output, _ = execute(t, []string{"HOME="}, "", "keys", "list")
	must.Contain(t, output, "(set HOME or --data)")
}

// Keys can be added, used and removed while the deployment runs. Keys from before its start are valid, too.
func TestFurtherKeys(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	env := environment(home, "GPUCLOUD_API_KEY=k")
	olderKey := strings.TrimSpace(mustPrint(t, env, "keys", "add", "before"))
	p := serve(t, env)
	endpoint, otherEndpoint := p.createEndpointOfImage("builtin/echo"), p.createEndpointOfImage("builtin/echo")
	endpointKey := strings.TrimSpace(mustPrint(t, env, "keys", "add", "ci", "--endpoint", endpoint, "--owner", "team", "--expires", "720h"))
	for _, c := range []struct {
		key, path string
		want      int
	}{
		{olderKey, "/v2/templates", 200}, {olderKey, "/v2/" + otherEndpoint + "/health", 200},
		{endpointKey, "/v2/" + endpoint + "/health", 200}, {endpointKey, "/v2/" + otherEndpoint + "/health", 403}, {endpointKey, "/v2/nowhere/health", 404},
		{endpointKey, "/v2/templates", 403}, {endpointKey, "/v1/templates", 403},
		{"another", "/v2/" + endpoint + "/health", 401}, {"another", "/v2/templates", 401},
	} {
		must.Equal(t, p.getStatus(c.key, c.path), c.want, "the status of", c.path, "with the key", c.key)
	}

	list := mustPrint(t, env, "keys", "list", "--data", filepath.Join(home, ".local", "state", "gpucloud", "jobrunner"))
	lines := strings.Split(strings.TrimSpace(list), "\n")
	must.Require(t, len(lines) == 3 && regexp.MustCompile(`^before +before +all +all +all +\S+ +never$`).MatchString(lines[1]) &&
		regexp.MustCompile(`^ci +team +none +all +`+endpoint+` +\S+ +20\S+Z$`).MatchString(lines[2]) && !strings.Contains(list, endpointKey), "the list is", list)

	mustPrint(t, env, "keys", "remove", "ci")
	must.Equal(t, p.getStatus(endpointKey, "/v2/"+endpoint+"/health"), 401, "the status of a request with a removed key")
	must.Equal(t, p.getStatus(olderKey, "/v2/"+endpoint+"/health"), 200, "the status of a request with a key that stays")
	p.interrupt()
	for _, key := range []string{olderKey, endpointKey} {
		must.Hold(t, !strings.Contains(p.stderr.String(), key), "a key is in the log")
	}
}

// An empty restriction, such as from an unset variable, is rejected and doesn't create a full key.
func TestInvalidKeys(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	env := environment(home)
	for text, args := range map[string][]string{
		`invalid --endpoint "": expected`:       {"add", "ci", "--endpoint="},
		`invalid --endpoint "a,b": expected`:    {"add", "ci", "--endpoint=a,b"},
		`invalid --endpoint "my-endpoint": exp`: {"add", "ci", "--endpoint=my-endpoint"},
		`invalid key name "a b": expected`:      {"add", "a b"},
		"choose another name":                   {"add", "default"},
		`invalid owner "a b": expected`:         {"add", "ci", "--owner", "a b"},
		"invalid --expires -1h0m0s: expected":   {"add", "ci", "--expires=-1h"},
		"invalid --expires 0s: expected":        {"add", "ci", "--expires=0"},
		`"none","read","all"`:                   {"add", "ci", "--jobs", "some"},
		"does not exist":                        {"remove", "ci"},
		"expected \"<name>\"":                   {"add"},
		`"all" but got ""`:                      {"add", "ci", "--management="},
	} {
		output := mustFail(t, env, append([]string{"keys"}, args...)...)
		must.Hold(t, strings.Contains(output, text), args, "printed", output, "want", text)
	}
	unprinted := exec.Command(binary, "keys", "add", "unprinted")
	unprinted.Env, unprinted.Stdout = env, closedPipe(t)
	must.Hold(t, unprinted.Run() != nil, "keys add succeeded although it couldn't print the key")
	list := mustPrint(t, env, "keys", "list")
	must.Hold(t, strings.Count(list, "\n") == 1, "expected no keys, got", list)
}

// If the output goes to systemd's journal, serve prints neither its new key nor a link that signs in.
func TestNoKeyInTheJournal(t *testing.T) {
	t.Parallel()
	for journal, wantShown := range map[string]bool{"": true, "JOURNAL_STREAM=8:1": false} {
		dir := filepath.Join(t.TempDir(), "state")
		p := serve(t, environment(t.TempDir(), journal), "--data="+dir)
		key := must.ReadFile(t, filepath.Join(dir, "api-key"))
		greeting := strings.Join(p.startupLines, "\n")
		must.Hold(t, strings.Contains(greeting, strings.TrimSpace(string(key))) == wantShown && (wantShown || p.startupValue("GPUCLOUD_API_KEY") == `"$(cat `+filepath.Join(dir, "api-key")+`)"`), "with the environment", journal, "the greeting is", greeting)
		must.Equal(t, strings.Contains(greeting, "/#code="), wantShown, "with the environment", journal, "the greeting has a link:", greeting)
	}
}
