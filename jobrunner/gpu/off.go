//go:build !linux || !cgo

package gpu

import (
	"errors"
	"log/slog"
)

// Open fails: this build has no GPU support.
func Open(*slog.Logger) (Inventory, error) {
	return nil, errors.New("GPU support is off in this build: it needs Linux and cgo (CGO_ENABLED=1 and a C compiler)")
}
