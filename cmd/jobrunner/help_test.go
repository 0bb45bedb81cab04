package main

import (
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/clitest"
)

// Each command has a help, and accepts each of its examples.
func TestHelp(t *testing.T) { clitest.Check(t, newParser) }
