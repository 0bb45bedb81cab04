package migrate_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/migrate"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

var update = flag.Bool("update", false, "overwrite the expected blocks")

// The recorded states of each source are converted to the blocks in the files beside them, which
// terraform fmt leaves unchanged.
func TestBlocks(t *testing.T) {
	states, err := filepath.Glob("testdata/*.json")
	if err != nil || len(states) < 5 {
		t.Fatalf("%d states: %v", len(states), err)
	}
	for _, file := range states {
		text := must.ReadFile(t, file)
		for suffix, args := range map[string][]string{".moved.tf": nil, ".import.tf": {"-import"}} {
			var out bytes.Buffer
			if err := migrate.Main(args, bytes.NewReader(text), &out); err != nil {
				t.Fatalf("%s: %s", file, err)
			}
			golden := strings.TrimSuffix(file, ".json") + suffix
			if *update {
				must.Succeed(t, os.WriteFile(golden, out.Bytes(), 0o644))
			}
			must.Equal(t, string(must.ReadFile(t, golden)), out.String(), file, args, golden)
			must.Hold(t, !strings.Contains(out.String(), "hunter2"), file, args, "the blocks contain a password")
		}
	}
	cli, err := tfcli.Default(t.Context())
	must.Succeed(t, err)
	cmd := exec.CommandContext(t.Context(), cli.Path, "fmt", "-check", "-diff", "-recursive", "testdata")
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+os.DevNull)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the blocks are not formatted: %s\n%s", err, out)
	}
}

// A pulled state gets the same blocks as a shown one. Data sources are ignored; deposed objects
// are reported.
func TestStateFile(t *testing.T) {
	const state = `{"version": 4, "terraform_version": "1.9.8", "resources": [
  {"module": "module.a[\"x.y[0]\"]", "mode": "managed", "type": "runpod_pod", "name": "p", "provider": "module.a.provider[\"registry.terraform.io/runpod/runpod\"].eu", "instances": [
    {"index_key": "k\"${v}'", "attributes": {"id": null, "image_name": "i", "name": "lab"}},
    {"index_key": 1, "attributes": {"id": "p1", "image_name": "i"}},
    {"index_key": 2, "deposed": "1a2b3c4d", "attributes": {"id": null, "image_name": "i", "name": "old"}},
    {"index_key": 3, "attributes": {"id": null, "image_name": "i", "name": null}}
  ]},
  {"mode": "data", "type": "runpod_pod", "name": "d", "provider": "provider[\"registry.terraform.io/runpod/runpod\"]", "instances": [{"attributes": {"id": "p1"}}]},
  {"mode": "managed", "type": "runpod_pod", "name": "other", "provider": "provider[\"registry.terraform.io/acme/runpod\"]", "instances": [{"attributes": {"id": "p1"}}]}
]}`
	const want = `# module.a["x.y[0]"].runpod_pod.p has a deposed object, which the first apply deletes. To keep it, use the blocks of migrate -import.

moved {
  from = module.a["x.y[0]"].runpod_pod.p
  to   = module.a["x.y[0]"].gpucloud_pod.p
}

# The state has no valid id of module.a["x.y[0]"].runpod_pod.p["k\"$${v}'"].
# Before the plan: terraform state rm 'module.a["x.y[0]"].runpod_pod.p["k\"$${v}'\''"]'
import {
  to = module.a["x.y[0]"].gpucloud_pod.p["k\"$${v}'"]
  id = "lab"
}

# The state has no valid id of module.a["x.y[0]"].runpod_pod.p[3].
# Before the plan: terraform state rm 'module.a["x.y[0]"].runpod_pod.p[3]'
# It has no name either: import it by the id that the API's list shows.
`
	must.Equal(t, must.Do(migrate.Blocks([]byte(state), false))(t), want)
}

func TestInvalidInput(t *testing.T) {
	for input, says := range map[string]string{
		"":                                     "got nothing, or an incomplete document",
		`{"values":`:                           "got nothing, or an incomplete document",
		"[]":                                   "the array is unexpected",
		`{"version":"four"}`:                   "the string in version is unexpected",
		`{"version":4} {"version":4}`:          "got more after its end",
		`{"version":4} x`:                      "got more after its end",
		`{"format_version":"1.0"}`:             "got an empty one",
		`{"version":3}`:                        "got format 3",
		`{"planned_values":{}, "values":null}`: "got a plan",
	} {
		if _, err := migrate.Blocks([]byte(input), false); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, expected: … %s", input, err, says)
		}
	}
	for _, args := range [][]string{{"-imports"}, {"file.json"}} {
		err := migrate.Main(args, strings.NewReader(""), os.Stdout)
		must.Hold(t, errors.Is(err, migrate.ErrUsage) && strings.Contains(err.Error(), "Usage: "), args, err, "expected the usage")
	}
	for line := range strings.Lines(migrate.Usage) { // its examples
		_, arguments, ok := strings.Cut(line, "| terraform-provider-gpucloud migrate ")
		if !ok || !strings.HasPrefix(line, "  terraform ") {
			continue
		}
		arguments, _, _ = strings.Cut(arguments, ">")
		err := migrate.Main(strings.Fields(arguments), strings.NewReader(`{"values":{"root_module":{}}}`), io.Discard)
		must.Hold(t, err == nil, line, err)
	}
	must.Equal(t, must.Do(migrate.Blocks([]byte(`{"values":{"root_module":{}}}`), false))(t), "# The state has no resource that this provider can take over.\n")
}

