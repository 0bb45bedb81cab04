// Command clis is `make clis`: it builds the releases of Terraform and
// OpenTofu that the acceptance tests run on into the user's cache. With
// --find it prints where one is, and builds nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

func main() {
	find := flag.String("find", "", "print the path of `terraform or tofu`, of at least the version that make clis builds")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if *find != "" {
		err = printPath(ctx, *find)
	} else {
		err = build(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "clis:", err)
		os.Exit(1)
	}
}

func build(ctx context.Context) error {
	for _, r := range tfcli.Releases {
		path, err := r.Path()
		if err != nil {
			return err
		}
		if _, err := os.Stat(path); err == nil {
			fmt.Printf("%s is present: %s\n", r, path)
			continue
		}
		fmt.Printf("%s: building, some minutes ...\n", r)
		started := time.Now()
		if err := r.Build(ctx); err != nil {
			return err
		}
		c, err := tfcli.Inspect(ctx, path)
		if err != nil {
			return err
		}
		fmt.Printf("%s is built, %.0f s: %s\n", c, time.Since(started).Seconds(), path)
	}
	return nil
}

// printPath prints nothing but a line on the standard error where the release
// is absent, so that a caller can skip what needs it.
func printPath(ctx context.Context, name string) error {
	i := slices.IndexFunc(tfcli.Releases, func(r tfcli.Release) bool { return r.Name == name })
	if i < 0 {
		return fmt.Errorf("invalid name %q: expected terraform or tofu", name)
	}
	c, ok := tfcli.Releases[i].Find(ctx)
	if !ok {
		fmt.Fprintln(os.Stderr, tfcli.Releases[i].Absent())
		return nil
	}
	fmt.Println(c.Path)
	return nil
}
