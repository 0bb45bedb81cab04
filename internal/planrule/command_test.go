package planrule

import (
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestParse(t *testing.T) {
	for line, want := range map[string]options{
		"terraform destroy -auto-approve":                    {destroys: true},
		"tofu -chdir=infra destroy -target gpucloud_pod.p":   {destroys: true},
		"terraform plan -destroy -out=file":                  {destroys: true},
		"terraform apply --destroy=true":                     {destroys: true},
		"terraform apply -destroy=false":                     {},
		"terraform plan -destroy -destroy=false":             {},
		"terraform destroy -destroy=false":                   {destroys: true},
		"TF_CLI_ARGS=-destroy terraform plan -destroy=false": {},
		"terraform apply -replace=gpucloud_pod.p":            {replaces: " gpucloud_pod.p"},
		"terraform plan -replace gpucloud_pod.p":             {replaces: " gpucloud_pod.p"},
		"terraform plan -target destroy":                     {},
		"terraform apply file":                               {},
		"terraform test destroy":                             {},
		"go test -destroy":                                   {},
		"terraform":                                          {},
		"":                                                   {},
		"TF_CLI_ARGS=-destroy terraform plan":                {destroys: true},
		"TF_CLI_ARGS='-destroy' terraform plan":              {destroys: true},
		"TF_CLI_ARGS_apply=-replace=a.b terraform apply":     {replaces: " a.b"},
		"TF_CLI_ARGS_apply=-replace=a.b terraform plan":      {},
		"terraform apply -var=x=-destroy -var-file=destroy":  {},
	} {
		variables := map[string]string{}
		arguments := strings.Fields(line)
		for len(arguments) > 0 && strings.HasPrefix(arguments[0], "TF_") {
			name, value, _ := strings.Cut(arguments[0], "=")
			variables[name], arguments = value, arguments[1:]
		}
		must.Equal(t, parse(arguments, func(name string) string { return variables[name] }), want, line)
	}
}
