package resources_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfversion"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/tfdrive"
)

func TestRegistryAuth(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		const address = "gpucloud_registry_auth.r"
		config := func(name, user, password string) string {
			return d.Block(v) + fmt.Sprintf("resource \"gpucloud_registry_auth\" \"r\" {\n  name     = %q\n  username = %q\n  password = %q\n}\n", d.Name(name), user, password)
		}
		var id string
		acctest.Run(t,
			expects(config("ci", "robot", "hunter2"), address, plancheck.ResourceActionCreate, remember(address, "id", &id)),
			unchanged(config("ci", "robot", "hunter2")),
			imports(address, "username", "password"),
			expects(config("ci", "robot", "hunter3"), address, plancheck.ResourceActionReplace, remember(address, "id", &id)),
			expects(config("ci", "robot2", "hunter3"), address, plancheck.ResourceActionReplace),
			expects(config("ci2", "robot2", "hunter3"), address, plancheck.ResourceActionReplace, remember(address, "id", &id)),
			resource.TestStep{
				PreConfig: func() {
					if err := d.Client(t, v).RegistryAuths.Delete(t.Context(), id); err != nil {
						t.Error(err)
					}
				},
				Config:           config("ci2", "robot2", "hunter3"),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(address, plancheck.ResourceActionCreate)}},
			},
		)
	})
}

// With the write-only form no secret is in the state or in a saved plan, and a
// rotation is one apply although a template uses the auth.
func TestRegistryAuthWriteOnly(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		config := func(secret string, version int) string {
			return d.Block(v) + fmt.Sprintf(`
resource "gpucloud_registry_auth" "r" {
  name                = %q
  username            = "robot"
  password_wo         = %q
  password_wo_version = %d
}
resource "gpucloud_template" "t" {
  name       = %q
  image      = "registry.example.com/private"
  registry   = gpucloud_registry_auth.r.id
  serverless = true
}
resource "gpucloud_endpoint" "e" {
  name        = "e"
  template_id = gpucloud_template.t.id
}
`, d.Name("ci"), secret, version, d.Name("t"))
		}
		const auth = "gpucloud_registry_auth.r"
		nothingKept := func(secret string) resource.TestCheckFunc {
			return func(s *terraform.State) error {
				if text := fmt.Sprint(s.RootModule().Resources); strings.Contains(text, secret) {
					return fmt.Errorf("the state holds the secret")
				}
				return nil
			}
		}
		workDir := t.TempDir()
		resource.UnitTest(t, resource.TestCase{
			ProtoV6ProviderFactories: acctest.Factories,
			WorkingDir:               workDir,
			TerraformVersionChecks:   []tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_11_0)},
			Steps: []resource.TestStep{
				expects(config("planted-secret-1", 1), auth, plancheck.ResourceActionCreate, nothingKept("planted-secret-1"),
					func(*terraform.State) error { return nowhere(workDir, "planted-secret-1") }),
				// A new secret alone changes nothing: the version says that it is new.
				unchanged(config("planted-secret-2", 1)),
				{
					Config: config("planted-secret-2", 2),
					ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
						plancheck.ExpectResourceAction(auth, plancheck.ResourceActionReplace),
						plancheck.ExpectResourceAction("gpucloud_template.t", plancheck.ResourceActionUpdate),
						plancheck.ExpectResourceAction("gpucloud_endpoint.e", plancheck.ResourceActionUpdate),
					}},
					Check: resource.ComposeAggregateTestCheckFunc(
						resource.TestCheckResourceAttrPair("gpucloud_template.t", "registry", auth, "id"),
						nothingKept("planted-secret-2"),
						func(*terraform.State) error { return nowhere(workDir, "planted-secret-2") }),
				},
				unchanged(config("planted-secret-2", 2)),
			},
		})
	})
}

// nowhere looks for a secret in what Terraform wrote, its configuration aside.
func nowhere(dir, secret string) error {
	return filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasSuffix(path, ".tf") {
			return err
		}
		content, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(content), secret) {
			return fmt.Errorf("%s holds the secret", path)
		}
		return err
	})
}

// An import knows no credentials: they are recorded in place, and nothing is
// sent.
func TestRegistryAuthImport(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		p := drive(t, d, v)
		for name, config := range map[string]map[string]any{
			"plain":      {"name": d.Name("plain"), "username": "robot", "password": "hunter2"},
			"write-only": {"name": d.Name("write-only"), "username": "robot", "password_wo": "hunter2", "password_wo_version": 7},
		} {
			born := apply(t, p, "gpucloud_registry_auth", tfdrive.State{}, config, "create")
			state, diags := p.Import("gpucloud_registry_auth", born.Get("id").(string))
			if err := diags.Err(); err != nil {
				t.Fatalf("%s: import: %s", name, err)
			}
			writes := d.Writes()
			state = apply(t, p, "gpucloud_registry_auth", state, config, "update")
			if d.Writes() != writes || state.Get("id") != born.Get("id") {
				t.Errorf("%s: recording the credentials sent something", name)
			}
			apply(t, p, "gpucloud_registry_auth", state, with(config, map[string]any{"username": "robot2"}), "replace")
		}
	})
}

func TestRegistryAuthRules(t *testing.T) {
	d := acctest.Deploy(t)
	p := drive(t, d, api.V2)
	config := map[string]any{"name": d.Name("ci"), "username": "robot", "password": "hunter2"}
	for _, c := range []struct {
		changes  map[string]any
		at, text string
	}{
		{map[string]any{"name": ""}, "name", "length"},
		{map[string]any{"username": ""}, "username", "length"},
		{map[string]any{"password": nil}, "password", "password_wo"},
		{map[string]any{"password": ""}, "password", "length"},
		{map[string]any{"password_wo": "x", "password_wo_version": 1}, "password", "password_wo"},
		{map[string]any{"password": nil, "password_wo": "x"}, "password_wo", "password_wo_version"},
		{map[string]any{"password_wo_version": 1}, "password_wo_version", "password_wo"},
	} {
		refused(t, d, p, tfdrive.State{}, "gpucloud_registry_auth", with(config, c.changes), c.at, c.text)
	}
	apply(t, p, "gpucloud_registry_auth", tfdrive.State{}, config, "create")
	planned := p.Plan("gpucloud_registry_auth", tfdrive.State{}, config)
	_, diags := p.Apply(planned) // the name is taken
	if err := diags.Err(); err == nil || !strings.Contains(err.Error(), "ci") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a second auth of the same name: %v", err)
	}
}
