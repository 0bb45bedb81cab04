package migrate_test

import (
	"encoding/json"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/migrate"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Any input is rejected or converted to valid moved, import and removed blocks.
func FuzzBlocks(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, document string, imports bool) {
		written, err := migrate.Blocks([]byte(document), imports)
		if err != nil {
			return
		}
		for _, b := range parse(t, written) {
			must.Hold(t, (b.Type == "moved" || b.Type == "import" || b.Type == "removed") && len(b.Labels) == 0, "unexpected block", b.Type, b.Labels, written)
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
		if diags.HasErrors() || !id.RawEquals(cty.StringVal(read.Name)) {
			t.Errorf("the id is %#v, expected %q: %v\n%s", id, read.Name, diags, written)
		}
		to, diags := hcl.AbsTraversalForExpr(last.Body.Attributes["to"].Expr)
		if diags.HasErrors() || len(to) != 3 {
			t.Fatalf("to is %v: %v\n%s", to, diags, written)
		}
		if index := to[2].(hcl.TraverseIndex).Key; !index.RawEquals(cty.StringVal(read.Key)) {
			t.Errorf("the key is %#v, expected %q\n%s", index, read.Key, written)
		}
	}, fuzz.Seed{"models", "eu"}, fuzz.Seed{`a"b\${x}%{y}$${z}`, "x.y[0]"}, fuzz.Seed{"line\nbreak\ttab\x00\x1b\u2028", "$"}, fuzz.Seed{"%", `\`})
}

func parse(t *testing.T, written string) hclsyntax.Blocks {
	t.Helper()
	file, diags := hclsyntax.ParseConfig([]byte(written), "migrate.tf", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatalf("invalid blocks: %s\n%s", diags, written)
	}
	return file.Body.(*hclsyntax.Body).Blocks
}
