package client

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"time"
)

// ending is how a command ended, and what it printed.
type ending struct {
	code    int // -1: by a signal
	timeout bool
	output  string // stdout and stderr, the beginning and the end of each, without escape codes
	leaks   []string
}

// command is the command of a scenario.
type command struct {
	args    []string
	dir     string
	env     []string // NAME=value
	secrets []string // looked for in all that it prints
}

// graceTime is how long a command may take to end after its process group was
// sent SIGTERM, and how long it may then keep its output open: a grandchild in
// another group would hold it forever.
const graceTime = 2 * time.Second

// run runs the command until it ends or the context does, which ends its process
// group: by SIGTERM, so that it can release locks and stop containers, and after
// the grace time by SIGKILL. The error is about starting it.
func (c command) run(ctx context.Context) (ending, error) {
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...) //nolint:gosec // the user's own command is what is judged
	stdout, stderr := newOutputCapture(c.secrets), newOutputCapture(c.secrets)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = c.dir, c.env, stdout, stderr, graceTime
	setProcessGroup(cmd)
	err := cmd.Run()
	end := ending{code: cmd.ProcessState.ExitCode(), timeout: errors.Is(ctx.Err(), context.DeadlineExceeded)}
	if cmd.ProcessState == nil {
		return end, startError{err}
	}
	killRemaining(cmd)
	end.output = plainText(stdout.text() + stderr.text())
	for name, found := range map[string]bool{"its standard output": stdout.found, "its standard error": stderr.found} {
		if found {
			end.leaks = append(end.leaks, name)
		}
	}
	return end, nil
}

// startError says that the command can't be started.
type startError struct{ error }

func (e startError) Error() string { return "the client's command can't be run: " + e.error.Error() }
func (e startError) Unwrap() error { return e.error }

// keptBytes bounds the beginning and the end of an output that are kept.
const keptBytes = 64 << 10

// outputCapture keeps the beginning and the end of an output, and searches all of it
// for secrets.
type outputCapture struct {
	secrets    [][]byte
	found      bool
	head, tail []byte
	left       []byte // that a secret may have begun in
	cut        bool
}

func newOutputCapture(secrets []string) *outputCapture {
	c := &outputCapture{}
	for _, s := range secrets {
		c.secrets = append(c.secrets, []byte(s))
	}
	return c
}

func (c *outputCapture) Write(p []byte) (int, error) {
	c.findSecrets(p)
	n := len(p)
	fits := min(n, keptBytes-len(c.head))
	c.head, p = append(c.head, p[:fits]...), p[fits:]
	c.tail = append(c.tail, p...)
	if over := len(c.tail) - keptBytes; over > 0 {
		c.tail, c.cut = append(c.tail[:0], c.tail[over:]...), true
	}
	return n, nil
}

// findSecrets finds secrets, also those that span several writes.
func (c *outputCapture) findSecrets(p []byte) {
	c.left = append(c.left, p...)
	longest := 0
	for _, s := range c.secrets {
		c.found = c.found || bytes.Contains(c.left, s)
		longest = max(longest, len(s))
	}
	if over := len(c.left) - longest + 1; over > 0 {
		c.left = append(c.left[:0], c.left[over:]...)
	}
}

func (c *outputCapture) text() string {
	if c.cut {
		return string(c.head) + "\n…\n" + string(c.tail)
	}
	return string(c.head) + string(c.tail)
}
