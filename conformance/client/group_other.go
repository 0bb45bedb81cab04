//go:build !unix

package client

import (
	"io/fs"
	"os/exec"
)

// deviceOf is for systems on which file systems can't be distinguished.
func deviceOf(fs.FileInfo) uint64 { return 0 }

// setProcessGroup does nothing, since there are no process groups. Only the command itself is killed.
func setProcessGroup(*exec.Cmd) {}

func killRemaining(*exec.Cmd) {}
