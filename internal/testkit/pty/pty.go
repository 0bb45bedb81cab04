//go:build linux

// Package pty runs programs on a terminal.
package pty

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Start starts a command on its own terminal. Its output is read from the terminal, which
// returns EIO after the command and its children have ended.
func Start(cmd *exec.Cmd, columns, rows int) (terminal *os.File, err error) {
	terminal, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			terminal.Close()
		}
	}()
	fd := int(terminal.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, err
	}
	size := &unix.Winsize{Col: uint16(columns), Row: uint16(rows)} //nolint:gosec // small numbers of the caller's
	if err := errors.Join(unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0), unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, size)); err != nil {
		return nil, err
	}
	other, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer other.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = other, other, other
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	return terminal, cmd.Start()
}

// Output runs a command and returns its output on the terminal.
func Output(cmd *exec.Cmd) (printed []byte, err error) {
	terminal, err := Start(cmd, 100, 30)
	if err != nil {
		return nil, err
	}
	defer terminal.Close()
	for buffer := make([]byte, 4096); ; {
		n, readErr := terminal.Read(buffer)
		printed = append(printed, buffer[:n]...)
		if readErr != nil { // EIO: nobody has the other end open
			return printed, cmd.Wait()
		}
	}
}
