package jobrunnertest

import (
	"net/http"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/host"
)

// Option is a setting of a deployment.
type Option func(*settings)

type settings struct {
	config     jobrunner.Config
	gpus       string
	configFile string
	handlers   []goHandler
	files      []fileHandler
	middleware []func(http.Handler) http.Handler
	showLogs   bool
}

// ConfigFile has the rules of a jobrunner.yaml say what runs an image: processes,
// commands or containers of this machine. Kubernetes is for the program jobrunner.
func ConfigFile(path string) Option { return func(s *settings) { s.configFile = path } }

// Catalog is the file of what the deployment offers: data centers, GPU types, prices,
// stock.
func Catalog(path string) Option { return func(s *settings) { s.config.Catalog = path } }

// SimulateGPUs gives workers simulated GPUs: those of a preset such as h200x8 or l4x2, or
// of a file. Without it endpoints with GPUs can be created, and their jobs wait.
func SimulateGPUs(preset string) Option { return func(s *settings) { s.gpus = preset } }

// HandleFile has a file run the jobs of an image, as jobrunner dev does: a Python file
// that imports the public SDK is a worker, any other program is started once per job, with
// the input on stdin. The image is a pattern, such as team/worker or team/**. The
// interpreter is the command that runs a Python file; without one it is python3.
func HandleFile(image, file string, interpreter ...string) Option {
	return func(s *settings) { s.files = append(s.files, fileHandler{image, file, interpreter}) }
}

type fileHandler struct {
	image, file string
	interpreter []string
}

// Data keeps the state in a folder: a deployment that is started on it after this one has
// it. Together with [Key] clients need not notice.
func Data(dir string) Option { return func(s *settings) { s.config.DataDir = dir } }

// Key is the deployment's API key; without this option it is random.
func Key(key string) Option { return func(s *settings) { s.config.APIKey = key } }

// NoLimits switches off the limits of the job API on rates, open requests and the length of
// a queue.
func NoLimits() Option { return func(s *settings) { s.config.NoJobLimits = true } }

// ManagementLimits has the management API answer 429 beyond its rate limits.
func ManagementLimits() Option { return func(s *settings) { s.config.ManagementLimits = true } }

// Logs shows the deployment's log, and what workers print, in the log of the test.
func Logs() Option { return func(s *settings) { s.showLogs = true } }

// Middleware puts a handler around the deployment's, to count requests, or to lose and delay
// answers. The one of the last option sees a request first.
func Middleware(wrap func(http.Handler) http.Handler) Option {
	return func(s *settings) { s.middleware = append(s.middleware, wrap) }
}

// Configure changes any other setting. Those that no other option has may change with a
// release of this module.
func Configure(change func(*jobrunner.Config)) Option {
	return func(s *settings) { change(&s.config) }
}

// executorConfig is that of the executor, which only images of files and rules need: it
// looks for the container engines of the machine where a file does not exclude them.
func (s *settings) executorConfig() (c host.Config, needed bool, err error) {
	for _, f := range s.files {
		h, err := host.NewHandler(f.image, f.file, f.interpreter...)
		if err != nil {
			return c, false, err
		}
		c.Handlers = append(c.Handlers, h)
	}
	c.File, c.NoContainers = s.configFile, s.configFile == ""
	return c, s.configFile != "" || len(c.Handlers) > 0, nil
}
