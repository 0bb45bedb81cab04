package migrate_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/migrate"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

const (
	guide  = "../../../docs/guides/migrate.md"
	tables = "../../../docs/reference/migration.md"
)

var (
	code    = regexp.MustCompile("`([^`]+)`")
	snippet = regexp.MustCompile("(?s)```terraform\n(.*?)```")
)

// titles are the headings of the kinds' tables.
var titles = map[string]string{
	"template": "Template", "network_volume": "Network volume", "registry_auth": "Registry auth", "registry_delegation": "Registry delegation",
	"endpoint": "Endpoint", "pod": "Pod", "cluster": "Cluster", "ssh_keys": "SSH keys",
}

// Each attribute of each recorded type is in its kind's table, and each attribute that a table
// names for this provider exists.
func TestGuideNamesEveryAttribute(t *testing.T) {
	text := string(must.ReadFile(t, tables))
	introduction := string(must.ReadFile(t, guide))
	d := acctest.Deploy(t)
	p := tfdrive.Start(t, provider.New("test")(), d.Settings(api.V2))
	there := map[string]map[string]bool{} // by kind
	for kind, title := range titles {
		there[kind] = map[string]bool{}
		_, table, ok := strings.Cut(text, "\n### "+title+"\n")
		if !ok {
			t.Fatalf("%s has no table %s", tables, title)
		}
		table, _, _ = strings.Cut(table, "\n#")
		ours := map[string]bool{}
		for _, a := range p.Schema("gpucloud_" + kind).Block.Attributes {
			ours[a.Name] = true
			if a.NestedType != nil {
				for _, member := range a.NestedType.Attributes {
					ours[a.Name+"."+member.Name] = true
				}
			}
		}
		for line := range strings.Lines(table) {
			cells := strings.Split(line, " | ")
			if len(cells) < 3 || strings.HasPrefix(line, "| there") {
				continue
			}
			for _, name := range code.FindAllStringSubmatch(cells[0], -1) {
				there[kind][name[1]] = true
				if cells[1] == "the same" && !ours[name[1]] {
					t.Errorf("%s: the table says that %s is the same here, but gpucloud_%s lacks it", title, name[1], kind)
				}
			}
			for _, name := range code.FindAllStringSubmatch(cells[1], -1) {
				if name[1] != "–" && !ours[name[1]] {
					t.Errorf("%s: gpucloud_%s has no attribute %s", title, kind, name[1])
				}
			}
		}
	}
	files, err := filepath.Glob("../../migrate/testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	for _, file := range files {
		resources := must.Do(readResources(file))(t)
		for _, r := range resources {
			kind := kindOf(r.Type)
			if kind == "" {
				continue
			}
			for name := range r.Values {
				if !there[kind][name] {
					t.Errorf("%s: the table %s lacks %s of %s", filepath.Base(file), titles[kind], name, r.Type)
				}
			}
		}
	}
	for _, o := range migrate.Origins {
		if !strings.Contains(introduction, "`"+o.Provider+"`") && o.Source != migrate.Official2 || !strings.Contains(introduction, "`"+o.Type+"`") {
			t.Errorf("%s does not name %s of %s", guide, o.Type, o.Provider)
		}
	}
}

func kindOf(typeName string) string {
	for _, o := range migrate.Origins {
		if o.Type == typeName {
			return o.Kind
		}
	}
	return ""
}

// The guide's example is formatted and can be applied.
func TestGuideExample(t *testing.T) {
	text := string(must.ReadFile(t, guide))
	cli := must.Do(tfcli.Default(t.Context()))(t)
	w := acctest.Deploy(t).Workspace(t, cli, api.V2)
	for _, found := range snippet.FindAllStringSubmatch(text, -1) {
		if strings.Contains(found[1], "\nresource ") {
			w.Write("main.tf", found[1])
		}
		w.Write("snippets/example.tf", found[1])
		if out, err := w.Run("fmt", "-check", "-diff", "snippets"); err != nil {
			t.Errorf("not formatted: %s", out)
		}
	}
	w.MustRun("apply", "-auto-approve")
	must.Contain(t, w.MustRun("plan"), "No changes.")
}
