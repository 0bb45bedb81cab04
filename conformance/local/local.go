// Package local starts a jobrunner on a free port, with a clock that the suite advances.
package local

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

type Config struct {
	// Binary is the jobrunner's path. If empty, it is looked up beside this program, then on PATH.
	Binary string
	// Env are additional environment variables, NAME=value.
	Env []string
	// Args are additional arguments of jobrunner serve.
	Args []string
	// OneKey leaves out the target's UserKey and OtherKey: creating each takes a process.
	OneKey bool
	// Disk keeps the deployment's data in files. Requests that change a job then take long enough
	// to be concurrent. In memory the suite is faster.
	Disk bool
	// RealClock uses the real-time clock, which can't be advanced.
	RealClock bool
}

type Deployment struct {
	Target env.Target

	dir     string
	process *exec.Cmd
	ended   chan struct{}
}

// catalog prices what the suite creates, so that bills aren't all 0.
const catalog = "cpus: [{id: cpu3c, price: {serverless: 0.0317}}]\nstorage: {standard: 0.07, high_performance: 0.14, disk: 0.1}\nfees: {serverless: 0.011}\n"

// stopWithStdin makes the jobrunner stop when its stdin ends. The system closes the pipe when this
// program ends, even if it is killed. An older jobrunner ignores the variable.
const stopWithStdin = "GPUCLOUD_STOP_WITH_STDIN=1"

// startTimeout bounds how long a start may take.
const startTimeout = 20 * time.Second

// Start starts a jobrunner and waits until it listens. The caller stops it.
func Start(ctx context.Context, c Config) (*Deployment, error) {
	binary, err := findBinary(c.Binary)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return nil, err
	}
	d := &Deployment{dir: dir, ended: make(chan struct{})}
	d.Target = env.Target{Local: true, Key: rand.Text()}
	if err := d.start(ctx, binary, c); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return d, nil
}

func findBinary(path string) (string, error) {
	if path != "" {
		return path, nil
	}
	if self, err := os.Executable(); err == nil {
		neighbour := filepath.Join(filepath.Dir(self), "jobrunner"+filepath.Ext(self))
		if info, err := os.Stat(neighbour); err == nil && info.Mode().IsRegular() {
			return neighbour, nil
		}
	}
	found, err := exec.LookPath("jobrunner")
	if err != nil {
		return "", errors.New("can't find the program jobrunner beside this program or on PATH: name its file with --jobrunner, or install it with go install github.com/gpucloud/terraform-provider-gpucloud/cmd/jobrunner@latest")
	}
	return found, nil
}

func (d *Deployment) addKey(ctx context.Context, binary string, environment []string, args ...string) (key string, err error) {
	cmd := exec.CommandContext(ctx, binary, append([]string{"keys", "add", "--data=" + d.dir}, args...)...)
	var stderr strings.Builder
	cmd.Env, cmd.Stderr = environment, &stderr
	out, err := cmd.Output()
	if key = strings.TrimSpace(string(out)); err == nil && key == "" {
		err = errors.New("it printed no key")
	}
	if err != nil {
		return "", fmt.Errorf("creating a key with %s (is it the jobrunner?): %w %s", binary, err, strings.TrimSpace(stderr.String()))
	}
	return key, nil
}

func (c Config) serveArguments(dir string) []string {
	args := []string{"serve", "--listen=127.0.0.1:0", "--gpus=off"}
	if c.Disk {
		args = append(args, "--data="+dir)
	} else {
		args = append(args, "--ephemeral", "--keys="+dir)
	}
	if !c.RealClock {
		args = append(args, "--clock=admin")
	}
	return append(args, c.Args...)
}

