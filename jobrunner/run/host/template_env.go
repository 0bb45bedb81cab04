package host

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// A template may be written by somebody who may not choose what runs here. So a
// local command gets no variable from it that makes a loader, shell, language
// runtime or tool run or load something else. A * stands for any end of a name.
var codeVariables = []string{
	// Whatever the program: its folder, its options, its start-up file, a program or library that it loads.
	"*HOME", "*_OPTS", "*RC", "*_RC_FILE", "*_EDITOR", "*_PAGER", "*_SHELL", "*_PRELOAD", "*_PLUGIN", "*_PLUGINS", "*_PLUGIN_PATH", "*_PLUGIN_DIR", "*_LIBRARY_PATH",
	"*_SETTINGS_MODULE", "*_CMD_ARGS", "*_STARTUP_FILE",
	// Programs, their loader and C library.
	"PATH", "PATHEXT", "COMSPEC", "HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "XDG_*_HOME", "XDG_*_DIRS", "SHELL",
	"LD_*", "DYLD_*", "GCONV_PATH", "LOCPATH", "NLSPATH", "GLIBC_TUNABLES", "GETCONF_DIR", "__XPG_*", "ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS",
	// Shells, and what starts other programs.
	"ENV", "BASH_*", "BASHOPTS", "SHELLOPTS", "PS4", "PROMPT_COMMAND", "IFS", "CDPATH", "ZDOTDIR", "FPATH", "INPUTRC",
	"BROWSER", "EDITOR", "VISUAL", "FCEDIT", "PAGER", "MANPAGER", "LESSOPEN", "LESSCLOSE", "SSH_ASKPASS", "SUDO_ASKPASS", "RSYNC_RSH", "CVS_RSH", "HGRCPATH", "GIT_*",
	// Languages.
	"PYTHON*", "__PYVENV_LAUNCHER__", "VIRTUAL_ENV", "PIP_*", "UV_*", "CONDA_*", "POETRY_*", "IPYTHONDIR", "JUPYTER_*",
	"NODE_*", "NPM_*", "YARN_*", "COREPACK_*", "BUN_*", "DENO_*", "TS_NODE_*", "ELECTRON_*", "PERL*", "RUBY*", "GEM_*", "BUNDLE_*", "IRBRC",
	"JAVA_*", "_JAVA_*", "JDK_*", "CLASSPATH", "MAVEN_*", "GRADLE_*", "SBT_*", "DOTNET_*", "COMPLUS_*", "CORECLR_*", "COR_*", "NUGET_*", "PHPRC", "PHP_*",
	"LUA_*", "TCL*", "R_*", "JULIA_*", "GOFLAGS", "GOENV", "GOPATH", "GOROOT", "GOBIN", "GOPROXY", "GOTOOL*", "GOCACHE*", "GOMODCACHE", "GOEXPERIMENT", "GODEBUG", "CARGO_*", "RUST*", "ERL_*", "ELIXIR_*", "GUILE_*", "OCAML*", "GHC*", "EMACS*", "VIMINIT", "EXINIT", "AWKPATH", "AWKLIBPATH",
	// Compilers, which tools for models start by themselves.
	"CC", "CXX", "LD", "AR", "AS", "NVCC*", "CUDA_HOME", "CUDA_PATH", "CUDAHOSTCXX", "ROCM_HOME", "ROCM_PATH", "MAKEFLAGS", "MAKEFILES", "CMAKE_*", "COMPILER_PATH", "GCC_EXEC_PREFIX",
	// Caches of compiled code, and of modules that come with a model.
	"TRITON_*", "TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_*", "NUMBA_*", "CUPY_*", "JAX_COMPILATION_CACHE_DIR", "TVM_*", "CUDA_CACHE_PATH",
	"HF_MODULES_CACHE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "DIFFUSERS_CACHE", "VLLM_CACHE_ROOT",
	// Modules that a library imports by their names.
	"MPLBACKEND", "MPLCONFIGDIR", "MATPLOTLIBRC", "KERAS_BACKEND", "FLASK_*", "PYTEST_*", "COVERAGE_PROCESS_START", "SETUPTOOLS_*", "DASK_CONFIG", "JAX_PLATFORMS", "PJRT_NAMES_AND_LIBRARY_PATHS",
	// Build tools and version managers.
	"ANT_ARGS", "LEIN_*", "SCALA_*", "KOTLIN*", "GROOVY_*", "CATALINA_*", "MIX_*", "REBAR_*", "STACK_*", "CABAL_*", "OPAM*", "NIX_*", "PYENV_*", "RBENV_*", "NVM_*", "ASDF_*", "PDM_*", "PIPX_*", "HATCH_*", "TOX_*",
	// Plugins of libraries.
	"CUDA_INJECTION*", "NVTX_INJECTION*", "NCCL_*PLUGIN", "NCCL_CONF_FILE", "OMP_TOOL*", "OMPI_*", "PMIX_*", "I_MPI_*", "UCX_MODULE_DIR", "OPENSSL_*", "GTK_*", "GIO_*", "GST_PLUGIN*",
	"QT_*", "VK_*", "OCL_ICD_*", "LIBGL_*", "LIBVA_*", "VDPAU_*", "EGL_*", "__EGL_*", "GBM_*", "MAGICK_*", "KRB5*", "GSS_*", "SASL_*", "PKCS11_*", "ALSA_*", "LADSPA_PATH", "GDAL_DRIVER_PATH", "HDF5_PLUGIN_PATH",
	"TF_LOAD_*", "HOSTALIASES",
	// Files of settings that name programs.
	"PGSYSCONFDIR", "PGSERVICEFILE", "TMUX*", "TEXINPUTS", "TEXMF*", "GROFF_*", "GNUPLOT_*", "OCTAVE_*", "MATLABPATH", "ANSIBLE_*", "TF_CLI_CONFIG_FILE", "HELM_*", "AZURE_CONFIG_DIR", "CLOUDSDK_*",
	"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "GOOGLE_EXTERNAL_ACCOUNT_*", "KUBECONFIG", "DOCKER_*", "NETRC", "CURL_HOME", "WGETRC",
}

