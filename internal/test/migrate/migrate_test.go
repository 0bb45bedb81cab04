// Package migrate_test takes over objects of another provider with a real CLI. The migrate command
// writes blocks from the state. With these blocks and an equivalent configuration, the plan is empty.
package migrate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/migrate"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

func TestMain(m *testing.M) {
	if acctest.IsProviderProcess() && filepath.Base(os.Args[0]) == "terraform-provider-runpod" {
		if err := serveStub(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	acctest.Main(m)
}

const document = "../../migrate/testdata/official-1.0.8.json"

// resource is a resource of a recorded document.
type resource struct {
	Address, Type, Name string
	Module              string `json:"-"`
	Index               any
	Values              map[string]any
}

func readResources(file string) (all []resource, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	type module struct {
		Address   string
		Resources []resource
		Children  []module `json:"child_modules"`
	}
	var shown struct {
		Values struct {
			Root module `json:"root_module"`
		}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&shown); err != nil {
		return nil, err
	}
	for _, m := range append(shown.Values.Root.Children, shown.Values.Root) {
		for _, r := range m.Resources {
			r.Module = m.Address
			all = append(all, r)
		}
	}
	return all, nil
}

// configuration is equivalent to the recorded states.
const configuration = `
resource "gpucloud_template" "worker" {
  name       = "worker-tpl108"
  image      = "builtin/echo"
  disk       = 20
  args       = "python -u 'my handler.py'"
  env        = { MODE = "prod" }
  ports      = ["8000/http"]
  serverless = true
}

resource "gpucloud_network_volume" "models" {
  name        = "models"
  size        = 20
  data_center = "EU-RO-1"
}

resource "gpucloud_network_volume" "renamed" {
  name        = "weights"
  size        = 20
  data_center = "EU-RO-1"
}

resource "gpucloud_registry_auth" "ci" {
  name                = "ci108"
  username            = "robot"
  password_wo         = "not sent"
  password_wo_version = 1
}

resource "gpucloud_endpoint" "api" {
  name            = "api"
  template_id     = gpucloud_template.worker.id
  gpu             = { type_ids = ["NVIDIA L4"] }
  workers         = { max = 2, idle_timeout = 7 }
  scaling         = { queue_delay = 3 }
  network_volumes = [gpucloud_network_volume.models.id]
  data_center_ids = ["EU-RO-1"]
  flashboot       = "FLASHBOOT"
  timeout         = 600000
}

resource "gpucloud_pod" "lab" {
  name      = "lab"
  image     = "builtin/echo"
  gpu       = { id = "NVIDIA L4" }
  disk      = 20
  ports     = ["8888/http", "22/tcp"]
  env       = { MODE = "lab", URL = "https://x.example.com/?a=b" }
  mounts    = { persistent = { size = 20, path = "/workspace" } }
  start_ssh = true
}

module "batch" {
  source   = "./batch"
  for_each = toset(["eu"])
  template = gpucloud_template.worker.id
}
`

const batch = `
terraform {
  required_providers {
    gpucloud = { source = "gpucloud/gpucloud" }
  }
}

variable "template" { type = string }

resource "gpucloud_endpoint" "cpu" {
  count       = 1
  name        = "cpu"
  template_id = var.template
  cpu         = [{ id = "cpu3c", vcpu_count = 4 }]
  workers     = { max = 2, idle_timeout = 7 }
  scaling     = { queue_delay = 3 }
  timeout     = 600000
}
`

func TestMigration(t *testing.T) {
	bin := t.TempDir()
	must.Succeed(t, gobuild.Programs(t.Context(), bin, "../../.."))
	program := filepath.Join(bin, "terraform-provider-gpucloud")
	out, err := exec.CommandContext(t.Context(), program, "migrate", "-other").CombinedOutput()
	must.Hold(t, err != nil && strings.Contains(string(out), "Usage: "), "with an unknown argument the program ended with", err, "and printed", string(out))
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		t.Parallel()
		d := acctest.DeployLocal(t, "the recorded names are fixed")
		// A workspace whose state isn't used later creates the objects.
		creator := d.Workspace(t, cli, api.V2)
		creator.Write("main.tf", configuration)
		creator.Write("batch/main.tf", batch)
		creator.MustRun("get")
		creator.MustRun("apply", "-auto-approve")

		w := d.Workspace(t, cli, api.V2).WithEnv(stubDocument + "=" + must.Do(filepath.Abs(document))(t))
		w.Serve("runpod/runpod")
		w.Write("terraform.tfstate", foreignState(t, d, w))
		folder := filepath.Join(w.Dir, ".terraform/providers/registry.terraform.io/gpucloud/gpucloud/0.1.0", runtime.GOOS+"_"+runtime.GOARCH) // as of init
		must.Succeed(t, os.MkdirAll(folder, 0o700))
		must.Succeed(t, os.Symlink(program, filepath.Join(folder, "terraform-provider-gpucloud_v0.1.0")))
		command := console.FindStringSubmatch(string(must.ReadFile(t, guide)))
		must.Require(t, command != nil, guide, "has no command")
		out, err := w.Shell(command[1])
		must.Require(t, err == nil && out == "", "the guide's command ended with", err, "and printed", out)
		w.Write("main.tf", configuration)
		w.Write("batch/main.tf", batch)
		w.MustRun("get")

		writes := d.Writes()
		out = w.MustRun("apply", "-auto-approve")
		want := "1 imported, 0 added, 0 changed, 0 destroyed"
		must.Hold(t, strings.Contains(out, want), "expected", want, "in", out)
		must.Equal(t, d.Writes(), writes, "the apply wrote something; writing requests so far")
		must.Contain(t, w.MustRun("plan"), "No changes.")
		state := must.ReadFile(t, filepath.Join(w.Dir, "terraform.tfstate"))
		must.Hold(t, !strings.Contains(string(state), "hunter2") && !strings.Contains(string(state), "runpod/runpod"),
			"the state has the password or an object of the other provider", string(state))
	})
}

