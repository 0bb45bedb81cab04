package host

import (
	"fmt"
	"maps"
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
	VolumeVariable = "GPUCLOUD_VOLUME"      // folder of the network volume
	jobVariable    = "GPUCLOUD_JOB_ID"      // only for a command that runs once per job
)

// reservedNames are variables that only the jobrunner sets.
var reservedNames = []string{
	"RUNPOD_AI_API_KEY", "RUNPOD_POD_ID", "RUNPOD_ENDPOINT_ID", "RUNPOD_PING_INTERVAL", "PORT", "PORT_HEALTH",
	visibleDevices, VolumeVariable, jobVariable, procgroup.MarkVariable,
}

// reservedPrefix begins the names of the worker protocol's URLs.
const reservedPrefix = "RUNPOD_WEBHOOK_"

// IsReserved reports whether only the jobrunner sets a variable.
func IsReserved(name string) bool {
	return strings.HasPrefix(name, reservedPrefix) || slices.Contains(reservedNames, name)
}

// environment returns the variables of a local command: inherited ones, then the template's
// and the worker protocol's, then the rule's. The last of several duplicates wins.
func (l *localSettings) environment(s run.Spec, extra ...string) []string {
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
	env = append(env, visibleDevices+"="+strings.Join(s.DeviceUUIDs(), ","))
	if len(s.Mounts) > 0 {
		env = append(env, VolumeVariable+"="+s.Mounts[0].Dir)
	}
	return append(env, extra...)
}

func inherit(env []string, name string) []string {
	if value, ok := os.LookupEnv(name); ok {
		env = append(env, name+"="+value)
	}
	return env
}

// codeVariables are variables that make a loader, shell, language runtime or tool run or load
// other code. A local command doesn't get them from a template: the template's author may not
// be allowed to choose the code that runs here. * matches any characters.
var codeVariables = []string{
	// Of any program: its folder, options, start-up file, and programs or libraries that it loads.
	"*HOME", "*_OPTS", "*RC", "*_RC_FILE", "*_EDITOR", "*_PAGER", "*_SHELL", "*_PRELOAD", "*_PLUGIN", "*_PLUGINS", "*_PLUGIN_PATH", "*_PLUGIN_DIR", "*_LIBRARY_PATH",
	"*_SETTINGS_MODULE", "*_CMD_ARGS", "*_STARTUP_FILE",
	// The search for programs, the loader and the C library.
	"PATH", "PATHEXT", "COMSPEC", "HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "XDG_*_HOME", "XDG_*_DIRS", "SHELL",
	"LD_*", "DYLD_*", "GCONV_PATH", "LOCPATH", "NLSPATH", "GLIBC_TUNABLES", "GETCONF_DIR", "__XPG_*", "ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS",
	// Shells, and tools that start other programs.
	"ENV", "BASH_*", "BASHOPTS", "SHELLOPTS", "PS4", "PROMPT_COMMAND", "IFS", "CDPATH", "ZDOTDIR", "FPATH", "INPUTRC",
	"BROWSER", "EDITOR", "VISUAL", "FCEDIT", "PAGER", "MANPAGER", "LESSOPEN", "LESSCLOSE", "SSH_ASKPASS", "SUDO_ASKPASS", "RSYNC_RSH", "CVS_RSH", "HGRCPATH", "GIT_*",
	// Languages.
	"PYTHON*", "__PYVENV_LAUNCHER__", "VIRTUAL_ENV", "PIP_*", "UV_*", "CONDA_*", "POETRY_*", "IPYTHONDIR", "JUPYTER_*",
	"NODE_*", "NPM_*", "YARN_*", "COREPACK_*", "BUN_*", "DENO_*", "TS_NODE_*", "ELECTRON_*", "PERL*", "RUBY*", "GEM_*", "BUNDLE_*", "IRBRC",
	"JAVA_*", "_JAVA_*", "JDK_*", "CLASSPATH", "MAVEN_*", "GRADLE_*", "SBT_*", "DOTNET_*", "COMPLUS_*", "CORECLR_*", "COR_*", "NUGET_*", "PHPRC", "PHP_*",
	"LUA_*", "TCL*", "R_*", "JULIA_*", "GOFLAGS", "GOENV", "GOPATH", "GOROOT", "GOBIN", "GOPROXY", "GOTOOL*", "GOCACHE*", "GOMODCACHE", "GOEXPERIMENT", "GODEBUG", "CARGO_*", "RUST*", "ERL_*", "ELIXIR_*", "GUILE_*", "OCAML*", "GHC*", "EMACS*", "VIMINIT", "EXINIT", "AWKPATH", "AWKLIBPATH",
	// Compilers, which model runtimes start.
	"CC", "CXX", "LD", "AR", "AS", "NVCC*", "CUDA_HOME", "CUDA_PATH", "CUDAHOSTCXX", "ROCM_HOME", "ROCM_PATH", "MAKEFLAGS", "MAKEFILES", "CMAKE_*", "COMPILER_PATH", "GCC_EXEC_PREFIX",
	// Caches of compiled code, and of modules that are part of a model.
	"TRITON_*", "TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_*", "NUMBA_*", "CUPY_*", "JAX_COMPILATION_CACHE_DIR", "TVM_*", "CUDA_CACHE_PATH",
	"HF_MODULES_CACHE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "DIFFUSERS_CACHE", "VLLM_CACHE_ROOT",
	// Modules that a library imports by name.
	"MPLBACKEND", "MPLCONFIGDIR", "MATPLOTLIBRC", "KERAS_BACKEND", "FLASK_*", "PYTEST_*", "COVERAGE_PROCESS_START", "SETUPTOOLS_*", "DASK_CONFIG", "JAX_PLATFORMS", "PJRT_NAMES_AND_LIBRARY_PATHS",
	// Build tools and version managers.
	"ANT_ARGS", "LEIN_*", "SCALA_*", "KOTLIN*", "GROOVY_*", "CATALINA_*", "MIX_*", "REBAR_*", "STACK_*", "CABAL_*", "OPAM*", "NIX_*", "PYENV_*", "RBENV_*", "NVM_*", "ASDF_*", "PDM_*", "PIPX_*", "HATCH_*", "TOX_*",
	// Plugins of libraries.
	"CUDA_INJECTION*", "NVTX_INJECTION*", "NCCL_*PLUGIN", "NCCL_CONF_FILE", "OMP_TOOL*", "OMPI_*", "PMIX_*", "I_MPI_*", "UCX_MODULE_DIR", "OPENSSL_*", "GTK_*", "GIO_*", "GST_PLUGIN*",
	"QT_*", "VK_*", "OCL_ICD_*", "LIBGL_*", "LIBVA_*", "VDPAU_*", "EGL_*", "__EGL_*", "GBM_*", "MAGICK_*", "KRB5*", "GSS_*", "SASL_*", "PKCS11_*", "ALSA_*", "LADSPA_PATH", "GDAL_DRIVER_PATH", "HDF5_PLUGIN_PATH",
	"TF_LOAD_*", "HOSTALIASES",
	// Configuration files that name programs.
	"PGSYSCONFDIR", "PGSERVICEFILE", "TMUX*", "TEXINPUTS", "TEXMF*", "GROFF_*", "GNUPLOT_*", "OCTAVE_*", "MATLABPATH", "ANSIBLE_*", "TF_CLI_CONFIG_FILE", "HELM_*", "AZURE_CONFIG_DIR", "CLOUDSDK_*",
	"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "GOOGLE_EXTERNAL_ACCOUNT_*", "KUBECONFIG", "DOCKER_*", "NETRC", "CURL_HOME", "WGETRC",
}

