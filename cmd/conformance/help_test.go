package main

import (
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/clitest"
)

// Each command has a help text, and its examples can be parsed.
func TestHelp(t *testing.T) { clitest.Check(t, newParser) }
