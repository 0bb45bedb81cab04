package provider_test

import (
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

// A hint with a command to type names the command line that the user runs.
func TestHintsNameTheCommandLine(t *testing.T) {
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		t.Parallel()
		w := acctest.Deploy(t).Workspace(t, cli, api.V2)
		w.Write("main.tf", volume)
		w.MustRun("apply", "-auto-approve")
		// Now the address is known after the apply.
		w.Write("main.tf", volume+"resource \"terraform_data\" \"address\" {}\nprovider \"gpucloud\" {\n  base_url = terraform_data.address.id\n}\n")
		out, err := w.Run("plan")
		want := "(" + cli.Name + " apply -target)"
		if err == nil || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("expected an error with %s, got:\n%s", want, out)
		}
	})
}
