package host

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// Labels of containers and networks. An object with folderLabel outlives a jobrunner that is killed, and the next
// start finds it. An object with runLabel belongs to one run: if that run is killed, the next start removes it.
const (
	runLabel           = "gpucloud.run"
	folderLabel        = "gpucloud.deployment" // Spec.FolderID
	endpointLabel      = "gpucloud.endpoint"
	workerLabel        = "gpucloud.worker"
	podLabel           = "gpucloud.pod"
	podGenerationLabel = "gpucloud.pod.run" // Pod.Run: which start of the pod it is
)

// Networks that have a meaning to the engines.
const (
	hostNetwork = "host" // the network of this machine: on Linux, containers reach a deployment on the loopback
	noNetwork   = "none"
)

// The names of this machine in a container with a network of its own.
const (
	dockerHost = "host.docker.internal"
	podmanHost = "host.containers.internal"
)

type containerSpec struct {
	*containerSettings
	run.Spec
	name   string
	runID  string // of this run of the jobrunner
	podman bool
	system string // GOOS
}

// args returns the engine's arguments, without secrets: the variables are in a file of the
// folder, or in env if a file can't hold them.
func (c containerSpec) args(folder string) (args, env []string, err error) {
	args = []string{"create", "--pull", "never", "--name", c.name}
	for _, label := range c.labels() {
		args = append(args, "--label", label)
	}
	if c.Pod == nil { // The engine's log would only fill the disk. Without --stop-timeout, Podman's removal waits ten seconds.
		args = append(args, "--log-driver", "none", "--stop-timeout", "0")
	}
	args, env, err = c.appendEnvironment(args, folder)
	if err != nil {
		return nil, nil, err
	}
	args = c.appendNetwork(args)
	args = append(args, c.devices()...)
	for _, m := range c.Mounts {
		mount, err := csvLine("type=bind", "source="+m.Dir, "target="+m.Path)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, "--mount", mount)
	}
	if c.DiskLimit && c.Disk > 0 {
		args = append(args, "--storage-opt", fmt.Sprintf("size=%dG", c.Disk))
	}
	for _, option := range c.Options {
		args = append(args, option.Value)
	}
	command, err := c.Command()
	if err != nil {
		return nil, nil, err
	}
	words := command.Words()
	if len(command.Entrypoint) > 0 { // the option takes only the first word
		args, words = append(args, "--entrypoint", words[0]), words[1:]
	}
	return append(append(args, c.Image), words...), env, nil
}

func (c containerSpec) labels() (labels []string) {
	if c.Pod == nil {
		labels = []string{endpointLabel + "=" + c.Endpoint, workerLabel + "=" + c.ID}
	} else {
		labels = []string{podLabel + "=" + c.ID, podGenerationLabel + "=" + strconv.FormatInt(c.Pod.Run, 10)}
	}
	return append(labels, ownerLabel(c.FolderID(), c.runID))
}

// ownerLabel returns the label with the id of the data folder, or with the id of the run if folderID is "".
func ownerLabel(folderID, runID string) string {
	if folderID != "" {
		return folderLabel + "=" + folderID
	}
	return runLabel + "=" + runID
}

// network returns the network of the container; "" is the engine's default.
func (c containerSpec) network() string {
	switch {
	case c.Pod != nil && c.Pod.IP != "" && c.Pod.Network != "": // a member of a cluster is in the cluster's network
		return c.Pod.Network
	case c.Network.Value != "":
		return c.Network.Value
	case c.Pod != nil:
		return c.Pod.Network
	case c.system == "linux":
		return hostNetwork
	}
	return "" // engines of other systems run in a virtual machine
}

// appendEnvironment writes the variables to a file in the folder, and appends the options for them.
// inherited are the variables that don't fit into a file: the engine gets them in its own environment and passes them on.
func (c containerSpec) appendEnvironment(args []string, folder string) (_, inherited []string, err error) {
	if err := c.CheckVariables(); err != nil {
		return nil, nil, err
	}
	vars := make(map[string]string, len(c.Env)+1)
	for name, value := range c.Env {
		vars[name] = value
		if c.network() != hostNetwork && strings.HasPrefix(name, reservedPrefix) {
			vars[name] = c.urlInContainer(value)
		}
	}
	if len(c.Devices) == 0 {
		vars["NVIDIA_VISIBLE_DEVICES"] = "void" // an image may set it to all
	}
	var file strings.Builder
	for name, value := range vars {
		switch {
		case !strings.ContainsAny(value, "\r\n") && len(value) < maxFileLine:
			file.WriteString(name + "=" + value + "\n")
		case engineReads(name):
			return nil, nil, fmt.Errorf("the variable %s can't be given to a container: the engine's CLI would use it itself, and its value doesn't fit into a line of a file", name)
		default:
			inherited = append(inherited, name+"="+value)
			args = append(args, "--env", name)
		}
	}
	path := filepath.Join(folder, "env")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		return nil, nil, fmt.Errorf("the environment of a container: %w", err)
	}
	return append(args, "--env-file", path), inherited, nil
}

