package node

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// MachineFile is the file in the data folder that has the deployment's id.
const MachineFile = "machine"

// MachineID returns a deployment's id, which it stores in the data folder. Without a folder
// it returns a new id.
func MachineID(folder string) (string, error) {
	newID := strings.ToLower(rand.Text()[:12])
	if folder == "" {
		return newID, nil
	}
	path := filepath.Join(folder, MachineFile)
	text, err := os.ReadFile(path)
	if id := strings.TrimSpace(string(text)); err == nil && id != "" {
		return id, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the id of the deployment: %w", err)
	}
	if err := os.WriteFile(path, []byte(newID+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("the id of the deployment: %w", err)
	}
	return newID, nil
}
