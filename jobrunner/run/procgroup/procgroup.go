// Package procgroup runs commands as process groups that are ended whole: the
// command, what it started, and what left the group. A group lives no longer
// than the process that it was started as, and a Register finds what a killed
// jobrunner left behind.
//
// On Linux all of it is kept. Elsewhere on Unix, processes that left the group
// are not found and usage is told at the end alone; on Windows the command's
// own process is all that is ended.
//
// It goes by real time, as processes do.
package procgroup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// Command is what to start.
type Command struct {
	Path  string    // of the program; empty: Args[0], looked for on the jobrunner's PATH
	Args  []string  // the program's name first
	Env   []string  // NAME=value, all of it
	Dir   string    // empty: the jobrunner's own
	Stdin io.Reader // read until its end or the group's; nil: empty
	// Output takes what comes on stdout and stderr, in any pieces, in order. One
	// that is slow slows the command down.
	Output io.Writer
	// Stdout takes what comes on stdout instead, where it is set. After its first
	// error it gets nothing more.
	Stdout   io.Writer
	Register *Register // nil: a killed jobrunner's groups are not looked for
}

// Group is a process group that was started.
type Group struct {
	cmd     *exec.Cmd
	mark    string // value of MarkVariable
	copying sync.WaitGroup
	outputs []*output
	stdin   *os.File // nil where there is none
	forget  func()   // by the register
	done    chan struct{}

	mu     sync.Mutex
	reaped bool // the process id may be another's
	killed bool
	used   Usage       // as last seen
	oom    [2]oomKills // at its start and at its end
}

// Usage is what a group has used.
type Usage struct {
	CPU    time.Duration // of all its processes, since its start
	Memory int64         // bytes resident now
}

// Start starts a command in a group of its own.
func Start(c Command) (*Group, error) {
	if len(c.Args) == 0 {
		return nil, errors.New("there is no command to start")
	}
	if c.Path == "" {
		path, err := exec.LookPath(c.Args[0])
		if err != nil {
			return nil, err
		}
		c.Path = path
	}
	g := &Group{mark: c.Register.mark(), done: make(chan struct{}), forget: func() {}}
	g.cmd = &exec.Cmd{Path: c.Path, Args: c.Args, Env: append(c.Env[:len(c.Env):len(c.Env)], MarkVariable+"="+g.mark), Dir: c.Dir}
	isolate(g.cmd)
	theirs, err := g.connect(c)
	if err != nil {
		closeAll(theirs)
		g.disconnect()
		return nil, err
	}
	started := make(chan error)
	go g.supervise(started, theirs, c)
	if err := <-started; err != nil {
		return nil, err
	}
	return g, nil
}

// connect makes the pipes, and answers the ends that are the command's.
func (g *Group) connect(c Command) (theirs []*os.File, err error) {
	pipe := func(to io.Writer) (*os.File, error) {
		if to == nil {
			return nil, nil
		}
		r, w, err := os.Pipe()
		if err != nil {
			return nil, fmt.Errorf("making a pipe: %w", err)
		}
		theirs = append(theirs, w)
		g.outputs = append(g.outputs, &output{from: r, to: to})
		return w, nil
	}
	both, err := pipe(c.Output)
	if err != nil {
		return theirs, err
	}
	if both != nil { // a nil *os.File in the interface would not be nil
		g.cmd.Stdout, g.cmd.Stderr = both, both
	}
	if own, err := pipe(c.Stdout); err != nil {
		return theirs, err
	} else if own != nil {
		g.cmd.Stdout = own
	}
	if c.Stdin != nil {
		r, w, err := os.Pipe()
		if err != nil {
			return theirs, fmt.Errorf("making a pipe: %w", err)
		}
		theirs, g.stdin, g.cmd.Stdin = append(theirs, r), w, r
	}
	return theirs, nil
}

func (g *Group) disconnect() {
	for _, o := range g.outputs {
		_ = o.from.Close()
	}
	if g.stdin != nil {
		_ = g.stdin.Close()
	}
}

// supervise starts the command, sees its end and ends what it leaves. It has a
// thread to itself: Linux ends the command with the thread that started it, so
// that this one must last as long, and waiting takes a thread anyway.
func (g *Group) supervise(started chan<- error, theirs []*os.File, c Command) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := g.cmd.Start()
	closeAll(theirs)
	if err != nil {
		g.disconnect()
		started <- err
		return
	}
	g.forget = c.Register.add(g.cmd.Process.Pid)
	g.mu.Lock()
	g.oom[0] = oomKillsOf(g.cmd.Process.Pid)
	g.mu.Unlock()
	for _, o := range g.outputs {
		g.copying.Go(o.copy)
	}
	if g.stdin != nil {
		g.copying.Go(func() {
			_, _ = io.Copy(g.stdin, c.Stdin) // a command need not read it
			_ = g.stdin.Close()
		})
	}
	started <- nil

	awaitExit(g.cmd)
	g.mu.Lock()
	g.oom[1] = oomKillsOf(g.cmd.Process.Pid) // a process that is not reaped has its control group
	g.measure()
	sweep(g.cmd.Process.Pid, g.mark)
	_ = g.cmd.Wait() // ProcessState has what it tells
	g.reaped = true
	g.used = Usage{CPU: max(g.used.CPU, g.cmd.ProcessState.UserTime()+g.cmd.ProcessState.SystemTime())}
	g.mu.Unlock()
	for _, o := range g.outputs {
		o.expectEnd()
	}
	if g.stdin != nil {
		_ = g.stdin.Close()
	}
	g.copying.Wait()
	g.forget()
	close(g.done)
}

// Done is closed when the command has ended, all that it left is gone, and its
// output was taken.
func (g *Group) Done() <-chan struct{} { return g.done }

// Kill ends the group and waits until it is gone. It may be called again.
func (g *Group) Kill() {
	g.Signal()
	<-g.done
}

// Signal is Kill that doesn't wait.
func (g *Group) Signal() {
	g.mu.Lock()
	if !g.reaped {
		g.killed = true
		_ = g.cmd.Process.Kill() // it may be in another group by now
		killGroup(g.cmd.Process.Pid)
	}
	g.mu.Unlock()
}

// Terminate asks the group to end, where the system has a way to ask.
func (g *Group) Terminate() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.reaped {
		terminateGroup(g.cmd.Process.Pid)
	}
}

// Succeeded tells that the command ended well; only after Done.
func (g *Group) Succeeded() bool { return g.cmd.ProcessState.Success() }

// Code is the exit status, -1 for a command that a signal ended; only after
// Done.
func (g *Group) Code() int { return g.cmd.ProcessState.ExitCode() }

// Exit says how the command ended, for people; only after Done.
func (g *Group) Exit() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.killed && !g.cmd.ProcessState.Exited() {
		return "stopped by the jobrunner"
	}
	return exitText(g.cmd.ProcessState, g.oom[0], g.oom[1])
}

// OOMKills counts the processes of the machine that the kernel ended for lack of
// memory while the command ran, 0 where the system does not tell; only after
// Done.
func (g *Group) OOMKills() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.oom[0].machine < 0 {
		return 0
	}
	return max(0, g.oom[1].machine-g.oom[0].machine)
}

// Usage is what the group has used so far; after its end the memory is 0.
func (g *Group) Usage() Usage {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.reaped {
		g.measure()
	}
	return g.used
}

// measure is called with mu held. Processes that ended without anybody waiting
// for them take their time along: the sum never falls.
func (g *Group) measure() {
	now := UsageOf(g.cmd.Process.Pid)
	g.used = Usage{CPU: max(g.used.CPU, now.CPU), Memory: now.Memory}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
