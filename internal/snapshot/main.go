// Command snapshot is `make snapshot`: it makes everything of a release but publishes
// nothing. What it needs of goreleaser it builds once, from tools/release.
//
// With -platforms it makes the archives of these platforms, and checks the sources for all
// others as a compiler's front end does: without generating code and without linking, which
// takes a small part of the processor time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "snapshot:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("snapshot", flag.ContinueOnError)
	names := flags.String("platforms", "", "platforms to make archives for, separated by commas, such as linux/amd64; here is this one's. Default: all")
	checkOnly := flags.Bool("check", false, "make no archives, and check the sources for all platforms")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var chosen []string
	for name := range strings.FieldsFuncSeq(*names, func(r rune) bool { return r == ',' }) {
		if name == "here" {
			name = runtime.GOOS + "/" + runtime.GOARCH
		}
		chosen = append(chosen, strings.ReplaceAll(name, "/", "_"))
	}
	c, err := readConfig(".goreleaser.yaml")
	if err != nil {
		return err
	}
	var problems []error
	if len(chosen) > 0 || *checkOnly {
		problems = append(problems, checkSources(ctx, c, chosen))
	}
	if !*checkOnly {
		problems = append(problems, makeArchives(ctx, c, chosen))
	}
	return errors.Join(problems...)
}

// makeArchives runs goreleaser. It says what this machine can't make.
func makeArchives(ctx context.Context, c config, platforms []string) error {
	path := ".goreleaser.yaml"
	if len(platforms) > 0 {
		path = "bin/goreleaser.yaml"
		if err := c.write(path, platforms); err != nil {
			return err
		}
	}
	program, err := goreleaser(ctx)
	if err != nil {
		return err
	}
	env := append(os.Environ(), compilers()...)
	if out, err := exec.CommandContext(ctx, "git", "remote").Output(); err == nil && len(out) == 0 {
		// Without a remote goreleaser names neither version nor commit. It does not connect.
		env = append(env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=remote.origin.url", "GIT_CONFIG_VALUE_0=https://github.com/gpucloud/terraform-provider-gpucloud")
	}
	var skip []string
	if _, err := exec.LookPath("syft"); err != nil {
		fmt.Println("Skipped: lists of what the archives consist of (SBOM), because syft is not installed. The release workflow makes them.")
		skip = append(skip, "sbom")
	}
	if _, err := exec.LookPath("gpg"); err != nil {
		fmt.Println("Skipped: the signature, because gpg is not installed. The release workflow makes it.")
		skip = append(skip, "sign")
	} else {
		key, err := newKey(ctx)
		if err != nil {
			return err
		}
		defer key.remove()
		env = append(env, "GNUPGHOME="+key.home, "GPG_FINGERPRINT="+key.fingerprint)
	}
	cmd := exec.CommandContext(ctx, program, "release", "--snapshot", "--clean", "--config="+path, "--skip="+strings.Join(skip, ",")) //nolint:gosec // the program is ours
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env, cmd.Stdout, cmd.Stderr = env, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("goreleaser: %w", err)
	}
	return nil
}

// goreleaser is the program of tools/release, which the go command keeps in its cache.
func goreleaser(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "-C", "tools/release", "tool", "-n", "goreleaser")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("building goreleaser: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// compilers are variables that name the C compilers for Linux, where there are any. Without
// one the jobrunner of that platform is built without GPUs.
func compilers() (env []string) {
	candidates := map[string][]string{
		"amd64": {"x86_64-linux-gnu-gcc"},
		"arm64": {"aarch64-linux-gnu-gcc"},
	}
	if runtime.GOOS == "linux" {
		candidates[runtime.GOARCH] = append(candidates[runtime.GOARCH], "gcc", "cc")
	}
	for _, arch := range []string{"amd64", "arm64"} {
		variable := "CC_" + strings.ToUpper(arch)
		i := slices.IndexFunc(candidates[arch], func(name string) bool {
			_, err := exec.LookPath(name)
			return err == nil
		})
		switch {
		case os.Getenv(variable) != "":
		case i >= 0:
			env = append(env, variable+"="+candidates[arch][i])
		default:
			fmt.Printf("The jobrunner for linux/%s is built without GPUs, because no C compiler for it is installed. The release workflow has one.\n", arch)
		}
	}
	return env
}
