package migrate_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/migrate"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

var update = flag.Bool("update", false, "overwrite the expected blocks")

// The recorded states become the formatted blocks in the files beside them.
func TestBlocks(t *testing.T) {
	states, err := filepath.Glob("testdata/*.json")
	must.Require(t, err == nil && len(states) >= 5, "found", len(states), "recorded states, expected at least 5", err)
	for _, file := range states {
		text := must.ReadFile(t, file)
		for suffix, args := range map[string][]string{".moved.tf": nil, ".import.tf": {"-import"}} {
			var out bytes.Buffer
			err := migrate.Main(args, bytes.NewReader(text), &out)
			must.Require(t, err == nil, "migrating", file, "fails:", err)
			golden := strings.TrimSuffix(file, ".json") + suffix
			if *update {
				must.Succeed(t, os.WriteFile(golden, out.Bytes(), 0o644))
			}
			must.Equal(t, out.String(), string(must.ReadFile(t, golden)), "blocks of", file, args, "compared with", golden)
			must.Hold(t, !strings.Contains(out.String(), "hunter2"), "the blocks of", file, args, "contain a password")
		}
	}
	cli := must.Do(tfcli.Default(t.Context()))(t)
	cmd := exec.CommandContext(t.Context(), cli.Path, "fmt", "-check", "-diff", "-recursive", "testdata")
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+os.DevNull)
	out, err := cmd.CombinedOutput()
	must.Hold(t, err == nil, "the blocks are not formatted:", err, string(out))
}

// A pulled state gets the same blocks as a shown one. Deposed objects are reported, data sources ignored.
func TestStateFile(t *testing.T) {
	const state = `{"version": 4, "terraform_version": "1.9.8", "resources": [
  {"module": "module.a[\"x.y[0]\"]", "mode": "managed", "type": "runpod_pod", "name": "p", "provider": "module.a.provider[\"registry.terraform.io/runpod/runpod\"].eu", "instances": [
    {"index_key": 3, "attributes": {"id": null, "image_name": "i", "name": null}},
    {"index_key": "k\"${v}'", "attributes": {"id": null, "image_name": "i", "name": "lab"}},
    {"index_key": 1, "attributes": {"id": "p1", "image_name": "i"}},
    {"index_key": 2, "deposed": "1a2b3c4d", "attributes": {"id": null, "image_name": "i", "name": "old"}}
  ]},
  {"mode": "data", "type": "runpod_pod", "name": "d", "provider": "provider[\"registry.terraform.io/runpod/runpod\"]", "instances": [{"attributes": {"id": "p1"}}]},
  {"mode": "managed", "type": "runpod_pod", "name": "other", "provider": "provider[\"registry.terraform.io/acme/runpod\"]", "instances": [{"attributes": {"id": "p1"}}]},
  {"mode": "managed", "type": "runpod_machine", "name": "other", "provider": "provider[\"registry.terraform.io/acme/runpod\"]", "instances": [{"attributes": {"id": "m1"}}]}
]}`
	const want = `# module.a["x.y[0]"].runpod_pod.p has a deposed object, which the first apply deletes. To keep it, use the blocks of migrate -import.

moved {
  from = module.a["x.y[0]"].runpod_pod.p
  to   = module.a["x.y[0]"].gpucloud_pod.p
}

# The state has no valid id of module.a["x.y[0]"].runpod_pod.p[3].
# Before the plan: terraform state rm 'module.a["x.y[0]"].runpod_pod.p[3]'
# It has no name either: import it by the id that the API's list shows.

# The state has no valid id of module.a["x.y[0]"].runpod_pod.p["k\"$${v}'"].
# Before the plan: terraform state rm 'module.a["x.y[0]"].runpod_pod.p["k\"$${v}'\''"]'
import {
  to = module.a["x.y[0]"].gpucloud_pod.p["k\"$${v}'"]
  id = "lab"
}
`
	must.Equal(t, must.Do(migrate.Blocks([]byte(state), false))(t), want)
}

