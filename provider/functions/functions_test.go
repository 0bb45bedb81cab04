package functions_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract/startcmd"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

func start(t *testing.T) *tfdrive.Provider {
	t.Helper()
	for _, v := range []string{"GPUCLOUD_BASE_URL", "GPUCLOUD_QUEUE_URL", "GPUCLOUD_API_KEY", "GPUCLOUD_API_VERSION", "GPUCLOUD_SERVICE"} {
		t.Setenv(v, "")
	}
	return tfdrive.Start(t, provider.New("test")(), nil) // functions need no settings
}

type call struct {
	arguments []any
	want      any    // nil for an error
	argument  int    // position of the invalid argument
	text      string // in the error
}

func expectCalls(t *testing.T, p *tfdrive.Provider, name string, calls []call) {
	t.Helper()
	for _, c := range calls {
		got, err := p.Call(name, c.arguments...)
		failure, _ := errors.AsType[*tfdrive.FunctionError](err)
		switch {
		case c.text == "" && (err != nil || !reflect.DeepEqual(got, c.want)):
			t.Errorf("%s(%q): expected %v, got %v, %v", name, c.arguments, c.want, got, err)
		case strings.HasSuffix(fmt.Sprint(err), "."), strings.HasSuffix(fmt.Sprint(err), "?"):
			t.Errorf("%s(%q): Terraform ends the sentence with a period: %v", name, c.arguments, err)
		case c.text != "" && (failure == nil || failure.Argument != c.argument || !strings.Contains(failure.Text, c.text)):
			t.Errorf("%s(%q): expected an error of argument %d with %q, got %v, %v", name, c.arguments, c.argument, c.text, got, err)
		}
	}
}

func TestPort(t *testing.T) {
	expectCalls(t, start(t), "port", []call{
		{arguments: []any{8888, "http"}, want: "8888/http"},
		{arguments: []any{1, "tcp"}, want: "1/tcp"},
		{arguments: []any{65535, "tcp"}, want: "65535/tcp"},
		{arguments: []any{0, "tcp"}, argument: 0, text: "expected a whole number from 1 to 65535, got 0"},
		{arguments: []any{65536, "tcp"}, argument: 0, text: "got 65536"},
		{arguments: []any{80.5, "tcp"}, argument: 0, text: "got 80.5"},
		{arguments: []any{22, "udp"}, argument: 1, text: `expected "http" or "tcp", got "udp"`},
		{arguments: []any{22, "TCP"}, argument: 1, text: `got "TCP"`},
	})
}

func TestRunURL(t *testing.T) {
	p := start(t)
	expectCalls(t, p, "run_url", []call{
		{arguments: []any{"e1", "https://queue.example.com"}, want: "https://queue.example.com/v2/e1/run"},
		{arguments: []any{"e1", "http://127.0.0.1:8420/live/"}, want: "http://127.0.0.1:8420/live/v2/e1/run"},
		{arguments: []any{strings.Repeat("e", 129), "https://queue.example.com"}, argument: 0, text: "expected 1 to 128 letters"},
		{arguments: []any{"e1/../x", "https://queue.example.com"}, argument: 0, text: `got "e1/../x"`},
		{arguments: []any{"", "https://queue.example.com"}, argument: 0, text: `got ""`},
		{arguments: []any{"e1", "queue.example.com"}, argument: 1, text: "queue_url must begin"},
		{arguments: []any{"e1", "https://queue.example.com/v2"}, argument: 1, text: "before the version"},
		{arguments: []any{"e1", "https://a.example.com", "https://b.example.com"}, argument: 2, text: "at most one queue_url"},
		{arguments: []any{"e1"}, argument: -1, text: "set GPUCLOUD_QUEUE_URL"},
	})
	t.Setenv("GPUCLOUD_SERVICE", "Runpod")
	expectCalls(t, p, "run_url", []call{{arguments: []any{"e1"}, argument: -1, text: `GPUCLOUD_SERVICE is "Runpod": expected runpod`}})
	t.Setenv("GPUCLOUD_SERVICE", "runpod")
	expectCalls(t, p, "run_url", []call{{arguments: []any{"e1"}, want: "https://api.runpod.ai/v2/e1/run"}})
	t.Setenv("GPUCLOUD_BASE_URL", "https://base.example.com")
	expectCalls(t, p, "run_url", []call{{arguments: []any{"e1"}, want: "https://base.example.com/v2/e1/run"}})
	t.Setenv("GPUCLOUD_QUEUE_URL", "https://queue.example.com")
	expectCalls(t, p, "run_url", []call{
		{arguments: []any{"e1"}, want: "https://queue.example.com/v2/e1/run"},
		{arguments: []any{"e1", "https://given.example.com"}, want: "https://given.example.com/v2/e1/run"},
	})
	t.Setenv("GPUCLOUD_QUEUE_URL", "queue")
	expectCalls(t, p, "run_url", []call{{arguments: []any{"e1"}, argument: -1, text: "invalid GPUCLOUD_QUEUE_URL"}})
}

