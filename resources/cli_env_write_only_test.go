package resources_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
)

// A value of an ephemeral variable reaches the server, but no file of Terraform: neither a saved
// plan nor the state, even after a refresh, an import and a rotation.
func TestCLIEnvWriteOnly(t *testing.T) {
	acctest.LeaveToCI(t, "TestEnvWriteOnly has it over the protocol")
	eachCLIAndVersion(t, testCLIEnvWriteOnly)
}

func testCLIEnvWriteOnly(t *testing.T, d *acctest.Deployment, w *acctest.Workspace, v api.Version) {
	c := d.Client(t, api.V2)
	write := func(settings string) {
		body := fmt.Sprintf("  name = %q\n  image = \"i\"\n%s\n", d.Name("wo"), settings)
		text := "variable \"token\" {\n  type      = string\n  ephemeral = true\n  default   = null\n}\n" +
			"resource \"gpucloud_template\" \"t\" {\n  serverless = true\n" + body + "}\n"
		if v == api.V2 {
			text += "resource \"gpucloud_endpoint\" \"e\" {\n" + body + "}\n"
		}
		w.Write("main.tf", text)
	}
	expectEnv := func(want map[string]string) {
		t.Helper()
		templates, err := c.Templates.List(t.Context())
		if err != nil || len(templates) != 1 || !maps.Equal(templates[0].Env, want) {
			t.Errorf("the template has not %v: %v, %v", want, templates, err)
		}
		endpoints, err := c.Endpoints.List(t.Context())
		if err != nil || v == api.V2 && (len(endpoints) != 1 || !maps.Equal(endpoints[0].Environment(), want)) {
			t.Errorf("the endpoint has not %v: %v, %v", want, endpoints, err)
		}
	}
	secret := func(value string) string { return "-var=token=secret-" + value }

	write("  env = { A = \"1\" }\n  env_wo = { S = var.token }\n  env_wo_version = 1")
	w.MustRun("plan", "-out=saved", secret("1"))
	expectNoSecret(t, w)
	w.MustRun("apply", secret("1"), "saved")
	expectEnv(map[string]string{"A": "1", "S": "secret-1"})
	expectNoSecret(t, w)

	unchanged := func(args ...string) {
		t.Helper()
		if out := w.MustRun(append([]string{"plan"}, args...)...); !strings.Contains(out, "No changes.") {
			t.Errorf("expected no changes, got:\n%s", out)
		}
	}
	unchanged(secret("other"))
	w.MustRun("apply", "-refresh-only", "-auto-approve", secret("1"))
	expectNoSecret(t, w)

	write("  env = { A = \"2\" }\n  env_wo = { S = var.token }\n  env_wo_version = 2")
	w.MustRun("plan", "-out=saved", secret("2"))
	w.MustRun("apply", secret("2"), "saved")
	expectEnv(map[string]string{"A": "2", "S": "secret-2"})
	expectNoSecret(t, w)

	// These commands don't need the value.
	write("  env = { A = \"3\" }\n  env_wo = var.token == null ? null : { S = var.token }\n  env_wo_version = 2")
	w.MustRun("apply", "-auto-approve")
	expectEnv(map[string]string{"A": "3", "S": "secret-2"})
	unchanged()
	expectNoSecret(t, w)

	// An import puts all variables into env; the first apply removes the write-only ones.
	templates, err := c.Templates.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	write("  env = { A = \"3\" }\n  env_wo = { S = var.token }\n  env_wo_version = 1")
	w.MustRun("state", "rm", "gpucloud_template.t")
	w.MustRun("import", secret("2"), "gpucloud_template.t", templates[0].ID)
	w.MustRun("apply", "-auto-approve", secret("2"))
	expectEnv(map[string]string{"A": "3", "S": "secret-2"})
	unchanged(secret("2"))
	for _, backup := range []string{"terraform.tfstate.backup", "saved"} {
		if err := os.Remove(filepath.Join(w.Dir, backup)); err != nil {
			t.Error(err)
		}
	}
	earlier, err := filepath.Glob(filepath.Join(w.Dir, "terraform.tfstate.*.backup")) // backups of state rm
	for _, file := range earlier {
		err = os.Remove(file)
	}
	if err != nil {
		t.Error(err)
	}
	expectNoSecret(t, w)

	write("  env = { A = \"3\" }")
	w.MustRun("apply", "-auto-approve")
	expectEnv(map[string]string{"A": "3"})
	unchanged()
}

// expectNoSecret searches every file of the workspace, including saved plans.
func expectNoSecret(t *testing.T, w *acctest.Workspace) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(w.Dir, "*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	secret := []byte("secret-")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, secret) {
			t.Errorf("%s holds a secret:\n%s", filepath.Base(file), text)
		}
		if filepath.Base(file) != "saved" {
			continue
		}
		packed, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range packed.File {
			r, err := part.Open()
			if err != nil {
				t.Fatal(err)
			}
			if content, err := io.ReadAll(r); err != nil || bytes.Contains(content, secret) {
				t.Errorf("%s of a saved plan holds a secret, %v", part.Name, err)
			}
		}
	}
}
