//go:build !linux && !darwin && !windows

package planrule

import "errors"

func parentArguments() ([]string, error) { return nil, errors.ErrUnsupported }