func TestGPUPools(t *testing.T) {
	expectCalls(t, start(t), "gpu_pools", []call{
		{arguments: []any{[]any{"NVIDIA L40S", "NVIDIA L4", "NVIDIA L40"}}, want: []any{"ADA_24", "ADA_48_PRO"}},
		{arguments: []any{[]any{}}, want: []any{}},
		{arguments: []any{[]any{"NVIDIA L4", "NVIDIA B200"}}, argument: 0, text: `element 1: expected a GPU type of a serverless pool, got "NVIDIA B200", which is in no pool`},
		{arguments: []any{[]any{"RTX 4090"}}, argument: 0, text: `got "RTX 4090"; did you mean "NVIDIA GeForce RTX 4090"`},
		{arguments: []any{[]any{"NVIDIA L40X"}}, argument: 0, text: `did you mean "NVIDIA L40" or "NVIDIA L40S"`},
		{arguments: []any{[]any{""}}, argument: 0, text: `got ""`},
		{arguments: []any{[]any{"NVIDIA L4", nil}}, argument: 0, text: "element 1: expected a string, got null"},
	})
}

// The function returns the pool of each GPU type of the contract, or an error if the type is in none.
func TestGPUPoolsOfTheContract(t *testing.T) {
	p := start(t)
	for _, id := range contract.GPUTypeIDs {
		got, err := p.Call("gpu_pools", []any{id})
		if want := catalog.Builtin().PoolOf(id); want != "" && !reflect.DeepEqual(got, []any{want}) {
			t.Errorf("%q is in %s, and the function says %v, %v", id, want, got, err)
		} else if want == "" && (err == nil || !strings.Contains(err.Error(), "which is in no pool")) {
			t.Errorf("%q is in no pool, and the function says %v, %v", id, got, err)
		}
	}
}

func TestParseImage(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	image := func(registry, repository string, tag, digest any) map[string]any {
		return map[string]any{"registry": registry, "repository": repository, "tag": tag, "digest": digest}
	}
	expectCalls(t, start(t), "parse_image", []call{
		{arguments: []any{"nginx"}, want: image("docker.io", "library/nginx", nil, nil)},
		{arguments: []any{"acme/worker:1.2"}, want: image("docker.io", "acme/worker", "1.2", nil)},
		{arguments: []any{"ghcr.io/acme/team/worker"}, want: image("ghcr.io", "acme/team/worker", nil, nil)},
		{arguments: []any{"localhost:5000/worker:latest"}, want: image("localhost:5000", "worker", "latest", nil)},
		{arguments: []any{"[::1]:5000/worker"}, want: image("[::1]:5000", "worker", nil, nil)},
		{arguments: []any{"acme/worker@" + digest}, want: image("docker.io", "acme/worker", nil, digest)},
		{arguments: []any{"acme/worker:1.2@" + digest}, want: image("docker.io", "acme/worker", "1.2", digest)},
		{arguments: []any{""}, argument: 0, text: "expected the reference of a container image"},
		{arguments: []any{"acme/Worker"}, argument: 0, text: "lowercase"},
		{arguments: []any{"https://ghcr.io/acme/worker"}, argument: 0, text: "invalid reference format"},
		{arguments: []any{"acme/worker@sha256:0a"}, argument: 0, text: "invalid reference format"},
		{arguments: []any{strings.Repeat("0a", 32)}, argument: 0, text: "64-byte hexadecimal"},
	})
}

// Joining the parts of an accepted reference gives a reference with the same parts.
func FuzzParseImage(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, ref string) {
		p := start(t)
		got, err := p.Call("parse_image", ref)
		if err != nil {
			return
		}
		parts := got.(map[string]any)
		joined := fmt.Sprint(parts["registry"], "/", parts["repository"])
		if parts["tag"] != nil {
			joined += fmt.Sprint(":", parts["tag"])
		}
		if parts["digest"] != nil {
			joined += fmt.Sprint("@", parts["digest"])
		}
		must.Equal(t, must.Do(p.Call("parse_image", joined))(t), got, ref, "has the parts", joined)
	}, fuzz.Seed{"nginx"}, fuzz.Seed{"acme/worker:1.2"}, fuzz.Seed{"localhost:5000/a/b:c@sha256:" + strings.Repeat("0a", 32)},
		fuzz.Seed{"a:b@c"}, fuzz.Seed{"[::1]:1/x"}, fuzz.Seed{"A"}, fuzz.Seed{"a//b"}, fuzz.Seed{" "})
}

func TestShellJoin(t *testing.T) {
	expectCalls(t, start(t), "shell_join", []call{
		{arguments: []any{[]any{"python", "-u", "my handler.py"}}, want: "python -u 'my handler.py'"},
		{arguments: []any{[]any{"a", "#b", "c\rd"}}, want: "a '#b' 'c\rd'"},
		{arguments: []any{[]any{}}, want: ""},
		{arguments: []any{[]any{"a", nil}}, argument: 0, text: "element 1: expected a string, got null"},
		{arguments: []any{[]any{"a\x00b"}}, argument: 0, text: "element 0: expected an argument without NUL"},
	})
}

// The splitter that the client uses for API v1 splits a joined text into the same arguments.
func TestShellJoinRoundTrips(t *testing.T) {
	p := start(t)
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.OneOf(
			rapid.StringOf(rapid.RuneFrom([]rune(" \t\n\r'\"\\$`!#&|;<>()*?[]{}~=-aé😀"))),
			rapid.String().Filter(func(s string) bool { return !strings.ContainsRune(s, 0) }),
		), 0, 6).Draw(t, "words")
		argv := make([]any, len(words))
		for i, w := range words {
			argv[i] = w
		}
		joined, err := p.Call("shell_join", argv)
		if err != nil {
			t.Fatal(err)
		}
		command, err := startcmd.Parse(joined.(string))
		if err != nil || !slices.Equal(command.Cmd, words) {
			t.Fatalf("%q is joined as %q, which is split into %q, %v", words, joined, command, err)
		}
	})
}