// harmlessVariables are exceptions to codeVariables.
var harmlessVariables = []string{
	"PYTHONUNBUFFERED", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONFAULTHANDLER", "PYTHONOPTIMIZE", "PYTHONTRACEMALLOC", "PYTHONASYNCIODEBUG",
	"JUPYTER_PASSWORD", "SRC", "*_SRC", "NODE_ENV", "NODE_RANK", "NODE_ADDR", "RUST_LOG", "RUST_BACKTRACE",
}

// checkTemplate rejects a template that sets variables that run code. It accepts them if the
// rule allows them, sets them itself, or lets the template choose the command.
func (l *localSettings) checkTemplate(s run.Spec) error {
	if l.Template.Value == templateCommand {
		return nil
	}
	var dangerous []string
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		_, setByRule := l.Env[name]
		if !setByRule && runsCode(name) && !slices.ContainsFunc(l.TemplateEnv, func(p scalar) bool { return matchVariable(p.Value, name) }) {
			dangerous = append(dangerous, name)
		}
	}
	if dangerous == nil {
		return nil
	}
	return fmt.Errorf("the environment of the template or endpoint has %s, which can make a local command run other code than its rule says: "+
		"remove it there, or allow it in the image's rule with template_env: [%s] (docs/reference/jobrunner.md); a container may have any variable",
		strings.Join(dangerous, ", "), strings.Join(dangerous, ", "))
}

func runsCode(name string) bool {
	matches := func(p string) bool { return matchVariable(p, name) }
	return slices.ContainsFunc(codeVariables, matches) && !slices.ContainsFunc(harmlessVariables, matches)
}

// matchVariable reports whether a name matches a pattern. It ignores case, as Windows and some tools do.
func matchVariable(pattern, name string) bool {
	pattern, name = strings.ToUpper(pattern), strings.ToUpper(name)
	start, end, hasWildcard := strings.Cut(pattern, "*")
	if !hasWildcard {
		return pattern == name
	}
	return len(name) >= len(start)+len(end) && strings.HasPrefix(name, start) && strings.HasSuffix(name, end)
}
