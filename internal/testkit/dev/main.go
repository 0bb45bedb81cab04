// Command dev has the Makefile's own commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/containers"
)

const usage = `usage: go run ./internal/testkit/dev COMMAND
  clis           build OpenTofu and a newer Terraform into the user's cache
  cli [NAME]     print the path of the CLI that tests use, or of a built terraform or tofu
  kubernetes     build the programs of a Kubernetes cluster into the user's cache
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
	case "schema":
		return printSchema(ctx)
	}
	return errors.New(usage)
}
