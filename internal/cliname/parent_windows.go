package cliname

import (
	"os"

	"golang.org/x/sys/windows"
)

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
