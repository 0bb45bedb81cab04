package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCatalog(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	example, err := filepath.Abs(filepath.Join("..", "..", "examples", "catalog.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p := serve(t, environment(home, "GPUCLOUD_API_KEY=k"), "--ephemeral", "--catalog="+example)
	if _, text := p.get("/v2/catalog/gpus/LAB%20Accelerator%20X"); !strings.Contains(text, `"price":{"secure":1.25,"community":0,"serverless":2}`) {
		t.Errorf("the example's price is missing: %s", text)
	}
	flawed := filepath.Join(home, "flawed.yaml")
	if err := os.WriteFile(flawed, []byte("gpus:\n  - id: NVIDIA L4\n    price: {secured: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env  []string
		args []string
	}{
		{environment(home), []string{"--catalog=" + flawed}},
		{environment(home, "GPUCLOUD_CATALOG="+flawed), nil},
	} {
		cmd := exec.Command(binary, append([]string{"serve", "--listen=127.0.0.1:0", "--ephemeral"}, c.args...)...)
		cmd.Env = c.env
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), flawed+`:3: unknown field "secured"; did you mean "secure"?`) {
			t.Errorf("%v %s", err, out)
		}
	}
}
