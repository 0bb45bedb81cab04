//go:build linux

// Package pty runs programs on a terminal.
package pty

import (
	"io"
	"os/exec"

	"github.com/creack/pty"
)

// Output runs a command and returns its output on a terminal of its own.
func Output(cmd *exec.Cmd) (printed []byte, err error) {
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 100, Rows: 30})
	if err != nil {
		return nil, err
	}
	defer terminal.Close()
	printed, _ = io.ReadAll(terminal) // the program closes the terminal, which gives EIO
	return printed, cmd.Wait()
}
