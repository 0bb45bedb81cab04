//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

// session is a reader of the first guide, whose jobrunner runs.
type session struct {
	dir     string // with the files of the guide
	env     []string
	cli     tfcli.CLI
	url     string
	pageURL string // signs a browser in
	runner  *exec.Cmd
}

// guideFile is a block of the guide whose first line names its file.
var guideFile = regexp.MustCompile("(?ms)^```(?:python|terraform|yaml)\n# ([a-z.]+)\n(.*?)^```$")

func newSession(ctx context.Context, root, bin string) (_ *session, err error) {
	s := new(session)
	if s.dir, err = os.MkdirTemp("", "gpucloud-pictures-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if bin, err = filepath.Abs(bin); err != nil {
		return nil, err
	}
	if s.cli, err = tfcli.Default(ctx); err != nil {
		return nil, err
	}
	guide, err := os.ReadFile(filepath.Join(root, "docs", "guides", "first-endpoint.md"))
	if err != nil {
		return nil, err
	}
	for _, file := range guideFile.FindAllSubmatch(guide, -1) {
		if err := os.WriteFile(filepath.Join(s.dir, string(file[1])), file[2], 0o600); err != nil {
			return nil, err
		}
	}
	settings, err := s.install(bin)
	if err != nil {
		return nil, err
	}
	s.env = []string{
		"HOME=" + s.dir, "PATH=" + filepath.Dir(s.cli.Path) + ":" + bin + ":" + os.Getenv("PATH"), "TERM=xterm-256color", "LANG=C.UTF-8",
		"TF_CLI_CONFIG_FILE=" + settings, "CHECKPOINT_DISABLE=1",
	}
	return s, s.serve(ctx, filepath.Join(bin, "jobrunner"))
}

// install puts the provider where Terraform installs it from, and returns its settings.
func (s *session) install(bin string) (settings string, err error) {
	const name = "terraform-provider-gpucloud"
	mirror, settings := filepath.Join(s.dir, ".mirror"), filepath.Join(s.dir, ".terraformrc")
	for _, host := range []string{"registry.terraform.io", "registry.opentofu.org"} {
		folder := filepath.Join(mirror, host, "gpucloud", "gpucloud", "1.0.0", runtime.GOOS+"_"+runtime.GOARCH)
		if err := errors.Join(os.MkdirAll(folder, 0o700), os.Symlink(filepath.Join(bin, name), filepath.Join(folder, name))); err != nil {
			return "", err
		}
	}
	text := fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror)
	return settings, os.WriteFile(settings, []byte(text), 0o600)
}

// serve starts the jobrunner and reads what it prints.
func (s *session) serve(ctx context.Context, program string) error {
	s.runner = exec.CommandContext(ctx, program, "serve", "--ephemeral", "--config", "jobrunner.yaml", "--listen", "127.0.0.1:0", "--simulate-gpus", "h200x8")
	s.runner.Dir, s.runner.Env = s.dir, s.env
	out, err := s.runner.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.runner.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := lines.Text()
		if value, ok := strings.CutPrefix(line, "export "); ok {
			s.env = append(s.env, value)
			if address, ok := strings.CutPrefix(value, "GPUCLOUD_BASE_URL="); ok {
				s.url = address
			}
		}
		if _, address, ok := strings.Cut(line, "within the hour: "); ok {
			s.pageURL = address
		}
		if strings.HasPrefix(line, "Next:") {
			return nil
		}
	}
	return errors.Join(errors.New("the jobrunner did not start"), s.runner.Wait())
}

func (s *session) close() (err error) {
	if s.runner != nil && s.runner.Process != nil {
		err = errors.Join(s.runner.Process.Signal(os.Interrupt), s.runner.Wait())
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
