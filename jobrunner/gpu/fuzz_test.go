package gpu

import (
	"path"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// An accepted file has a bounded number of distinct devices, and an error names the file.
func FuzzMachine(f *testing.F) {
	var seeds []fuzz.Seed
	for _, name := range Presets() {
		seeds = append(seeds, fuzz.Seed{must.Do(presets.ReadFile(path.Join("presets", name+".yaml")))(f)})
	}
	fuzz.Run(f, func(t *testing.T, text []byte) {
		driver, devices, err := readMachine("the-file", text)
		if err != nil {
			must.Hold(t, strings.HasPrefix(err.Error(), "the-file:"), string(text), "the error does not begin with the file", err)
			return
		}
		must.Hold(t, driver.Version != "" && cudaPattern.MatchString(driver.CUDA), string(text), "unexpected driver", driver)
		ids := map[string]bool{}
		for _, d := range devices {
			must.Hold(t, d.UUID != "" && !ids[d.UUID], string(text), "two devices have the UUID", d.UUID)
			ids[d.UUID] = true
		}
		must.Hold(t, len(devices) <= maxSlices*maxGPUs, string(text), len(devices), "devices")
	}, seeds...)
}
