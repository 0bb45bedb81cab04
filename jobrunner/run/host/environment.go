package host

import (
	"os"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// inheritedVariables are the jobrunner's own variables that a local command sees. What
// else the jobrunner was started with, keys among it, is none of its business;
// a rule's inherit adds to these.
var inheritedVariables = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
	"LD_LIBRARY_PATH", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES",
}

// Variables that a local command has beside those of the worker protocol.
const (
	visibleDevices = "CUDA_VISIBLE_DEVICES" // of this worker; empty: none
	volumeVariable = "GPUCLOUD_VOLUME"      // the folder of the network volume, which a container sees at its path
	jobVariable    = "GPUCLOUD_JOB_ID"      // command alone
)

// reservedNames are set for each worker, and by nobody else.
var reservedNames = []string{
	"RUNPOD_AI_API_KEY", "RUNPOD_POD_ID", "RUNPOD_ENDPOINT_ID", "RUNPOD_PING_INTERVAL", "PORT", "PORT_HEALTH",
	visibleDevices, volumeVariable, jobVariable, procgroup.MarkVariable,
}

const reservedStart = "RUNPOD_WEBHOOK_"

func reserved(name string) bool {
	return strings.HasPrefix(name, reservedStart) || slices.Contains(reservedNames, name)
}

// environment is that of a local command. Later ones win: what the jobrunner
// passes on, the template's and the worker protocol's, the rule's.
func (l *localSettings) environment(s worker.Spec, more ...string) []string {
	env := []string{"PYTHONUNBUFFERED=1"} // so that a log shows what happens when it happens
	for _, name := range inheritedVariables {
		env = inherit(env, name)
	}
	for _, name := range l.Inherit {
		env = inherit(env, name.Value)
	}
	for name, value := range s.Env {
		env = append(env, name+"="+value)
	}
	for name, value := range l.Env {
		env = append(env, name+"="+value.Value)
	}
	// No template gives its workers the GPUs of others.
	env = append(env, visibleDevices+"="+strings.Join(uuids(s), ","))
	if len(s.Mounts) > 0 {
		env = append(env, volumeVariable+"="+s.Mounts[0].Dir)
	}
	return append(env, more...)
}

func inherit(env []string, name string) []string {
	if value, ok := os.LookupEnv(name); ok {
		env = append(env, name+"="+value)
	}
	return env
}

func uuids(s worker.Spec) (all []string) {
	for _, d := range s.Devices {
		all = append(all, d.UUID)
	}
	return all
}
