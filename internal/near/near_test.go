package near_test

import (
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/near"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestSuggest(t *testing.T) {
	known := []string{"NVIDIA L4", "NVIDIA L40", "NVIDIA L40S", "NVIDIA B200", "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3090", "ADA_24", "ADA_24",
		"NVIDIA A40", "NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 PCIe", "NVIDIA H100 80GB HBM3", "NVIDIA H100 NVL", "NVIDIA H200 NVL", "NVIDIA H200", "NVIDIA RTX A4000", "NVIDIA RTX A30", "Tesla T4"}
	for word, want := range map[string]string{
		"NVIDIA B20":  `; did you mean "NVIDIA B200"?`,
		"nvidia h200": `; did you mean "NVIDIA H200"?`, "NVIDIA-H200": `; did you mean "NVIDIA H200"?`, "NVIDIA H200 ": `; did you mean "NVIDIA H200"?`,
		"NVIDIA L40S ":            `; did you mean "NVIDIA L40S"?`,
		"nvidia geforce rtx 4090": `; did you mean "NVIDIA GeForce RTX 4090"?`,
		"NVIDIA L40X":             `; did you mean "NVIDIA L40" or "NVIDIA L40S"?`,
		"RTX 4090":                `; did you mean "NVIDIA GeForce RTX 4090"?`,
		"Voodoo 2":                "",
		"L4":                      `; did you mean "NVIDIA L4"?`,
		"RTX4090":                 `; did you mean "NVIDIA GeForce RTX 4090"?`, "4090": `; did you mean "NVIDIA GeForce RTX 4090"?`,
		"rtx-3090":        `; did you mean "NVIDIA GeForce RTX 3090"?`,
		"NVIDIA A100":     `; did you mean "NVIDIA A100 80GB PCIe" or "NVIDIA A100-SXM4-80GB"?`, // and not the A40
		"NVIDIA RTX4090":  `; did you mean "NVIDIA GeForce RTX 4090"?`,
		"NVIDIA RTX 4090": `; did you mean "NVIDIA GeForce RTX 4090"?`,
		"NVIDIA H100":     `; did you mean "NVIDIA H100 NVL", "NVIDIA H100 PCIe" or "NVIDIA H100 80GB HBM3"?`, // and not the H200
		"NVIDIA T4":       `; did you mean "Tesla T4"?`,
		"H100":            `; did you mean "NVIDIA H100 NVL", "NVIDIA H100 PCIe" or "NVIDIA H100 80GB HBM3"?`,
		"ADA_25":          `; did you mean "ADA_24"?`, // once, although the list has it twice
		"":                "",
	} {
		must.Equal(t, near.Suggest(word, known), want, word)
	}
}

func TestMatches(t *testing.T) {
	known := []string{"models", "weights", "model-cache", "m", "Twin", "Twin", "a", "b", "c", "d", "e", "f"}
	for word, want := range map[string][]string{
		"modles":     {"models"},
		"MODELS":     {"models"},
		"model":      {"models", "model-cache"},
		"my-weights": {"weights"},
		"twin":       {"Twin"},
		"nothing":    {},
		"x":          {"a", "b", "c", "d", "e"}, // five at most
	} {
		must.Equal(t, near.Matches(word, known), want, word)
	}
	must.Equal(t, near.Matches("x", nil), nil, "matches in an empty list")
	must.Equal(t, near.First([]string{"c", "b", "a", "a", "f", "e", "d"}), []string{"a", "b", "c", "d", "e"}, "the first five")
}