// A removed block has no keys, and there is one for all instances.
func TestRemovedOnce(t *testing.T) {
	const state = `{"version": 4, "resources": [
  {"module": "module.a[\"x\"]", "mode": "managed", "type": "runpod_pod", "name": "p", "provider": "provider[\"registry.terraform.io/runpod/runpod\"]", "instances": [{"attributes": {"id": "p1"}}]},
  {"module": "module.a[\"y\"]", "mode": "managed", "type": "runpod_pod", "name": "p", "provider": "provider[\"registry.terraform.io/runpod/runpod\"]", "instances": [{"index_key": 0, "attributes": {"id": "p2"}}]}
]}`
	const want = `removed {
  from = module.a.runpod_pod.p
  lifecycle {
    destroy = false
  }
}

import {
  to = module.a["x"].gpucloud_pod.p
  id = "p1"
}

import {
  to = module.a["y"].gpucloud_pod.p[0]
  id = "p2"
}
`
	must.Equal(t, must.Do(migrate.Blocks([]byte(state), true))(t), want)
}

// PowerShell writes UTF-16 and byte order marks.
func TestEncodings(t *testing.T) {
	const state = `{"version": 4, "resources": [{"mode": "managed", "type": "runpod_pod", "name": "pöd", "provider": "provider[\"registry.terraform.io/runpod/runpod\"]", "instances": [{"attributes": {"id": "p1"}}]}]}`
	want, err := migrate.Blocks([]byte(state), false)
	if err != nil || !strings.Contains(want, "runpod_pod.pöd") {
		t.Fatalf("%v: %s", err, want)
	}
	wide := func(order binary.AppendByteOrder, text string) (out []byte) {
		for _, unit := range utf16.Encode([]rune(text)) {
			out = order.AppendUint16(out, unit)
		}
		return out
	}
	for name, text := range map[string][]byte{
		"UTF-8, mark":         []byte("\ufeff" + state),
		"little endian, mark": wide(binary.LittleEndian, "\ufeff"+state),
		"big endian, mark":    wide(binary.BigEndian, "\ufeff"+state),
		"little endian":       wide(binary.LittleEndian, state),
		"big endian":          wide(binary.BigEndian, state),
	} {
		must.Equal(t, must.Do(migrate.Blocks(text, false))(t), want, name)
	}
}

func TestHelp(t *testing.T) {
	for _, arg := range []string{"--help", "-help", "-h"} {
		var out bytes.Buffer
		if err := migrate.Main([]string{arg}, strings.NewReader(""), &out); err != nil || out.String() != migrate.Usage {
			t.Errorf("%s: %v, %q", arg, err, out.String())
		}
	}
}

// Comments in the blocks warn of objects that the first apply would delete (tainted, deposed) and
// of types without a counterpart.
func TestWarnings(t *testing.T) {
	const pulled = `{"version": 4, "resources": [
  {"mode": "managed", "type": "runpod_network_volume", "name": "v", "provider": "provider[\"registry.terraform.io/runpod/runpod\"]", "instances": [
    {"index_key": "a", "status": "tainted", "attributes": {"id": "v1"}}, {"index_key": "a", "deposed": "1a2b3c4d", "attributes": {"id": "v0"}}]},
  {"mode": "managed", "type": "runpod_savings_plan", "name": "s", "provider": "provider[\"registry.terraform.io/runpod/runpod\"]", "instances": [{"attributes": {"id": "s"}}]},
  {"mode": "managed", "type": "runpod_global_volume", "name": "g", "provider": "provider[\"registry.terraform.io/runpod/runpod\"]", "instances": [{"attributes": {"id": "g"}}]}]}`
	const shown = `{"values": {"root_module": {"resources": [
  {"mode": "managed", "type": "runpod_network_volume", "name": "v", "index": "a", "provider_name": "registry.terraform.io/runpod/runpod", "tainted": true, "values": {"id": "v1"}},
  {"mode": "managed", "type": "runpod_network_volume", "name": "v", "index": "a", "provider_name": "registry.terraform.io/runpod/runpod", "deposed_key": "1a2b3c4d", "values": {"id": "v0"}},
  {"mode": "managed", "type": "runpod_savings_plan", "name": "s", "provider_name": "registry.terraform.io/runpod/runpod", "values": {"id": "s"}},
  {"mode": "managed", "type": "runpod_global_volume", "name": "g", "provider_name": "registry.terraform.io/runpod/runpod", "values": {"id": "g"}}]}}}`
	for name, state := range map[string]string{"pulled": pulled, "shown": shown} {
		for imports, texts := range map[bool][]string{
			false: {`terraform untaint 'runpod_network_volume.v["a"]'`, `runpod_network_volume.v has the deposed object "v0", which the first apply deletes`, "runpod_savings_plan.s has no counterpart", "runpod_global_volume.g can't be moved: use gpucloud_global_volume"},
			true:  {`the deposed object "v0", which is forgotten`, "runpod_savings_plan.s has no counterpart", "runpod_global_volume.g can't be moved: use gpucloud_global_volume"},
		} {
			got, err := migrate.Blocks([]byte(state), imports)
			for _, text := range texts {
				must.Hold(t, err == nil && strings.Contains(got, text), name, "imports", imports, err, got, "expected to contain", text)
			}
			must.Hold(t, strings.Contains(got, "untaint") != imports && strings.Count(got, "gpucloud_network_volume.v") == 1, name, "imports", imports, got)
		}
	}
}
