// Package nvidia reads the machine's GPUs through NVML, the library of NVIDIA's driver. It is
// a package of its own because NVML needs C, and a linker that looks for its functions only
// when they are called: programs that run without GPUs, such as tests, do without both.
package nvidia
