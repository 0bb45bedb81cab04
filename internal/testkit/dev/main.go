// Command dev has the Makefile's own commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/containers"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

const usage = `usage: go run ./internal/testkit/dev COMMAND
  clis           build OpenTofu and a newer Terraform into the user's cache
  cli [NAME]     print the path of the CLI that tests use, or of a built terraform or tofu
  kubernetes     build the programs of a Kubernetes cluster into the user's cache
  openapi        print the jobrunner's OpenAPI document of API v2
  schema         print all schemas as terraform providers schema -json does`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dev:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch args = append(args, "", ""); args[0] {
	case "clis":
		return buildCLIs(ctx)
	case "cli":
		return printPath(ctx, args[1])
	case "kubernetes":
		fmt.Println("Building missing programs of Kubernetes, some minutes ...")
		folder, err := containers.BuildKubernetes(ctx)
		if err == nil {
			fmt.Println("Kubernetes is present:", folder)
		}
		return err
	case "openapi":
		return printOpenAPI(ctx)
	case "schema":
		return printSchema(ctx)
	}
	return errors.New(usage)
}

// buildCLIs builds the releases of Terraform and OpenTofu for the acceptance tests into the user's cache.
func buildCLIs(ctx context.Context) error {
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

// printPath prints the path of a release. Without a name, it prints the path of the tests' CLI. If the
// release is absent, it prints only a line to standard error, so that a caller can skip its work.
func printPath(ctx context.Context, name string) error {
	if name == "" {
		path, err := tfcli.Find(ctx)
		if err == nil {
			fmt.Println(path)
		}
		return err
	}
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
