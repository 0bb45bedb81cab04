// Package procgroup runs commands as process groups. When the command's own process exits,
// its children are killed, even if they left the group. A Register finds the groups that a
// killed jobrunner left.
//
// Only Linux supports all of this. On other Unix systems, children that left the group
// survive, and usage is known only at the end. On Windows only the command's own process is
// killed.
//
// The package uses real time, as processes do.
package procgroup

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

type Command struct {
	Path  string    // of the program
	Args  []string  // the program's name first
	Env   []string  // NAME=value; nothing is inherited
	Dir   string    // "" is the jobrunner's own
	Stdin io.Reader // nil is empty
	// Output receives stdout and stderr in order. If it blocks, so does the command.
	Output io.Writer
	// Stdout, if set, receives stdout instead of Output. After a failed Write it gets nothing more.
	Stdout   io.Writer
	Register *Register // nil if no later run has to find the group
}

type Group struct {
	cmd     *exec.Cmd
	mark    string // value of MarkVariable
	copiers sync.WaitGroup
	outputs []*output
	stdin   io.WriteCloser // may be nil
	forget  func()         // removes the group from the register
	done    chan struct{}

	mu     sync.Mutex
	reaped bool // the process id may belong to another process
	killed bool
	used   Usage // latest measurement

	oomAtStart, oomAtEnd oomKills
}

type Usage struct {
	CPU    time.Duration `json:"cpu"`    // of all processes, since the start
	Memory int64         `json:"memory"` // resident bytes now
}

// oomKills counts the processes that the kernel killed because memory ran out; -1 is unknown.
type oomKills struct {
	cgroup  int64 // in the process's control group
	machine int64
}

// Start starts a command in a group of its own.
func Start(c Command) (*Group, error) {
	g := &Group{mark: c.Register.newMark(), done: make(chan struct{}), forget: func() {}}
	g.cmd = &exec.Cmd{Path: c.Path, Args: c.Args, Env: append(c.Env[:len(c.Env):len(c.Env)], MarkVariable+"="+g.mark), Dir: c.Dir}
	isolate(g.cmd)
	if err := g.connect(c); err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	startResult := make(chan error)
	go g.supervise(startResult, c)
	if err := <-startResult; err != nil {
		return nil, err
	}
	return g, nil
}

// startError names a missing folder or interpreter, which the system reports as a missing program.
func startError(err error, c Command) error {
	cause := cmp.Or(errors.Unwrap(err), err) // without "fork/exec"
	_, pathErr := os.Stat(c.Path)
	folder, folderErr := os.Stat(c.Dir)
	switch {
	case c.Dir != "" && (folderErr != nil || !folder.IsDir()):
		cause = fmt.Errorf("its working folder %s isn't a folder", c.Dir)
	case errors.Is(err, fs.ErrNotExist) && pathErr == nil:
		cause = errors.New("the interpreter in its first line, or its loader, doesn't exist")
	case errors.Is(err, syscall.ENOEXEC):
		cause = errors.New("it isn't a program for this machine, and its first line isn't #! and an interpreter")
	case slices.ContainsFunc(c.Args, func(arg string) bool { return strings.Contains(arg, "\x00") }):
		cause = errors.New("an argument has a NUL character")
	}
	return fmt.Errorf("the program %s cannot be started: %w", c.Path, cause)
}

// connect makes the pipes. cmd.Start closes the command's ends.
func (g *Group) connect(c Command) (err error) {
	connectOutput := func(openPipe func() (io.ReadCloser, error), writer io.Writer) {
		if writer == nil || err != nil {
			return
		}
		var pipe io.ReadCloser
		if pipe, err = openPipe(); err == nil {
			g.outputs = append(g.outputs, &output{pipe: pipe.(*os.File), writer: writer})
		}
	}
	if c.Stdout == nil {
		connectOutput(g.cmd.StdoutPipe, c.Output)
		g.cmd.Stderr = g.cmd.Stdout
	} else {
		connectOutput(g.cmd.StdoutPipe, c.Stdout)
		connectOutput(g.cmd.StderrPipe, c.Output)
	}
	if c.Stdin != nil && err == nil {
		g.stdin, err = g.cmd.StdinPipe()
	}
	return err
}