var console = regexp.MustCompile("```console\n\\$ (.+)\n```")

// foreignState returns a state file of the recorded resources, with the ids of the deployment's objects.
func foreignState(t *testing.T, d *acctest.Deployment, w *acctest.Workspace) string {
	t.Helper()
	resources := must.Do(readResources(document))(t)
	c := d.Client(t, api.V2)
	ids := map[string]string{}
	for _, list := range []func(context.Context) ([]api.NamedObject, error){c.Templates.ListNames, c.NetworkVolumes.ListNames, c.RegistryAuths.ListNames, c.Endpoints.ListNames, c.Pods.ListNames} {
		for _, o := range must.Do(list(t.Context()))(t) {
			ids[o.Name] = o.ID
		}
	}
	newIDs := map[string]string{} // by recorded id
	for _, r := range resources {
		if id, ok := r.Values["id"].(string); ok {
			newIDs[id] = ids[r.Values["name"].(string)]
		}
	}
	var list []map[string]any
	for _, r := range resources {
		if r.Type == "runpod_pod_action" { // the configuration lacks it, and the stub can't destroy it
			continue
		}
		for name, v := range r.Values {
			if id, ok := v.(string); ok && newIDs[id] != "" {
				r.Values[name] = newIDs[id]
			}
		}
		instance := map[string]any{"schema_version": 0, "attributes": r.Values}
		if r.Index != nil {
			instance["index_key"] = r.Index
		}
		entry := map[string]any{
			"mode": "managed", "type": r.Type, "name": r.Name, "provider": w.Address("runpod/runpod"), "instances": []any{instance},
		}
		if r.Module != "" {
			entry["module"] = r.Module
		}
		list = append(list, entry)
	}
	text := must.Do(json.Marshal(map[string]any{"version": 4, "terraform_version": "1.9.8", "serial": 1, "lineage": "l", "outputs": map[string]any{}, "resources": list}))(t)
	return string(text)
}

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

// The kinds' tables and the recorded types have the same attributes. The guide names each origin.
func TestGuideNamesEveryAttribute(t *testing.T) {
	text := string(must.ReadFile(t, tables))
	introduction := string(must.ReadFile(t, guide))
	p := tfdrive.Start(t, provider.New("test")(), acctest.Deploy(t).Settings(api.V2))
	theirs := map[string]map[string]bool{} // by kind
	for kind, title := range titles {
		theirs[kind] = map[string]bool{}
		_, table, ok := strings.Cut(text, "\n### "+title+"\n")
		must.Require(t, ok, tables, "has no table", title)
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
				theirs[kind][name[1]] = true
				must.Hold(t, cells[1] != "the same" || ours[name[1]], title, "the table says that", name[1], "is the same here, but gpucloud_"+kind, "lacks it")
			}
			for _, name := range code.FindAllStringSubmatch(cells[1], -1) {
				must.Hold(t, name[1] == "–" || ours[name[1]], title, "gpucloud_"+kind, "has no attribute", name[1])
			}
		}
	}
	files, err := filepath.Glob("../../migrate/testdata/*.json")
	must.Require(t, err == nil && len(files) != 0, "expected recorded states and found none", err)
	for _, file := range files {
		for _, r := range must.Do(readResources(file))(t) {
			i := slices.IndexFunc(migrate.Origins, func(o migrate.Origin) bool { return o.Type == r.Type })
			if i < 0 {
				continue
			}
			kind := migrate.Origins[i].Kind
			for name := range r.Values {
				must.Hold(t, theirs[kind][name], filepath.Base(file), "the table", titles[kind], "lacks", name, "of", r.Type)
			}
		}
	}
	for _, o := range migrate.Origins {
		must.Hold(t, (strings.Contains(introduction, "`"+o.Provider+"`") || o.Source == migrate.Official2) && strings.Contains(introduction, "`"+o.Type+"`"),
			guide, "does not name", o.Type, "of", o.Provider)
	}
}

