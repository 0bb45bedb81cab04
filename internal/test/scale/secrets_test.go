//go:build unix

package scale_test

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// secrets are values planted in a configuration.
var secrets = []struct {
	name, value string
	inState     bool // Terraform stores it in the state and in saved plans
}{
	{"key", "Pl4ntedApiKey0a1b2c3d4e5f", false},
	{"written", "Pl4ntedWriteOnly9z8y7x6w5v", false},
	{"password", "Pl4ntedPassword1q2w3e4r5t", true},
	{"env", "Pl4ntedEnvValue5t4r3e2w1q", true},
	{"s3", "Pl4ntedS3Secret6y5t4r3e2w", true},
}

// configWithSecrets returns a configuration with each secret except the key, which is in the environment.
func configWithSecrets(v api.Version) string {
	config := baseTemplate
	for _, name := range []string{"written", "password", "env", "s3"} {
		config += fmt.Sprintf("variable %q {\n  type      = string\n  sensitive = true\n  ephemeral = %t\n}\n", name, name == "written")
	}
	config += `
resource "gpucloud_registry_auth" "kept" {
  name     = "kept"
  username = "robot"
  password = var.password
}
resource "gpucloud_registry_auth" "written" {
  name                = "written"
  username            = "robot"
  password_wo         = var.written
  password_wo_version = 1
}
resource "gpucloud_template" "t" {
  name  = "secretive"
  image = "registry.example/worker:1"
  env   = { TOKEN = var.env, AWS_SECRET_ACCESS_KEY = var.s3 }

  env_wo         = { WRITTEN = var.written }
  env_wo_version = 1
}
`
	if v == api.V2 {
		config += `
resource "gpucloud_endpoint" "e" {
  name  = "secretive"
  image = "registry.example/worker:1"
  cpu   = [{ id = "cpu3c", vcpu_count = 2 }]
  env   = { TOKEN = var.env, AWS_SECRET_ACCESS_KEY = var.s3 }

  env_wo         = { WRITTEN = var.written }
  env_wo_version = 1
}
resource "gpucloud_secret" "s" {
  name             = "secretive"
  value_wo         = var.written
  value_wo_version = 1
}
`
	}
	return config
}

// containsSecret reports whether a text has a value in an encoding that a log may show.
func containsSecret(text []byte, value string) bool {
	encodings := []string{value, fmt.Sprintf("%x", value), strings.Trim(fmt.Sprintf("%d", []byte(value)), "[]")}
	for shift := range 3 { // its base64 encoding depends on the position
		padded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + value))
		encodings = append(encodings, padded[4:len(padded)-4])
	}
	return slices.ContainsFunc(encodings, func(s string) bool { return bytes.Contains(text, []byte(s)) })
}

// expectNoSecrets expects no secret in Terraform's output, and in files only where Terraform stores it.
func (tf *terraform) expectNoSecrets(output string) {
	tf.t.Helper()
	for _, s := range secrets {
		if !containsSecret([]byte(output), s.value) {
			continue
		}
		for line := range strings.Lines(output) {
			if containsSecret([]byte(line), s.value) {
				tf.t.Errorf("the output has the secret %s: %s", s.name, line)
				break
			}
		}
	}
	err := filepath.WalkDir(tf.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if archive, e := zip.NewReader(bytes.NewReader(text), int64(len(text))); e == nil {
			text = nil
			for _, member := range archive.File {
				r, err := member.Open()
				if err != nil {
					return err
				}
				inside, err := io.ReadAll(r)
				if err != nil {
					return err
				}
				text = append(text, inside...)
			}
		}
		name := entry.Name()
		for _, s := range secrets {
			stored := s.inState && (strings.HasPrefix(name, "terraform.tfstate") || name == "saved.tfplan")
			must.Hold(tf.t, stored || !containsSecret(text, s.value), name, "has the secret", s.name)
		}
		return err
	})
	must.Succeed(tf.t, err)
}

// No secret is in Terraform's output, log or other files, also after a panic and errors that repeat it.
func TestSecretsStayOut(t *testing.T) {
	eachVersion(t, func(t *testing.T, v api.Version) {
		start := func(t *testing.T, pkg string) (*deployment, *terraform) {
			d := deploy(t)
			d.key = secrets[0].value
			d.serve(t, jobrunner.Config{})
			tf := newWorkspace(t, d, pkg, v)
			tf.configure(configWithSecrets(v))
			tf.env = append(tf.env, "TF_LOG=TRACE")
			for _, s := range secrets[1:] { // the key is in the environment
				tf.env = append(tf.env, "TF_VAR_"+s.name+"="+s.value)
			}
			return d, tf
		}
		testSuccess := func(t *testing.T) {
			_, tf := start(t, ourProvider)
			printed := tf.run("plan", "-out=saved.tfplan") + tf.run("apply", "saved.tfplan") + tf.run("plan", "-detailed-exitcode")
			tf.expectNoSecrets(printed)
			must.Contain(t, printed, "[TRACE]", "provider.terraform-provider-gpucloud")
			state := must.ReadFile(t, filepath.Join(tf.dir, "terraform.tfstate"))
			for _, s := range secrets {
				must.Hold(t, !s.inState || containsSecret(state, s.value), "the state lacks", s.name, "so the search doesn't work")
			}
		}
		testPanic := func(t *testing.T) {
			_, tf := start(t, panicProvider)
			printed, err := tf.start("apply", "-auto-approve").waitForExit()
			must.Require(t, err != nil && strings.Contains(printed, "nil pointer dereference"), "expected a panic of the provider and got", err, printed)
			tf.expectNoSecrets(printed)
		}
		testRepeatedRequest := func(t *testing.T) {
			d, tf := start(t, ourProvider)
			jobrunnerHandler := d.handler
			d.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost {
					jobrunnerHandler.ServeHTTP(w, r)
					return
				}
				var whole bytes.Buffer
				_ = r.Header.Write(&whole)
				_, _ = whole.ReadFrom(r.Body)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(w, `{"title":"Bad Request","status":400,"detail":%q,"message":%q}`, whole.String(), whole.String())
			})
			printed, err := tf.start("apply", "-auto-approve").waitForExit()
			must.Require(t, err != nil && strings.Contains(printed, "redacted"), "expected errors with redacted secrets and got", err)
			tf.expectNoSecrets(printed)
		}
		runConcurrently(t, map[string]func(*testing.T){
			"success":                        testSuccess,
			"panic":                          testPanic,
			"errors that repeat the request": testRepeatedRequest,
		})
	})
}
