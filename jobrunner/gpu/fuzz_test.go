package gpu

import (
	"path"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// An accepted file of simulated GPUs has a bounded number of distinct devices, and an error names the
// file.
func FuzzMachine(f *testing.F) {
	var seeds []fuzz.Seed
	for _, name := range Presets() {
		text := must.Do(presets.ReadFile(path.Join("presets", name+".yaml")))(f)
		seeds = append(seeds, fuzz.Seed{text})
	}
	fuzz.Run(f, func(t *testing.T, text []byte) {
		driver, devices, err := readMachine("the-file", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "the-file:") {
				t.Errorf("%q: the error does not begin with the file: %s", text, err)
			}
			return
		}
		if driver.Version == "" || !cudaPattern.MatchString(driver.CUDA) {
			t.Errorf("%q: unexpected driver %+v", text, driver)
		}
		ids := map[string]bool{}
		for _, d := range devices {
			if d.UUID == "" || ids[d.UUID] {
				t.Errorf("%q: two devices have the UUID %q", text, d.UUID)
			}
			ids[d.UUID] = true
		}
		if len(devices) > 100*maxGPUs {
			t.Errorf("%q: %d devices", text, len(devices))
		}
	}, seeds...)
}