// harmlessVariables are those that codeVariables has too much of.
var harmlessVariables = []string{
	"PYTHONUNBUFFERED", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONFAULTHANDLER", "PYTHONOPTIMIZE", "PYTHONTRACEMALLOC", "PYTHONASYNCIODEBUG",
	"SRC", "*_SRC", "NODE_ENV", "NODE_RANK", "NODE_ADDR", "RUST_LOG", "RUST_BACKTRACE",
}

// checkTemplate refuses an environment of a template with variables that run
// code, where the rule neither lets the template choose the command nor allows
// them. Those that the rule sets itself win anyway.
func (l *localSettings) checkTemplate(s worker.Spec) error {
	if l.Template.Value == templateCommand {
		return nil
	}
	var refused []string
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		_, own := l.Env[name]
		if !own && runsCode(name) && !slices.ContainsFunc(l.TemplateEnv, func(p text) bool { return likeVariable(p.Value, name) }) {
			refused = append(refused, name)
		}
	}
	if refused == nil {
		return nil
	}
	return fmt.Errorf("the environment of the template or endpoint has %s, which can make a local command run other code than its rule says: "+
		"remove it there, or allow it in the image's rule with template_env: [%s] (docs/reference/jobrunner.md); a container may have any variable",
		strings.Join(refused, ", "), strings.Join(refused, ", "))
}

func runsCode(name string) bool {
	like := func(p string) bool { return likeVariable(p, name) }
	return slices.ContainsFunc(codeVariables, like) && !slices.ContainsFunc(harmlessVariables, like)
}

// likeVariable tells whether a name fits a pattern, in any case: Windows knows
// none, nor do some tools.
func likeVariable(pattern, name string) bool {
	pattern, name = strings.ToUpper(pattern), strings.ToUpper(name)
	start, end, any := strings.Cut(pattern, "*")
	if !any {
		return pattern == name
	}
	return len(name) >= len(start)+len(end) && strings.HasPrefix(name, start) && strings.HasSuffix(name, end)
}
