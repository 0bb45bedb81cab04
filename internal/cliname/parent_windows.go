package cliname

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

func parentExecutable() (executable, error) {
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(os.Getppid()))
	if err != nil {
		return executable{}, err
	}
	defer func() { _ = windows.CloseHandle(process) }()
	buffer := make([]uint16, windows.MAX_LONG_PATH)
	size := uint32(len(buffer))
	if err := windows.QueryFullProcessImageName(process, 0, &buffer[0], &size); err != nil {
		return executable{}, err
	}
	path := windows.UTF16ToString(buffer[:size])
	return executable{path: path, open: path}, nil
}
