package main

import (
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/clihelp"
)

// Each command shows how it is used, and each example is accepted.
func TestHelp(t *testing.T) { clihelp.Check(t, newParser) }
