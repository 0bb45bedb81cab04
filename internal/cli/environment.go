package cli

import (
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// EmptyIsUnset unsets empty variables GPUCLOUD_* before flags read them. kong would use an empty
// variable as a value, but the provider and scripts treat it as unset.
func EmptyIsUnset() kong.Option {
	return kong.WithBeforeReset(func() error {
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
