package main_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestCatalog(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	example := must.Do(filepath.Abs(filepath.Join("..", "..", "examples", "catalog.yaml")))(t)
	p := serve(t, environment(home, "GPUCLOUD_API_KEY=k"), "--ephemeral", "--catalog="+example)
	if _, text := p.get("/v2/catalog/gpus/LAB%20Accelerator%20X"); !strings.Contains(text, `"price":{"secure":1.25,"community":0,"serverless":2}`) {
		t.Errorf("the example's price is missing: %s", text)
	}
	flawed := filepath.Join(home, "flawed.yaml")
	put(t, flawed, "gpus:\n  - id: NVIDIA L4\n    price: {secured: 1}\n")
	for _, text := range []string{
		mustFail(t, environment(home), "serve", "--listen=127.0.0.1:0", "--ephemeral", "--catalog="+flawed),
		mustFail(t, environment(home, "GPUCLOUD_CATALOG="+flawed), "serve", "--listen=127.0.0.1:0", "--ephemeral"),
	} {
		must.Contain(t, text, flawed+`:3: unknown field "secured"; did you mean "secure"?`)
	}
}
