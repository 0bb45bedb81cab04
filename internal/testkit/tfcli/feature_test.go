package tfcli_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

func TestMain(m *testing.M) {
	if acctest.IsProviderProcess() {
		err := providerserver.Serve(context.Background(), func() provider.Provider { return probe{} },
			providerserver.ServeOpts{Address: "registry.terraform.io/gpucloud/probe", ProtocolVersion: 6})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A feature works with a CLI of this machine if and only if Has reports it.
func TestFeatures(t *testing.T) {
	const thing = "resource \"probe_thing\" \"one\" {}\n"
	for _, c := range []struct {
		feature tfcli.Feature
		before  string // configuration that is applied first
		config  string
		file    string // name of config's file; "" for main.tf
		args    []string
		want    string // in the output
	}{
		{
			feature: tfcli.WriteOnly, config: "resource \"probe_thing\" \"one\" {\n  secret = \"s\"\n}\n",
			args: []string{"apply", "-auto-approve"}, want: "1 added",
		},
		{
			feature: tfcli.EphemeralResource,
			config:  "ephemeral \"probe_secret\" \"s\" {}\n" + thing + "output \"o\" {\n  value = ephemeralasnull(ephemeral.probe_secret.s.value) == null\n}\n",
			args:    []string{"apply", "-auto-approve"}, want: "o = true",
		},
		{
			feature: tfcli.Functions, config: "output \"o\" {\n  value = provider::probe::answer()\n}\n",
			args: []string{"apply", "-auto-approve"}, want: "o = \"an answer\"",
		},
		{
			feature: tfcli.MoveAcrossTypes, before: "resource \"probe_other\" \"one\" {}\n",
			config: thing + "moved {\n  from = probe_other.one\n  to   = probe_thing.one\n}\n",
			args:   []string{"apply", "-auto-approve"}, want: "0 added, 0 changed, 0 destroyed",
		},
		{
			feature: tfcli.ImportByIdentity,
			config:  thing + "import {\n  to = probe_thing.one\n  identity = {\n    id = \"one\"\n  }\n}\n",
			args:    []string{"apply", "-auto-approve"}, want: "1 imported",
		},
		{
			feature: tfcli.ListResources, file: "all.tfquery.hcl", config: "list \"probe_thing\" \"all\" {\n  provider = probe\n}\n",
			args: []string{"query"}, want: "the only thing",
		},
		{
			feature: tfcli.Actions, config: "action \"probe_ping\" \"p\" {}\n",
			args: []string{"apply", "-auto-approve", "-invoke=action.probe_ping.p"}, want: "ping answered",
		},
	} {
		t.Run(strings.ReplaceAll(c.feature.String(), " ", "-"), func(t *testing.T) {
			acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
				w := acctest.NewWorkspace(t, cli, "probe")
				if c.before != "" {
					w.Write("main.tf", c.before)
					w.MustRun("apply", "-auto-approve")
				}
				w.Write(cmp.Or(c.file, "main.tf"), c.config)
				out, err := w.Run(c.args...)
				works := err == nil && strings.Contains(out, c.want)
				must.Equal(t, works, cli.Has(c.feature), c.feature, "works", "but Has reports", err, out)
			})
		})
	}
}
