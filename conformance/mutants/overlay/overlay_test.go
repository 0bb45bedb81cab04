package overlay

import (
	"os/exec"
	"testing"
)

// The patches apply to the product's sources as they are, and what comes of it
// compiles.
func TestPatchesApply(t *testing.T) {
	const root = "../../.."
	overlay, err := Write(t.Context(), root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	vet := exec.CommandContext(t.Context(), "go", "vet", "-overlay", overlay, "./jobrunner/...")
	vet.Dir = root
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("the jobrunner with its faults does not compile: %v\n%s", err, out)
	}
}
