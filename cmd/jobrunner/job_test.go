//go:build unix

package main_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// jobCommands runs jobrunner job in an environment.
type jobCommands struct {
	t   *testing.T
	env []string
}

func (j jobCommands) run(stdin string, args ...string) (stdout, stderr string, status int) {
	j.t.Helper()
	return execute(j.t, j.env, stdin, append([]string{"job"}, args...)...)
}

// The job commands send, await, tail, cancel, retry and purge jobs. The exit status says how the job ended.
func TestJob(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	script := filepath.Join(home, "logs.sh")
	writeFile(t, script, `echo before >&2
echo "{\"requestId\": \"$GPUCLOUD_JOB_ID\", \"message\": \"begins\", \"level\": \"INFO\"}" >&2
echo between >&2
echo "{\"requestId\": \"$GPUCLOUD_JOB_ID\", \"message\": \"ends\", \"level\": \"INFO\"}" >&2
echo last >&2
echo '{"done": true}'
`)
	chatty := filepath.Join(home, "chatty.sh")
	writeFile(t, chatty, `line() { echo "{\"requestId\": \"$GPUCLOUD_JOB_ID\", \"message\": \"$1\", \"level\": \"INFO\"}" >&2; }
line begins
padding=$(printf '%01000d' 0)
i=0; while [ $i -lt 1500 ]; do echo "print $i $padding" >&2; i=$((i+1)); done # more than the 1 MiB that is kept
line ends
`)
	lingers := filepath.Join(home, "lingers.sh")
	writeFile(t, lingers, "echo began with $GPUCLOUD_JOB_ID >&2\necho goes on >&2\nsleep 1000\n")
	writeFile(t, filepath.Join(home, "jobrunner.yaml"), "engine: none\nrules:\n  - image: team/lingers\n    command: {run: [sh, "+lingers+"]}\n  - image: team/logs\n    command: {run: [sh, "+script+"]}\n  - image: team/chatty\n    command: {run: [sh, "+chatty+"]}\n")
	p := serve(t, environment(home), "--config="+filepath.Join(home, "jobrunner.yaml"), "--limits=off")
	key := strings.TrimSpace(mustPrint(t, environment(home), "keys", "add", "test"))
	c := p.client(key)
	ids := map[string]string{}
	for _, e := range []struct {
		name, image string
		workers     int64
	}{{"any", "builtin/conformance", 8}, {"logs", "team/logs", 1}, {"chatty", "team/chatty", 1}, {"lingers", "team/lingers", 1}, {"twin", "builtin/echo", 0}, {"twin", "builtin/echo", 0}, {"idle", "builtin/echo", 0}, {"broken", "team/absent", 1}} {
		ids[e.name] = createQueueEndpoint(t, c, e.name, e.image, e.workers)
	}
	// The key comes from the data folder, because the deployment is on this machine.
	j := jobCommands{t, environment(home, "GPUCLOUD_BASE_URL="+p.url)}
	file := filepath.Join(home, "input.json")
	writeFile(t, file, `{"input": {"op": "echo", "from": "file"}, "policy": {"lowPriority": false}}`)

	endless := filepath.Join(home, "endless")
	writeFile(t, endless, "")
	must.Succeed(t, os.Truncate(endless, 65<<20))
	t.Run("one command", func(t *testing.T) {
		for name, c := range map[string]struct {
			stdin string
			args  []string
			out   string // pattern for the whole stdout
			err   string // pattern for stderr
			code  int
		}{
			"the output":          {args: []string{"run", "any", "--input", `{"op":"echo","a":[1]}`}, out: `^\{\n  "op": "echo",\n  "a": \[\n    1\n  \]\n\}\n$`, err: `job \S+ is IN_`},
			"by id":               {args: []string{"run", ids["any"], "--input", `{"op":"sleep","output":7}`}, out: "^7\n$"},
			"input from a file":   {args: []string{"run", "any", "--input", file}, out: `"from": "file"`},
			"input from stdin":    {stdin: `{"op":"echo","from":"stdin"}`, args: []string{"run", "any", "--input", "-"}, out: `"from": "stdin"`},
			"as JSON":             {args: []string{"run", "any", "--json", "--input", `{"op":"sleep","output":7}`}, out: `^\{"id":"\S+","status":"COMPLETED",.*"output":7.*\}\n$`},
			"fails":               {args: []string{"run", "any", "--input", `{"op":"fail","message":"boom"}`}, out: "^$", err: "the job is FAILED: boom", code: 1},
			"fails, as JSON":      {args: []string{"run", "any", "--json", "--input", `{"op":"fail","message":"boom"}`}, out: `"status":"FAILED".*"retries":0,"error":"boom"\}\n$`, err: "boom", code: 1},
			"too slow":            {args: []string{"run", "any", "--execution-timeout", "5s", "--input", `{"op":"sleep","ms":3600000}`}, out: "^$", err: "the job is TIMED_OUT: it ran for 5\\S*s, until its execution time-out", code: 3},
			"the wait times out":  {args: []string{"run", "idle", "--timeout", "1s"}, out: "^$", err: "not finished after 1s; it was cancelled", code: 4},
			"no worker can start": {args: []string{"run", "broken", "--timeout", "4s"}, out: "^$", err: `(?s)job \S+ is IN_QUEUE: no worker is ready: .*team/absent.*not finished after 4s; it was cancelled; no worker is ready: .*team/absent`, code: 4},
			"chunks":              {args: []string{"run", "any", "--tail", "--input", `{"op":"stream","n":6,"outputs":["a","b",{"c":1},null,"d",null]}`}, out: "^ab\n{\"c\":1}\nnull\nd\nnull\n$"},
			"chunks, as JSON":     {args: []string{"run", "any", "--tail", "--json", "--input", `{"op":"stream","n":2}`}, out: `^\{"output":\{"n":0\}.*\}\n\{"output":\{"n":1\}.*\}\n\{"id":.*"status":"COMPLETED".*\}\n$`},
			"a stream that is not read": {args: []string{"run", "any", "--input", `{"op":"stream","n":2}`}, out: "^$",
				err: `Its handler streamed 2 chunks, which are not in the output .*: jobrunner job tail any \S+ prints them, and so does job run --tail`},
			"no chunks":            {args: []string{"run", "any", "--tail", "--input", `{"op":"sleep","output":7}`}, out: "^7\n$"},
			"no chunks, as JSON":   {args: []string{"run", "any", "--tail", "--json", "--input", `{"op":"sleep","output":7}`}, out: `^\{"id":.*"output":7.*\}\n$`},
			"no worker for chunks": {args: []string{"run", "broken", "--tail", "--timeout", "4s"}, out: "^$", err: `(?s)job \S+ is IN_QUEUE: no worker is ready: .*team/absent.*not finished after 4s; it was cancelled; no worker is ready: .*team/absent`, code: 4},
			"chunks of a failure": {args: []string{"run", "any", "--tail", "--input", `{"op":"stream","n":1,"message":"boom"}`}, out: "^{\"n\":0}\n$",
				err: "the job is FAILED: boom", code: 1},
			"an unknown endpoint":        {args: []string{"run", "nope"}, out: "^$", err: `no endpoint has the id or name "nope"; there are .*any \(` + ids["any"], code: 2},
			"two of the name":            {args: []string{"run", "twin"}, out: "^$", err: `2 endpoints have the name "twin": choose one by its id, `, code: 2},
			"an unknown job":             {args: []string{"status", "any", "none"}, out: "^$", err: "404", code: 1},
			"not JSON":                   {stdin: "hello", args: []string{"run", "any", "--input", "-"}, out: "^$", err: "invalid --input -: expected a JSON object, in UTF-8 without a byte order mark", code: 2},
			"an absent file":             {args: []string{"run", "any", "--input", "absent.json"}, out: "^$", err: "invalid --input absent.json: expected a JSON object or a file", code: 2},
			"a tail without a wait":      {args: []string{"run", "any", "--detach", "--tail"}, out: "^$", err: "--detach and --tail can't be used together", code: 2},
			"a negative time":            {args: []string{"run", "any", "--timeout=-1s"}, out: "^$", err: "invalid --timeout -1s: expected a positive duration", code: 2},
			"a policy of a wrong type":   {args: []string{"run", "any", "--input", `{"input":{},"policy":{"ttl":"1h"}}`}, out: "^$", err: `invalid --input: \$\.policy\.ttl is a string, not a whole number`, code: 2},
			"a ttl that is too short":    {args: []string{"run", "any", "--ttl", "1s"}, out: "^$", err: "400", code: 2},
			"a batch without a line end": {args: []string{"batch", "run", "any", endless}, out: "^$", err: "line 1 is longer than 10 MiB", code: 2},
			"an endless input":           {args: []string{"run", "any", "--input", endless}, out: "^$", err: "is larger than 64 MiB", code: 2},
			"an endless stdin":           {stdin: strings.Repeat(" ", 65<<20), args: []string{"run", "any", "--input", "-"}, out: "^$", err: "is larger than 64 MiB", code: 2},
			"an endless batch":           {stdin: strings.Repeat("{}\n", 5001), args: []string{"batch", "run", "any", "-"}, out: "^$", err: "- has more than 5000 inputs", code: 2},
			"no batch":                   {args: []string{"batch", "status", "any", ""}, out: "^$", err: `"" can't be the id of any batch`, code: 1},
			"no such flag":               {args: []string{"run", "any", "--nope"}, out: "^$", err: "unknown flag --nope\nSee 'jobrunner job run --help'.", code: 2},
			"zero lines":                 {args: []string{"logs", "any", "none", "--lines", "0"}, out: "^$", err: "invalid --lines: expected 1 to 5000, got 0", code: 2},
			"too many lines":             {args: []string{"logs", "any", "none", "--lines", "5001"}, out: "^$", err: "invalid --lines: expected 1 to 5000, got 5001", code: 2},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				out, stderr, code := jobCommands{t, j.env}.run(c.stdin, c.args...)
				must.Hold(t, regexp.MustCompile(c.out).MatchString(out) && regexp.MustCompile(c.err).MatchString(stderr) && code == c.code,
					"exit status", code, "stdout", out, "stderr", stderr, "want", c.code, c.out, c.err)
			})
		}
	})

	t.Run("life", func(t *testing.T) {
		j := jobCommands{t, j.env}
		expectOutput := func(out, want string, code, wantCode int) {
			t.Helper()
			must.Hold(t, strings.Contains(out, want) && code == wantCode, "exit status", code, "want", wantCode, "output", out, "want", want)
		}
		id, _, code := j.run("", "run", "idle", "--detach")
		id = strings.TrimSpace(id)
		expectOutput(id, "-", code, 0)
		out, _, code := j.run("", "status", "idle", id)
		expectOutput(out, "status  IN_QUEUE\n", code, 0)
		_, stderr, code := j.run("", "logs", "idle", id)
		expectOutput(stderr, "no worker has taken it", code, 1)
		out, _, code = j.run("", "cancel", "idle", id)
		expectOutput(out, "status  CANCELLED\n", code, 0)
		_, stderr, code = j.run("", "tail", "idle", id)
		expectOutput(stderr, "the job is CANCELLED", code, 4)
		stuckID, _, _ := j.run("", "run", "broken", "--detach")
		stuckID = strings.TrimSpace(stuckID)
		_, stderr, code = j.run("", "status", "broken", stuckID)
		expectOutput(stderr, "no worker is ready: ", code, 0)
		_, stderr, code = j.run("", "logs", "broken", stuckID)
		expectOutput(stderr, "is IN_QUEUE: no worker has taken it: no worker is ready: ", code, 1)
		j.run("", "cancel", "broken", stuckID)
		out, stderr, code = j.run("", "run", "any", "--json", "--input", `{"input": {"op": "sleep"}, "modell": 1, "low": 2}`)
		expectOutput(stderr, "so it is the whole request; unknown members aren't sent: low, modell", code, 0)
		var endedJob api.Job
		must.Succeed(t, json.Unmarshal([]byte(out), &endedJob))
		_, stderr, code = j.run("", "logs", "any", endedJob.ID, "--all")
		expectOutput(stderr, "has logged nothing\n", code, 0)
		out, stderr, code = j.run("", "cancel", "any", endedJob.ID)
		expectOutput(stderr, "the job had already ended", code, 0)
		must.Hold(t, !strings.Contains(out, "queued"), "the output of cancel has times:", out)
		j.run("", "run", "idle", "--detach")
		out, _, code = j.run("", "purge", "idle")
		expectOutput(out, "removed jobs: 1", code, 0)
		out, _, code = j.run("", "purge", "idle", "--json")
		expectOutput(out, `{"removed":0}`, code, 0)

		var failedJob api.Job
		out, _, _ = j.run("", "run", "any", "--json", "--input", `{"op":"fail","times":1}`)
		must.Succeed(t, json.Unmarshal([]byte(out), &failedJob))
		out, _, code = j.run("", "retry", "any", failedJob.ID, "--json")
		expectOutput(out, failedJob.ID, code, 0)
		out, _, code = j.run("", "tail", "any", failedJob.ID, "--json")
		expectOutput(out, `"status":"COMPLETED"`, code, 0)

		var loggedJob api.Job
		out, _, _ = j.run("", "run", "logs", "--json")
		must.Succeed(t, json.Unmarshal([]byte(out), &loggedJob))
		out, _, code = j.run("", "logs", "logs", loggedJob.ID)
		expectOutput(out, "between", code, 0)
		must.Contain(t, out, "before", "last", "begins", "ends")
		must.Hold(t, regexp.MustCompile(`(?m)^\S+Z INFO  begins\n\S+Z │     between\n`).MatchString(out), "expected the log in dev's form, got", out)
		out, _, code = j.run("", "logs", "logs", loggedJob.ID, "--json")
		expectOutput(out, `"line":"{\"requestId\"`, code, 0)
		out, stderr, code = j.run("", "logs", "logs", loggedJob.ID, "--all")
		expectOutput(out, "before", code, 0)
		must.Equal(t, stderr, "", "stderr although the log is complete")

		// The id of a job may be anywhere in a line. The log of a running job has all later lines of its worker.
		lingeringID, _, _ := j.run("", "run", "lingers", "--detach")
		lingeringID = strings.TrimSpace(lingeringID)
		p.waitUntil("the job has logged", func() bool {
			out, _, _ := j.run("", "logs", "lingers", lingeringID)
			return strings.Contains(out, "began with "+lingeringID) && strings.Contains(out, "goes on")
		})
		j.run("", "cancel", "lingers", lingeringID)

		out, _, _ = j.run("", "run", "chatty", "--json")
		must.Succeed(t, json.Unmarshal([]byte(out), &loggedJob))
		out, stderr, code = j.run("", "logs", "chatty", loggedJob.ID, "--lines", "300")
		expectOutput(stderr, "the beginning of job "+loggedJob.ID+" is not among the last 300 lines of its worker's log; --lines prints more, at most 5000", code, 0)
		must.Hold(t, strings.Count(out, "│     print ") >= 290 && strings.Contains(out, "ends"), "the end of the job's log is", out)
		_, stderr, code = j.run("", "logs", "chatty", loggedJob.ID, "--lines", "5000")
		expectOutput(stderr, "; the deployment keeps no earlier ones", code, 0)
	})

	t.Run("a key for one endpoint needs its id", func(t *testing.T) {
		endpointKey := strings.TrimSpace(mustPrint(t, environment(home), "keys", "add", "one", "--endpoint", ids["any"]))
		j := jobCommands{t, append([]string{"GPUCLOUD_API_KEY=" + endpointKey}, j.env...)}
		out, stderr, code := j.run("", "run", ids["any"], "--input", `{"op":"sleep","output":7}`)
		must.Hold(t, out == "7\n" && code == 0, "exit status", code, "stdout", out, "stderr", stderr)
		for _, nameOrID := range []string{"any", ids["logs"]} {
			_, stderr, code := j.run("", "run", nameOrID)
			must.Hold(t, strings.Contains(stderr, `this API key can't use an endpoint with the id "`+nameOrID) && code == 2, "a job of", nameOrID, "exit status", code, "stderr", stderr)
		}
	})

	t.Run("Ctrl-C, or closing the terminal or the output, cancels the job", func(t *testing.T) {
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP) // otherwise the program would inherit nohup's setting to ignore it
		defer signal.Stop(hangups)
		for flag, signalToSend := range map[string]syscall.Signal{"--no-tail": syscall.SIGINT, "--tail": syscall.SIGHUP, "--json": syscall.SIGPIPE} {
			cmd := exec.CommandContext(t.Context(), binary, "job", "run", "any", "--input", `{"op":"stream","n":2,"ms":3600000}`)
			if flag != "--no-tail" {
				cmd.Args = append(cmd.Args, flag)
			}
			var stderr bytes.Buffer
			cmd.Env, cmd.Stderr = j.env, &stderr
			must.Succeed(t, cmd.Start())
			p.waitUntil("a job runs", func() bool {
				h, err := c.Jobs.Health(t.Context(), ids["any"])
				return err == nil && h.Jobs.InProgress == 1
			})
			cmd.Process.Signal(signalToSend)
			cmd.Wait()
			must.Hold(t, cmd.ProcessState.ExitCode() == 4 && strings.Contains(stderr.String(), "it was cancelled"),
				"with", flag, "exit status", cmd.ProcessState.ExitCode(), "stderr", &stderr)
			h := must.Do(c.Jobs.Health(t.Context(), ids["any"]))(t)
			must.Hold(t, h.Jobs.InProgress+h.Jobs.InQueue == 0, "after a job with", flag, "was interrupted, the jobs are", h.Jobs)
		}
	})

	t.Run("a data folder without a key", func(t *testing.T) {
		dir := filepath.Join(home, "keyless")
		writeFile(t, filepath.Join(home, "key"), "a-key-of-its-own")
		p := serve(t, environment(home), "--data="+dir, "--api-key-file="+filepath.Join(home, "key"))
		j := jobCommands{t, environment(home, "GPUCLOUD_BASE_URL="+p.url)}
		for data, want := range map[string]string{dir: "the data folder " + dir + " has none, because its jobrunner was started with --api-key-file or GPUCLOUD_API_KEY: set GPUCLOUD_API_KEY to that key",
			filepath.Join(home, "absent"): "absent: no such file or directory; set it to the data folder"} {
			_, stderr, code := j.run("", "run", "any", "--data", data)
			must.Hold(t, strings.Contains(stderr, want) && code == 2, "exit status", code, "stderr", stderr, "want", want)
		}
	})

	t.Run("no answer", func(t *testing.T) {
		j := jobCommands{t, environment(home, "GPUCLOUD_API_KEY=k", "GPUCLOUD_BASE_URL=http://127.0.0.1:1")}
		_, stderr, code := j.run("", "run", "any")
		must.Hold(t, strings.Contains(stderr, "connection refused") && code == 4, "exit status", code, "stderr", stderr)
		website := httptest.NewServer(http.NotFoundHandler())
		defer website.Close()
		_, stderr, _ = j.run("", "run", "any", "--base-url="+website.URL)
		must.Hold(t, !strings.Contains(stderr, "this API key"), "stderr for a web site's 404", stderr)
		_, stderr, code = j.run("", "run", "any", "--base-url=127.0.0.1:1")
		must.Hold(t, strings.Contains(stderr, "GPUCLOUD_BASE_URL is not an address") && code == 2, "exit status", code, "stderr", stderr)
	})

	t.Run("the key of this machine stays here", func(t *testing.T) {
		j := jobCommands{t, environment(home, "GPUCLOUD_BASE_URL=https://gpus.invalid")}
		_, stderr, code := j.run("", "run", "any")
		must.Hold(t, strings.Contains(stderr, "no API key for https://gpus.invalid: set GPUCLOUD_API_KEY") && code == 2, "exit status", code, "stderr", stderr)
	})
}