func TestInvalidInput(t *testing.T) {
	for input, says := range map[string]string{
		"":                                     "got nothing, or an incomplete document",
		`{"values":`:                           "got nothing, or an incomplete document",
		"[]":                                   "the array is unexpected",
		`{"version":"four"}`:                   "the string in version is unexpected",
		`{"version":4} {"version":4}`:          "got text after its end",
		`{"version":4} x`:                      "got text after its end",
		`{"format_version":"1.0"}`:             "got an empty one",
		`{"version":3}`:                        "got format 3",
		`{"planned_values":{}, "values":null}`: "got a plan",
		`{"encrypted_data":"aGk="}`:            "`terraform state pull`, got another JSON document",
	} {
		must.ErrorContains(t, must.Err(migrate.Blocks([]byte(input), false)), says)
	}
	for _, args := range [][]string{{"-imports"}, {"file.json"}} {
		err := migrate.Main(args, strings.NewReader(""), os.Stdout)
		must.Hold(t, errors.Is(err, migrate.ErrUsage) && strings.Contains(err.Error(), "Usage: "), "with the arguments", args, "expected the usage and got", err)
	}
	for line := range strings.Lines(migrate.Usage) { // its examples
		_, arguments, ok := strings.Cut(line, "| terraform-provider-gpucloud migrate ")
		if !ok || !strings.HasPrefix(line, "  terraform ") {
			continue
		}
		arguments, _, _ = strings.Cut(arguments, ">")
		must.Succeed(t, migrate.Main(strings.Fields(arguments), strings.NewReader(`{"values":{"root_module":{}}}`), io.Discard), line)
	}
	must.Equal(t, must.Do(migrate.Blocks([]byte(`{"values":{"root_module":{}}}`), false))(t), "# The state has no resource that this provider can take over.\n")
}

// A removed block names no instance key, and one block stands for all instances.
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
	const state = `{"version": 4, "resources": [{"mode": "managed", "type": "runpod_pod", "name": "pöl·la", "provider": "provider[\"registry.terraform.io/runpod/runpod\"]", "instances": [{"attributes": {"id": "p1"}}]}]}`
	want, err := migrate.Blocks([]byte(state), false)
	must.Require(t, err == nil && strings.Contains(want, "runpod_pod.pöl·la"), err, want)
	utf16Text := func(order binary.AppendByteOrder, text string) (out []byte) {
		for _, unit := range utf16.Encode([]rune(text)) {
			out = order.AppendUint16(out, unit)
		}
		return out
	}
	for name, text := range map[string][]byte{
		"UTF-8, mark":         []byte("\ufeff" + state),
		"little endian, mark": utf16Text(binary.LittleEndian, "\ufeff"+state),
		"big endian, mark":    utf16Text(binary.BigEndian, "\ufeff"+state),
		"little endian":       utf16Text(binary.LittleEndian, state),
		"big endian":          utf16Text(binary.BigEndian, state),
	} {
		must.Equal(t, must.Do(migrate.Blocks(text, false))(t), want, name)
	}
}

func TestHelp(t *testing.T) {
	for _, arg := range []string{"--help", "-help", "-h"} {
		var out bytes.Buffer
		err := migrate.Main([]string{arg}, strings.NewReader(""), &out)
		must.Hold(t, err == nil && out.String() == migrate.Usage, arg, "printed", out.String(), err, "expected the usage")
	}
}

// If a resource has only a deposed object, the blocks of -import forget it, as their comment says.
func TestDeposedObjectAlone(t *testing.T) {
	const pulled = `{"version": 4, "resources": [
  {"mode": "managed", "type": "runpod_savings_plan", "name": "s", "provider": "provider[\"registry.terraform.io/runpod/runpod\"]", "instances": [{"deposed": "1a2b3c4d", "attributes": {"id": "s"}}]},
  {"mode": "managed", "type": "runpod_pod", "name": "p", "provider": "provider[\"registry.terraform.io/runpod/runpod\"]", "instances": [{"deposed": "1a2b3c4d", "attributes": {"id": "p0"}}]}]}`
	for imports, blocks := range map[bool]int{false: 0, true: 1} {
		got := must.Do(migrate.Blocks([]byte(pulled), imports))(t)
		must.Equal(t, strings.Count(got, "removed {\n  from = runpod_pod.p\n"), blocks, "imports", imports, got)
		must.Hold(t, !strings.Contains(got, "runpod_savings_plan.s has the deposed object"), "a type without a counterpart is mentioned; imports", imports, got)
	}
}

