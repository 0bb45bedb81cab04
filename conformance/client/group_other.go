//go:build !unix

package client

import "os/exec"

// group does nothing where there are no process groups: the command alone is
// killed.
func group(*exec.Cmd) {}

func killLeft(*exec.Cmd) {}
