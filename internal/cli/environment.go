package cli

import (
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// UnsetEmptyVariables unsets empty variables GPUCLOUD_* before flags read them. kong would use an empty
// variable as a value. The provider and scripts treat it as unset, too.
func UnsetEmptyVariables() kong.Option {
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