// Comments warn of objects that the first apply would delete, and of types without a counterpart.
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
				must.Hold(t, err == nil && strings.Contains(got, text), name, "imports", imports, "expected", text, "and got", got, err)
			}
			must.Hold(t, strings.Contains(got, "untaint") != imports && strings.Count(got, "gpucloud_network_volume.v") == 1, name, "imports", imports, "expected untaint only without imports, and the volume once, and got", got)
		}
	}
}

// Any input is rejected or converted to valid moved, import and removed blocks.
func FuzzBlocks(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, document string, imports bool) {
		written, err := migrate.Blocks([]byte(document), imports)
		if err != nil {
			return
		}
		for _, b := range parse(t, written) {
			must.Hold(t, (b.Type == "moved" || b.Type == "import" || b.Type == "removed") && len(b.Labels) == 0, "expected moved, import and removed blocks and got", b.Type, b.Labels, "in", written)
		}
	},
		fuzz.Seed{`{"version": 4, "resources": [{"module": "module.a[\"x\"]", "mode": "managed", "type": "runpod_pod", "name": "p", "provider": "provider[\"h/runpod/runpod\"]", "instances": [{"index_key": "k", "attributes": {"id": null, "name": "n"}}]}]}`, false},
		fuzz.Seed{`{"values": {"root_module": {"resources": [{"mode": "managed", "type": "runpod_endpoint", "name": "e", "index": 0, "provider_name": "h/runpod/runpod", "values": {"id": "e1"}}]}}}`, true},
		fuzz.Seed{`{"version": 4, "resources": [{"module": "", "mode": "managed", "type": "runpod_pod", "name": "p\n}\nresource x y {", "provider": "provider[\"h/runpod/runpod\"]", "instances": [{"attributes": {"id": "p1"}}]}]}`, false},
	)
}

// The import block contains any name and key unchanged.
func FuzzNames(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, name, key string) {
		if name == "" {
			return
		}
		instance := map[string]any{"index_key": key, "attributes": map[string]any{"id": nil, "name": name}}
		document := must.Do(json.Marshal(map[string]any{"version": 4, "resources": []any{map[string]any{
			"mode": "managed", "type": "runpod_pod", "name": "p", "provider": `provider["h/runpod/runpod"]`, "instances": []any{instance},
		}}}))(t)
		written := must.Do(migrate.Blocks(document, false))(t)
		var read struct{ Name, Key string } // after a round trip through JSON
		text, _ := json.Marshal(map[string]string{"Name": name, "Key": key})
		must.Succeed(t, json.Unmarshal(text, &read))
		blocks := parse(t, written)
		last := blocks[len(blocks)-1]
		id, diags := last.Body.Attributes["id"].Expr.Value(nil)
		must.Hold(t, !diags.HasErrors() && id.RawEquals(cty.StringVal(read.Name)), "the id is", id, "expected", read.Name, diags, "in", written)
		to, diags := hcl.AbsTraversalForExpr(last.Body.Attributes["to"].Expr)
		must.Require(t, !diags.HasErrors() && len(to) == 3, "expected a type, a name and a key in to and got", to, diags, "in", written)
		index := to[2].(hcl.TraverseIndex).Key
		must.Hold(t, index.RawEquals(cty.StringVal(read.Key)), "the key is", index, "expected", read.Key, "in", written)
	}, fuzz.Seed{"models", "eu"}, fuzz.Seed{`a"b\${x}%{y}$${z}`, "x.y[0]"}, fuzz.Seed{"line\nbreak\ttab\x00\x1b\u2028", "$"}, fuzz.Seed{"%", `\`})
}

func parse(t *testing.T, written string) hclsyntax.Blocks {
	t.Helper()
	file, diags := hclsyntax.ParseConfig([]byte(written), "migrate.tf", hcl.InitialPos)
	must.Require(t, !diags.HasErrors(), "the blocks are invalid:", diags, "in", written)
	return file.Body.(*hclsyntax.Body).Blocks
}
