//go:build !unix

package client

import (
	"io/fs"
	"os/exec"
)

// deviceOf can't tell file systems apart here.
func deviceOf(fs.FileInfo) uint64 { return 0 }

// setProcessGroup does nothing where there are no process groups: the command alone is
// killed.
func setProcessGroup(*exec.Cmd) {}

func killRemaining(*exec.Cmd) {}
