//go:build !linux && !darwin && !windows

package cliname

import "errors"

func parentExecutable() (executable, error) {
	return executable{}, errors.ErrUnsupported
}
