package main

import (
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/clitest"
)

// Each command shows how it is used, and each example is accepted.
func TestHelp(t *testing.T) { clitest.Check(t, newParser) }
