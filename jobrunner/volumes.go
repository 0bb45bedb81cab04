package jobrunner

import (
	"os"
	"path/filepath"
	"sync"
)

// volumes are the folders of network volumes, in the data folder, or where there
// is none in one that ends with the deployment.
type volumes struct {
	data string

	mu   sync.Mutex
	temp string
}

// volumesFolder is in the data folder.
const volumesFolder = "volumes"

// dir is the folder of a network volume, which is made on demand.
func (v *volumes) dir(id string) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	base := v.data
	if base == "" {
		if v.temp == "" {
			temp, err := os.MkdirTemp("", "gpucloud-volumes-")
			if err != nil {
				return "", err
			}
			v.temp = temp
		}
		base = v.temp
	}
	dir, err := filepath.Abs(filepath.Join(base, volumesFolder, id))
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o700)
}

func (v *volumes) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.temp == "" {
		return nil
	}
	return os.RemoveAll(v.temp)
}
