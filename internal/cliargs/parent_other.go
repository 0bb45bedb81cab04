//go:build !linux && !darwin && !windows

package cliargs

import "errors"

func parentArguments() ([]string, error) { return nil, errors.ErrUnsupported }
