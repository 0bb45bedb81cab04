package datasources_test

import (
	"maps"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

func TestMain(m *testing.M) { acctest.Main(m) }

func drive(t *testing.T, d *acctest.Deployment, v api.Version) *tfdrive.Provider {
	t.Helper()
	p := tfdrive.Start(t, provider.New("test")(), d.Settings(v))
	must.Succeed(t, p.ConfigureDiagnostics.Err())
	return p
}

// read reads a data source and expects no error.
func read(t *testing.T, p *tfdrive.Provider, typeName string, config map[string]any) tfdrive.State {
	t.Helper()
	return tfdrive.Do(p.Data(typeName, config))(t)
}

func expectErrors(t *testing.T, p *tfdrive.Provider, typeName string, config map[string]any, texts ...string) {
	t.Helper()
	must.ErrorContains(t, tfdrive.Err(p.Data(typeName, config)), texts...)
}

func withChanges(config, changes map[string]any) map[string]any {
	out := maps.Clone(config)
	maps.Copy(out, changes)
	return out
}

// member returns a member of a list's element, or nil.
func member(list any, at int, name string) any {
	elements, _ := list.([]any)
	if at >= len(elements) {
		return nil
	}
	return elements[at].(map[string]any)[name]
}

// column returns a member of each element of a list.
func column(list any, name string) (out []any) {
	elements, _ := list.([]any)
	for _, e := range elements {
		out = append(out, e.(map[string]any)[name])
	}
	return out
}
