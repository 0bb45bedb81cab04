package provider_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/tfversion"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
)

func TestMain(m *testing.M) { acctest.Main(m) }

// Every example of the documentation can be applied, and planned empty after.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../examples/*/*/resource.tf")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	files = append(files, "../examples/quickstart/main.tf")
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			t.Parallel()
			d := acctest.Deploy(t)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			// An example takes its settings from the environment, which parallel
			// tests can't have of their own, and its secret from the user.
			example := strings.Replace(string(text), "provider \"gpucloud\" {}\n", "", 1)
			example = strings.Replace(example, "ephemeral   = true\n", "ephemeral   = true\n  default     = \"token\"\n", 1)
			step := func(checks ...plancheck.PlanCheck) resource.TestStep {
				return resource.TestStep{
					Config:           d.Block(api.V2) + example,
					ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: checks},
				}
			}
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: acctest.Factories,
				TerraformVersionChecks:   []tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_11_0)},
				Steps:                    []resource.TestStep{step(), step(plancheck.ExpectEmptyPlan())},
			})
		})
	}
}
