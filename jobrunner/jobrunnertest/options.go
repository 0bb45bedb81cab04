package jobrunnertest

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/host"
)

// Option is a setting of a deployment.
type Option func(*settings)

type settings struct {
	config     jobrunner.Config
	gpus       string
	configFile string
	handlers   []host.Handler
	files      []fileHandler
	middleware []func(http.Handler) http.Handler
	showLogs   bool
}

// ConfigFile reads rules for images from a jobrunner.yaml: each rule runs its images as processes,
// commands or containers on this machine. Only the program jobrunner supports Kubernetes.
func ConfigFile(path string) Option { return func(s *settings) { s.configFile = path } }

// Catalog sets the catalog file: data centers, GPU types, prices and stock.
func Catalog(path string) Option { return func(s *settings) { s.config.Catalog = path } }

// SimulateGPUs gives workers the simulated GPUs of a preset, such as h200x8 or l4x2, or of a file.
// Without it, the workers of endpoints with GPUs run on the CPU.
func SimulateGPUs(preset string) Option { return func(s *settings) { s.gpus = preset } }

// HandleFile makes a file run the jobs of an image, like jobrunner dev: a Python file that imports the
// public SDK is a worker; any other program is started once per job, with the input on stdin. The
// image is a pattern, such as team/worker or team/**. The interpreter is the command for Python files;
// the default is python3.
func HandleFile(image, file string, interpreter ...string) Option {
	return func(s *settings) { s.files = append(s.files, fileHandler{image, file, interpreter}) }
}

type fileHandler struct {
	image, file string
	interpreter []string
}

// Data keeps the state in a folder. A later deployment with the same folder and [Key] continues with it.
func Data(dir string) Option { return func(s *settings) { s.config.DataDir = dir } }

// Key sets the deployment's API key. Without this option, it is random.
func Key(key string) Option { return func(s *settings) { s.config.APIKey = key } }

// NoLimits switches off the limits of the job API on rates, open requests and the length of a queue.
func NoLimits() Option { return func(s *settings) { s.config.NoJobLimits = true } }

// ManagementLimits enforces the rate limits of the management API, which then answers 429.
func ManagementLimits() Option { return func(s *settings) { s.config.ManagementLimits = true } }

// Logs shows the logs of the deployment and its workers in the log of the test.
func Logs() Option { return func(s *settings) { s.showLogs = true } }

// Middleware wraps the deployment's handler, for example to count requests, or to lose and delay
// answers. The last option's handler gets requests first.
func Middleware(wrap func(http.Handler) http.Handler) Option {
	return func(s *settings) { s.middleware = append(s.middleware, wrap) }
}

// Configure changes any other setting. Such settings may change with a release of this module.
func Configure(change func(*jobrunner.Config)) Option {
	return func(s *settings) { change(&s.config) }
}

// openPrograms sets up the programs of images that aren't built in.
func (s *settings) openPrograms(ctx context.Context, t testing.TB, c *jobrunner.Config) error {
	// Without rules, the container engines of the machine aren't probed.
	config := host.Config{Handlers: slices.Clone(s.handlers), File: s.configFile, NoContainers: s.configFile == "", Logger: c.Logger}
	for _, f := range s.files {
		h, err := host.NewHandler(f.image, f.file, f.interpreter...)
		if err != nil {
			return err
		}
		config.Handlers = append(config.Handlers, h)
	}
	if config.File == "" && len(config.Handlers) == 0 {
		return nil
	}
	e, err := host.New(ctx, config)
	if err != nil {
		return err
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("closing the jobrunner: %s", err)
		}
	})
	c.Programs, c.Pods = e, e
	return nil
}
