//go:build !linux && !darwin && !windows

package cliname

import "errors"

func parentArguments() ([]string, error) { return nil, errors.ErrUnsupported }

func parentExecutable() (executable, error) {
	return executable{}, errors.ErrUnsupported
}
