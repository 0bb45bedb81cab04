package planrule

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

func parentArguments() ([]string, error) {
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(os.Getppid()))
	if err != nil {
		return nil, err
	}
	defer func() { _ = windows.CloseHandle(process) }()
	buffer := make([]byte, 1<<17) // a command line has 32,767 characters at most
	if err := windows.NtQueryInformationProcess(process, windows.ProcessCommandLineInformation, unsafe.Pointer(&buffer[0]), uint32(len(buffer)), nil); err != nil {
		return nil, err
	}
	return windows.DecomposeCommandLine((*windows.NTUnicodeString)(unsafe.Pointer(&buffer[0])).String())
}
