package resources_test

import (
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

// The tests in cli_*_test.go run the provider as a process of each CLI
// of this machine.

// eachCLIAndVersion runs a test with the default CLI on each API version, and with every other
// CLI on one version in turn, since CLIs don't depend on it. With -short only the default CLI
// runs.
func eachCLIAndVersion(t *testing.T, test func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace, v api.Version)) {
	t.Helper()
	number := -1
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		number++
		for i, v := range acctest.Versions {
			if testing.Short() && i > 0 || number > 0 && i != number%len(acctest.Versions) {
				continue
			}
			t.Run(string(v), func(t *testing.T) {
				t.Parallel()
				d := acctest.Deploy(t)
				test(t, d, d.Workspace(t, cli, v), v)
			})
		}
	})
}

// expectOutput expects texts in the wrapped output of a command.
func expectOutput(t *testing.T, out string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(unwrap(out), text) {
			t.Errorf("%q is not in:\n%s", text, out)
		}
	}
}

// unwrap removes line breaks and the frame around messages.
func unwrap(out string) string {
	return strings.Join(strings.FieldsFunc(out, func(r rune) bool { return r == ' ' || r == '\n' || r == '│' || r == '╷' || r == '╵' }), " ")
}

func endpointWith(attribute string) string {
	return "resource \"gpucloud_endpoint\" \"x\" {\n  name  = \"x\"\n  image = \"i\"\n  " + attribute + "\n}\n"
}

// document returns the JSON document at the end of a command's output.
func document(out string) []byte {
	_, rest, _ := strings.Cut(out, "{")
	return []byte("{" + rest)
}