// supervise starts the command, waits for its end and kills its children. It locks its thread: Linux kills
// the command when the thread that started it ends. Waiting takes a thread anyway.
func (g *Group) supervise(startResult chan<- error, c Command) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := g.cmd.Start(); err != nil {
		startResult <- startError(err, c)
		return
	}
	g.forget = c.Register.add(g.cmd.Process.Pid)
	g.mu.Lock()
	g.oomAtStart = oomKillsOf(g.cmd.Process.Pid)
	g.mu.Unlock()
	for _, o := range g.outputs {
		g.copiers.Go(o.copy)
	}
	if g.stdin != nil {
		g.copiers.Go(func() {
			_, _ = io.Copy(g.stdin, c.Stdin) // the command may not read it
			_ = g.stdin.Close()
		})
	}
	startResult <- nil

	awaitExit(g.cmd)
	g.mu.Lock()
	g.oomAtEnd = oomKillsOf(g.cmd.Process.Pid) // an unreaped process still has its control group
	g.used.Measure(g.cmd.Process.Pid)
	sweep(g.cmd.Process.Pid, g.mark)
	if state, err := g.cmd.Process.Wait(); err == nil { // not cmd.Wait, which closes the pipes
		g.cmd.ProcessState = state
	}
	g.reaped = true
	g.used = Usage{CPU: max(g.used.CPU, g.cmd.ProcessState.UserTime()+g.cmd.ProcessState.SystemTime())}
	g.mu.Unlock()
	for _, o := range g.outputs {
		o.ended.Store(true)
		_ = o.pipe.SetReadDeadline(time.Now().Add(lingerTime))
	}
	if g.stdin != nil {
		_ = g.stdin.Close()
	}
	g.copiers.Wait()
	g.forget()
	close(g.done)
}

// Done is closed when the command has ended, its children are gone and its output is read.
func (g *Group) Done() <-chan struct{} { return g.done }

// Kill kills the group and waits until it is gone. It may be called again.
func (g *Group) Kill() {
	g.KillNoWait()
	<-g.done
}

func (g *Group) KillNoWait() {
	g.mu.Lock()
	if !g.reaped {
		g.killed = true
		_ = g.cmd.Process.Kill() // it may have left its group
		killGroup(g.cmd.Process.Pid)
	}
	g.mu.Unlock()
}

// Terminate asks the group to end, if the system supports that.
func (g *Group) Terminate() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.reaped {
		terminateGroup(g.cmd.Process.Pid)
	}
}

// Succeeded reports whether the exit status is 0. Call it after Done.
func (g *Group) Succeeded() bool { return g.cmd.ProcessState.Success() }

// Code returns the exit status, or -1 if a signal ended the command. Call it after Done.
func (g *Group) Code() int { return g.cmd.ProcessState.ExitCode() }

// Stopped is the text of Exit if Kill ended the command.
const Stopped = "stopped by the jobrunner"

// Exit returns a human-readable text about the command's end. Call it after Done.
func (g *Group) Exit() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.killed && !g.cmd.ProcessState.Exited() {
		return Stopped
	}
	return exitText(g.cmd.ProcessState, g.oomAtStart, g.oomAtEnd)
}

// KilledText returns the human-readable cause of a SIGKILL that ended a container while the command followed it,
// by the counters of the machine: the container isn't in the command's control group. Call it after Done.
func (g *Group) KilledText() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return killedText(oomKills{-1, g.oomAtStart.machine}, oomKills{-1, g.oomAtEnd.machine})
}

// killedText returns the human-readable cause of a SIGKILL that the jobrunner didn't send. It
// compares the kernel's counters before the start and after the end.
func killedText(before, after oomKills) string {
	switch {
	case before.cgroup >= 0 && after.cgroup > before.cgroup:
		return "SIGKILL: the kernel ended it, out of memory (its memory limit or the machine's)"
	case before.machine >= 0 && after.machine > before.machine:
		return "SIGKILL, probably from the kernel: it killed processes for lack of memory meanwhile"
	case before.machine >= 0 && after.machine >= 0:
		return "SIGKILL, neither from the jobrunner nor for lack of memory"
	}
	return "SIGKILL, not from the jobrunner: often because the machine is out of memory"
}

// Usage returns the resource usage of the group. After its end the memory is 0.
func (g *Group) Usage() Usage {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.reaped {
		g.used.Measure(g.cmd.Process.Pid)
	}
	return g.used
}

// Measure updates the usage of a process, its group and their descendants. The CPU time of ended children may be
// lost, but the total never falls.
func (u *Usage) Measure(pid int) {
	now := usageOf(pid)
	*u = Usage{CPU: max(u.CPU, now.CPU), Memory: now.Memory}
}

// Limits for reading the pipes after a group's end. A child that survived may hold them open.
const (
	lingerTime  = time.Second
	lingerBytes = 1 << 20 // the capacity of a pipe
)

// output copies a command's output to its writer.
type output struct {
	pipe   *os.File
	writer io.Writer
	ended  atomic.Bool // the group is gone
}

func (o *output) copy() {
	defer o.pipe.Close()
	buffer := make([]byte, 32<<10)
	for lateBytes := 0; lateBytes < lingerBytes; {
		ended := o.ended.Load()
		if ended {
			_ = o.pipe.SetReadDeadline(time.Now().Add(lingerTime))
		}
		n, err := o.pipe.Read(buffer)
		if ended {
			lateBytes += n
		}
		if n > 0 {
			if _, err := o.writer.Write(buffer[:n]); err != nil {
				return
			}
		}
		// If ended is false, a time-out means that the group ended during this read. The next read gets the rest.
		if err != nil && (ended || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return
		}
	}
}