// maxFileLine is the longest line that engines read from a file of variables.
const maxFileLine = 60 << 10

// engineReads reports whether a variable could change the behaviour of the engine's CLI, or the code that it loads.
func engineReads(name string) bool {
	return slices.ContainsFunc([]string{
		"DOCKER*", "BUILDKIT*", "COMPOSE*", "CONTAINER*", "PODMAN*", "REGISTRY*", "STORAGE*", "LD_*", "DYLD_*", "GLIBC*", "MALLOC*",
		"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GORACE", "GOROOT", "GOTRACEBACK", "GOCOVERDIR", "XDG_*", "DBUS_*", "SSL*", "HTTP*", "NO_PROXY", "ALL_PROXY", "SSH_A*", "SSH_SK_*", "SSH_PKCS11_*",
		"PATH*", "HOME*", "TMP*", "TEMP*", "LANG", "LANGUAGE", "LC_*", "NOTIFY*", "LISTEN_*",
	}, func(pattern string) bool { return matchVariable(pattern, name) })
}

// appendNetwork lets the container and the deployment reach each other, with ports for this machine only.
func (c containerSpec) appendNetwork(args []string) []string {
	network := c.network()
	if network != "" {
		args = append(args, "--network", network)
	}
	switch {
	case network == hostNetwork:
	case c.Pod != nil:
		args = c.appendPodPorts(args, network)
	default:
		args = c.appendWorkerPorts(args)
	}
	return args
}

func (c containerSpec) appendPodPorts(args []string, network string) []string {
	if p := c.Pod; p.Network != "" {
		if network == p.Network {
			args = append(args, "--network-alias", run.InternalName(c.ID))
		}
		if p.IP != "" {
			args = append(args, "--ip", p.IP)
		}
	}
	for _, port := range c.Pod.Ports {
		if port.Public != 0 {
			args = append(args, "--publish", fmt.Sprintf("%s:%d:%d", run.PublishIP, port.Public, port.Private))
		}
	}
	return args
}

func (c containerSpec) appendWorkerPorts(args []string) []string {
	if !c.podman && c.system == "linux" {
		args = append(args, "--add-host", dockerHost+":host-gateway")
	}
	if c.Port > 0 {
		args = append(args, "--publish", fmt.Sprintf("%s:%d:%d", run.PublishIP, c.Port, c.Port))
	}
	for _, port := range c.Ports {
		number, _, _ := strings.Cut(port, "/")
		if number != strconv.Itoa(c.Port) {
			args = append(args, "--publish", run.PublishIP+"::"+number)
		}
	}
	return args
}

// urlInContainer replaces this machine's loopback in a URL with its name in the container.
func (c containerSpec) urlInContainer(url string) string {
	host := dockerHost
	if c.podman {
		host = podmanHost
	}
	for _, local := range []string{"127.0.0.1", "localhost", "[::1]"} {
		url = strings.Replace(url, "://"+local+":", "://"+host+":", 1)
	}
	return url
}

// devices returns the options that let the container see only its own GPUs.
func (c containerSpec) devices() (args []string) {
	uuids := c.DeviceUUIDs()
	switch {
	case len(uuids) == 0:
		return nil
	case c.podman:
		for _, id := range uuids {
			args = append(args, "--device", "nvidia.com/gpu="+id)
		}
		return args
	}
	return []string{"--gpus", `"device=` + strings.Join(uuids, ",") + `"`} // quoted: the option is a CSV line
}

func csvLine(fields ...string) (string, error) {
	var line strings.Builder
	w := csv.NewWriter(&line)
	if err := w.Write(fields); err != nil {
		return "", err
	}
	w.Flush()
	return strings.TrimSuffix(line.String(), "\n"), w.Error()
}
