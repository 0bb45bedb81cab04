package host

import (
	"os"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
)

// inheritedVariables are the jobrunner's variables that a local command sees. A rule can
// add others (inherit). The rest, such as keys, stays hidden.
var inheritedVariables = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
	"LD_LIBRARY_PATH", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES",
}

// Variables of a local command, in addition to the worker protocol's.
const (
	visibleDevices = "CUDA_VISIBLE_DEVICES" // GPUs of this worker; empty for none
	volumeVariable = "GPUCLOUD_VOLUME"      // folder of the network volume
	jobVariable    = "GPUCLOUD_JOB_ID"      // only of a command per job
)

// reservedNames are variables that only the jobrunner sets.
var reservedNames = []string{
	"RUNPOD_AI_API_KEY", "RUNPOD_POD_ID", "RUNPOD_ENDPOINT_ID", "RUNPOD_PING_INTERVAL", "PORT", "PORT_HEALTH",
	visibleDevices, volumeVariable, jobVariable, procgroup.MarkVariable,
}

// reservedPrefix begins the names of the worker protocol's URLs.
const reservedPrefix = "RUNPOD_WEBHOOK_"

func isReserved(name string) bool {
	return strings.HasPrefix(name, reservedPrefix) || slices.Contains(reservedNames, name)
}

// environment returns the variables of a local command: inherited ones, then the template's
// and the worker protocol's, then the rule's. The last of several duplicates wins.
func (l *localSettings) environment(s run.Spec, more ...string) []string {
	env := []string{"PYTHONUNBUFFERED=1"} // so that lines aren't delayed
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
	// A template can't give its workers the GPUs of others.
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

func uuids(s run.Spec) (all []string) {
	for _, d := range s.Devices {
		all = append(all, d.UUID)
	}
	return all
}