// The guide's example is formatted and can be applied.
func TestGuideExample(t *testing.T) {
	text := string(must.ReadFile(t, guide))
	w := acctest.Deploy(t).Workspace(t, must.Do(tfcli.Default(t.Context()))(t), api.V2)
	for _, found := range snippet.FindAllStringSubmatch(text, -1) {
		if strings.Contains(found[1], "\nresource ") {
			w.Write("main.tf", found[1])
		}
		w.Write("snippets/example.tf", found[1])
		w.MustRun("fmt", "-check", "-diff", "snippets")
	}
	w.MustRun("apply", "-auto-approve")
	must.Contain(t, w.MustRun("plan"), "No changes.")
}

// stub replaces another provider, which the CLI must start because its objects are in the state. It serves
// a schema for each type of a recorded document, with attributes of the recorded values' types.
type stub struct {
	tfprotov6.ProviderServer // nil: other methods aren't called
	schemas                  map[string]*tfprotov6.Schema
}

// stubDocument names the variable with the path of the recorded document.
const stubDocument = "MIGRATE_TEST_DOCUMENT"

func serveStub() error {
	resources, err := readResources(os.Getenv(stubDocument))
	if err != nil {
		return err
	}
	s := &stub{schemas: map[string]*tfprotov6.Schema{}}
	for _, r := range resources {
		schema := s.schemas[r.Type]
		if schema == nil {
			schema = &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{}}
			s.schemas[r.Type] = schema
		}
		addAttributes(schema.Block, r.Values)
	}
	return tf6server.Serve("registry.terraform.io/runpod/runpod", func() tfprotov6.ProviderServer { return s })
}

// addAttributes adds new attributes. If an attribute was null before, it also corrects the type.
func addAttributes(block *tfprotov6.SchemaBlock, values map[string]any) {
	for name, v := range values {
		i := slices.IndexFunc(block.Attributes, func(a *tfprotov6.SchemaAttribute) bool { return a.Name == name })
		if i < 0 {
			block.Attributes = append(block.Attributes, &tfprotov6.SchemaAttribute{Name: name, Type: typeOf(v), Optional: true, Computed: true})
		} else if v != nil {
			block.Attributes[i].Type = typeOf(v)
		}
	}
}

func typeOf(v any) tftypes.Type {
	switch v.(type) {
	case bool:
		return tftypes.Bool
	case json.Number:
		return tftypes.Number
	case []any:
		return tftypes.List{ElementType: tftypes.String}
	case map[string]any:
		return tftypes.Map{ElementType: tftypes.String}
	default:
		return tftypes.String
	}
}

func (s *stub) GetMetadata(context.Context, *tfprotov6.GetMetadataRequest) (*tfprotov6.GetMetadataResponse, error) {
	resp := &tfprotov6.GetMetadataResponse{ServerCapabilities: &tfprotov6.ServerCapabilities{}}
	for name := range s.schemas {
		resp.Resources = append(resp.Resources, tfprotov6.ResourceMetadata{TypeName: name})
	}
	return resp, nil
}

func (s *stub) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	return &tfprotov6.GetProviderSchemaResponse{
		ServerCapabilities: &tfprotov6.ServerCapabilities{}, Provider: &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{}}, ResourceSchemas: s.schemas,
	}, nil
}

func (s *stub) GetResourceIdentitySchemas(context.Context, *tfprotov6.GetResourceIdentitySchemasRequest) (*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov6.GetResourceIdentitySchemasResponse{}, nil
}

func (s *stub) ValidateProviderConfig(_ context.Context, req *tfprotov6.ValidateProviderConfigRequest) (*tfprotov6.ValidateProviderConfigResponse, error) {
	return &tfprotov6.ValidateProviderConfigResponse{PreparedConfig: req.Config}, nil
}

func (s *stub) ConfigureProvider(context.Context, *tfprotov6.ConfigureProviderRequest) (*tfprotov6.ConfigureProviderResponse, error) {
	return &tfprotov6.ConfigureProviderResponse{}, nil
}

func (s *stub) StopProvider(context.Context, *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse, error) {
	return &tfprotov6.StopProviderResponse{}, nil
}

func (s *stub) UpgradeResourceState(_ context.Context, req *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	value, err := req.RawState.Unmarshal(s.schemas[req.TypeName].ValueType())
	if err != nil {
		return nil, err
	}
	packed, err := tfprotov6.NewDynamicValue(value.Type(), value)
	return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: &packed}, err
}

// ReadResource returns the current state. OpenTofu also reads objects that it forgets.
func (s *stub) ReadResource(_ context.Context, req *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	return &tfprotov6.ReadResourceResponse{NewState: req.CurrentState, Private: req.Private}, nil
}