func (d *Deployment) start(ctx context.Context, binary string, c Config) error {
	environment := append(os.Environ(), c.Env...)
	prices := filepath.Join(d.dir, "catalog.yaml")
	if err := os.WriteFile(prices, []byte(catalog), 0o600); err != nil {
		return err
	}
	// The jobrunner's files are in d.dir, which Stop removes. With an empty PATH it doesn't look for
	// container engines, which would dominate its start: the suite uses built-in images.
	environment = append(environment, "PATH=", "HOME="+d.dir, "XDG_CACHE_HOME=", "TMPDIR="+d.dir, "GPUCLOUD_API_KEY="+d.Target.Key, "GPUCLOUD_ENGINE=", "GPUCLOUD_CATALOG="+prices)
	if !c.OneKey {
		var err error
		if d.Target.UserKey, err = d.addKey(ctx, binary, environment, "user"); err != nil {
			return err
		}
		if d.Target.OtherKey, err = d.addKey(ctx, binary, environment, "other", "--endpoint=nothingofour"); err != nil {
			return err
		}
	}
	// Stop ends the jobrunner, not ctx: the suite deletes its objects after ctx is cancelled.
	d.process = exec.CommandContext(context.WithoutCancel(ctx), binary, c.serveArguments(d.dir)...)
	stderr, err := os.Create(filepath.Join(d.dir, "stderr"))
	if err != nil {
		return err
	}
	defer stderr.Close()
	d.process.Env, d.process.Stderr = append(environment, stopWithStdin), stderr
	if _, err = d.process.StdinPipe(); err != nil {
		return err
	}
	out, err := d.process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := d.process.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", binary, err)
	}
	url := make(chan string, 1)
	go d.follow(out, url)
	select {
	case u, ok := <-url:
		if ok {
			d.Target.BaseURL = u
			if c.RealClock {
				return nil
			}
			d.Target.Advance = Advance(u, d.Target.Key)
			// The clock of an older jobrunner can't be stopped.
			_, err := postClock(ctx, &http.Client{}, u, d.Target.Key, `{"stop":true}`)
			d.Target.ClockStopped = err == nil
			return nil
		}
	case <-time.After(startTimeout):
	case <-ctx.Done():
	}
	d.kill()
	reason, err := os.ReadFile(stderr.Name())
	return errors.Join(fmt.Errorf("%s did not start: %s", binary, bytes.TrimSpace(reason)), ctx.Err(), err)
}

// follow sends the address that the jobrunner prints, drains its output and waits for its end.
func (d *Deployment) follow(out io.Reader, url chan<- string) {
	defer close(d.ended)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if u, ok := strings.CutPrefix(lines.Text(), "export GPUCLOUD_BASE_URL="); ok {
			url <- u
			break
		}
	}
	close(url)
	_, _ = io.Copy(io.Discard, out)
	_ = d.process.Wait() // stderr has the reason
}

// Advance returns a function that advances the clock of a jobrunner with --clock=admin, by up to eight days.
func Advance(url, key string) func(context.Context, time.Duration) (time.Time, error) {
	client := &http.Client{}
	return func(ctx context.Context, d time.Duration) (time.Time, error) {
		ms := max((d + time.Millisecond - 1).Milliseconds(), 1)
		return postClock(ctx, client, url, key, fmt.Sprintf(`{"advance":%d}`, ms))
	}
}

func postClock(ctx context.Context, client *http.Client, url, key, body string) (time.Time, error) {
	x := wire.Do(ctx, client, wire.NewRequest(http.MethodPost, url+"/clock", key, body), time.Now)
	var answer struct{ Now time.Time }
	if x.Err == nil && (x.Status != http.StatusOK || json.Unmarshal(x.Body, &answer) != nil) {
		x.Err = fmt.Errorf("POST /clock returned %d %s", x.Status, x.Body)
	}
	return answer.Now, x.Err
}

// Stop kills the jobrunner and removes its files.
func (d *Deployment) Stop() error {
	d.kill()
	return os.RemoveAll(d.dir)
}

func (d *Deployment) kill() {
	_ = d.process.Process.Kill() // an error says that it has already exited
	<-d.ended
}
