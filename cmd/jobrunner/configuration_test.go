package main_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Flags and variables set the programs, the catalog and the key, which isn't printed.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	data := filepath.Join(home, "data")
	must.Succeed(t, os.Mkdir(data, 0o700))
	file := filepath.Join(data, "jobrunner.yaml")
	writeFile(t, file, "engine: none\nrules:\n  - image: a/b\n    process: {run: [go, version]}\n")
	example := must.Do(filepath.Abs(filepath.Join("..", "..", "examples", "catalog.yaml")))(t)
	p := serve(t, environment(home, "GPUCLOUD_API_KEY=the-key\n"), "--data="+data, "--catalog="+example)
	greeting := strings.Join(p.startupLines, "\n")
	must.Contain(t, greeting, "Images: "+file+": 1 × process\nImages: containers: off\n")
	must.Hold(t, !strings.Contains(greeting, "the-key"), "the greeting prints the key:", greeting)
	_, text, err := send(t.Context(), "GET", p.url+"/v2/catalog/gpus/LAB%20Accelerator%20X", "the-key", "")
	must.Hold(t, strings.Contains(text, `"price":{"secure":1.25,"community":0,"serverless":2}`), "the example's price is missing:", text, err)
}

// An invalid file, from a flag or a variable, and an invalid --engine are usage errors. They don't create the data folder.
func TestInvalidFiles(t *testing.T) {
	t.Parallel()
	for flag, c := range map[string]struct{ variable, text, want string }{
		"--config":           {"GPUCLOUD_JOBRUNNER_CONFIG", "rules:\n  - image: a/b\n", ":2: the rule for a/b needs exactly one of"},
		"--catalog":          {"GPUCLOUD_CATALOG", "gpus:\n  - id: NVIDIA L4\n    price: {secured: 1}\n", `:3: unknown field "secured"; did you mean "secure"?`},
		"--secrets-key-file": {"GPUCLOUD_SECRETS_KEY_FILE", "short", " has no key: expected 32 bytes in base64"},
		"--simulate-gpus":    {"", "devices: 1\n", ":1: "},
	} {
		home := t.TempDir()
		file, data := filepath.Join(home, "invalid"), filepath.Join(home, "data")
		writeFile(t, file, c.text)
		args := []string{"serve", "--listen=127.0.0.1:0", "--data=" + data}
		must.Contain(t, mustFail(t, environment(home), append(args, flag+"="+file)...), "invalid "+flag+": ", file+c.want)
		if c.variable != "" {
			must.Contain(t, mustFail(t, environment(home, c.variable+"="+file), args...), "invalid "+flag+": ", file+c.want)
		}
		must.ErrorIs(t, must.Err(os.Stat(data)), os.ErrNotExist, flag, "the data folder was created")
	}
	data := filepath.Join(t.TempDir(), "data")
	mustFail(t, environment(t.TempDir()), "serve", "--listen=127.0.0.1:0", "--data="+data, "--engine=postgres://u:planted-password/@127.0.0.1:1/db")
	must.ErrorIs(t, must.Err(os.Stat(data)), os.ErrNotExist, "--engine: the data folder was created")
}

const longKey = "0123456789-long-enough-key"

// An unspecified address listens only on its own family, and the printed URL works.
func TestUnspecifiedAddresses(t *testing.T) {
	t.Parallel()
	otherListener := must.Do(net.Listen("tcp4", "127.0.0.1:0"))(t) // another program with the same port
	defer otherListener.Close()
	_, takenPort, _ := net.SplitHostPort(otherListener.Addr().String())
	for listen, c := range map[string]struct{ wantURL, unreachable string }{
		"0.0.0.0:0": {"http://127.0.0.1:", "[::1]"}, "[::]:0": {"http://[::1]:", "127.0.0.1"}, "[::]:" + takenPort: {"http://[::1]:", ""}, ":0": {"http://127.0.0.1:", ""},
	} {
		if probe, err := net.Listen("tcp6", "[::1]:0"); err == nil {
			probe.Close()
		} else if strings.HasPrefix(listen, "[::]") {
			t.Log("[::]: not tested, because this machine has no IPv6")
			continue
		}
		p := serve(t, environment(t.TempDir(), "GPUCLOUD_API_KEY="+longKey), "--ephemeral", "--allow-remote", "--listen="+listen)
		must.Hold(t, strings.HasPrefix(p.url, c.wantURL), "--listen", listen, "printed the URL", p.url, "want", c.wantURL)
		must.Succeed(t, must.Err(p.client(longKey).NetworkVolumes.List(t.Context())), "--listen", listen)
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(p.url, "http://"))
		if c.unreachable != "" {
			if conn, err := net.Dial("tcp", c.unreachable+":"+port); err == nil {
				conn.Close()
				t.Errorf("--listen=%s listens at %s, too", listen, c.unreachable)
			}
		}
		p.interrupt()
	}
}

// With --allow-remote a short key is rejected.
func TestShortKeys(t *testing.T) {
	t.Parallel()
	output := mustFail(t, environment(t.TempDir(), "GPUCLOUD_API_KEY=nineteen-characters"), "serve", "--listen=127.0.0.1:0", "--allow-remote", "--ephemeral")
	must.Hold(t, strings.Contains(output, "at least 20 random ones (openssl rand -hex 20) into GPUCLOUD_API_KEY") && !strings.Contains(output, "nineteen"), "said", output)
	file := filepath.Join(t.TempDir(), "short")
	must.Succeed(t, os.WriteFile(file, []byte("k"), 0o600))
	output = mustFail(t, environment(t.TempDir()), "serve", "--listen=127.0.0.1:0", "--allow-remote", "--ephemeral", "--api-key-file="+file)
	must.Hold(t, strings.Contains(output, "into "+file), "said", output)
}
