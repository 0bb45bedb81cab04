package cli

import (
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// CheckInput rejects arguments that aren't UTF-8, which kong would change silently, and unsets empty variables
// GPUCLOUD_*, which kong would use as values. The provider and scripts treat them as unset, too.
func CheckInput() kong.Option {
	return kong.WithBeforeReset(func(ctx *kong.Context) error {
		for _, argument := range ctx.Args {
			if !utf8.ValidString(argument) {
				return fmt.Errorf("invalid argument %q: expected UTF-8", argument)
			}
		}
		for _, variable := range os.Environ() {
			name, value, _ := strings.Cut(variable, "=")
			if strings.HasPrefix(name, "GPUCLOUD_") && value == "" {
				if err := os.Unsetenv(name); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
