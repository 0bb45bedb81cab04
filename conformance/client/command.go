package client

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"time"
)

// commandResult is how a command ended, and what it printed.
type commandResult struct {
	code     int // exit code; -1: ended by a signal
	timeout  bool
	output   string // stdout and stderr, the beginning and the end of each, without escape codes
	leakedIn []string
}

// command is the command of a scenario.
type command struct {
	args    []string
	dir     string
	env     []string // NAME=value
	secrets []string // searched for in its output
}

// graceTime is how long a command may take to end after SIGTERM to its process
// group, and how long its output may stay open after its end: a grandchild in
// another group would keep that open forever.
const graceTime = 2 * time.Second

// run runs the command until it ends or the context does, which ends its process
// group: by SIGTERM, so that it can release locks and stop containers, and after
// graceTime by SIGKILL. The error says that it can't be started.
func (c command) run(ctx context.Context) (commandResult, error) {
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...) //nolint:gosec // the user's own command is what is judged
	stdout, stderr := newOutputCapture(c.secrets), newOutputCapture(c.secrets)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = c.dir, c.env, stdout, stderr, graceTime
	setProcessGroup(cmd)
	err := cmd.Run()
	result := commandResult{code: cmd.ProcessState.ExitCode(), timeout: errors.Is(ctx.Err(), context.DeadlineExceeded)}
	if cmd.ProcessState == nil {
		return result, startError{err}
	}
	killRemaining(cmd)
	result.output = plainText(stdout.text() + stderr.text())
	for name, found := range map[string]bool{"its standard output": stdout.found, "its standard error": stderr.found} {
		if found {
			result.leakedIn = append(result.leakedIn, name)
		}
	}
	return result, nil
}

// startError says that the command can't be started.
type startError struct{ error }

func (e startError) Error() string { return "can't run the client's command: " + e.error.Error() }
func (e startError) Unwrap() error { return e.error }

// keptBytes is how much of the beginning and of the end of an output is kept.
const keptBytes = 64 << 10

// outputCapture keeps the beginning and the end of an output, and searches all of it
// for secrets.
type outputCapture struct {
	secrets    [][]byte
	found      bool
	head, tail []byte
	pending    []byte // that a secret may have begun in
	truncated  bool
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
		c.tail, c.truncated = append(c.tail[:0], c.tail[over:]...), true
	}
	return n, nil
}

// findSecrets finds secrets, also those that span several writes.
func (c *outputCapture) findSecrets(p []byte) {
	c.pending = append(c.pending, p...)
	longest := 0
	for _, s := range c.secrets {
		c.found = c.found || bytes.Contains(c.pending, s)
		longest = max(longest, len(s))
	}
	if over := len(c.pending) - longest + 1; over > 0 {
		c.pending = append(c.pending[:0], c.pending[over:]...)
	}
}

func (c *outputCapture) text() string {
	if c.truncated {
		return string(c.head) + "\n…\n" + string(c.tail)
	}
	return string(c.head) + string(c.tail)
}
