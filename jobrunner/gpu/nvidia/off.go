//go:build !linux || !cgo

package nvidia

import (
	"errors"
	"log/slog"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
)

// Open fails: this build has no GPU support.
func Open(*slog.Logger) (gpu.Inventory, error) {
	return nil, errors.New("GPU support is off in this build: it needs Linux and cgo (CGO_ENABLED=1 and a C compiler)")
}
