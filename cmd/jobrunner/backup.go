package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/durable"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/node"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// backup copies the state of a deployment.
type backup struct {
	Folder string `arg:"" help:"New folder for the copy. serve --data can use it."`
	Data   string `placeholder:"DIR" help:"Data folder of the deployment. Default: the default of serve."`
}

func (backup) Help() string {
	return `Copies jobs, results, objects and keys. With --engine they are in PostgreSQL: use its own tools.
Account secrets are encrypted in the copy, and their key isn't copied: store secrets.key elsewhere. Before you
use the copy, put secrets.key into it and stop the original: a copy runs its jobs and pods again.

Examples:
  jobrunner backup /var/backups/jobrunner-monday
  jobrunner backup copy --data /var/lib/jobrunner
  jobrunner serve --data copy`
}

func (b *backup) Run() (err error) {
	dir, err := dataDir(b.Data)
	if err != nil {
		return err
	}
	to, err := filepath.Abs(b.Folder)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(to); err == nil {
		return usageErrorf("invalid folder %s: expected a folder that does not exist", b.Folder)
	}
	ctx, stop := signal.NotifyContext(context.Background(), cli.StopSignals()...)
	defer stop()
	// The copy gets its final name when it is complete.
	temp, err := os.MkdirTemp(filepath.Dir(to), filepath.Base(to)+".partial-") // 0700
	if err != nil {
		return fmt.Errorf("making the folder of the copy: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	total, progress := sizeOf(filepath.Join(dir, sqldb.FileName)), cli.NewProgress(os.Stderr)
	copyDone := make(chan error, 1)
	go func() { copyDone <- copyState(dir, temp) }()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for copying := true; copying; {
		progress.Show("copied %d of about %d MiB", sizeOf(temp)>>20, total>>20)
		select {
		case err = <-copyDone:
			copying = false
		case <-ctx.Done():
			copying, err = false, errors.New("interrupted: nothing was copied")
		case <-ticker.C:
		}
	}
	progress.End()
	if err != nil {
		return err
	}
	if err := os.Rename(temp, to); err != nil {
		return err
	}
	fmt.Fprintln(stdout, to)
	if _, err := os.Stat(filepath.Join(dir, store.SecretKeyFile)); err == nil {
		fmt.Fprintf(stderr, "Account secrets are encrypted, and their key is not in the copy: store %s elsewhere, and put it into the copy before you use the copy\n", filepath.Join(dir, store.SecretKeyFile))
	}
	return nil
}

func copyState(dir, to string) error {
	// Copy the reports first. A report that reaches the database meanwhile is then in both copies,
	// which is harmless, and can't be missing from both.
	for _, name := range []string{engine.SpoolFolder, node.FolderIDFile, apikey.FileName, apikey.MovedName, keyFile} {
		if err := copyAll(filepath.Join(dir, name), filepath.Join(to, name)); err != nil {
			return fmt.Errorf("copying %s: %w", name, err)
		}
	}
	return sqldb.Backup(dir, to)
}

// sizeOf returns the size of a file or of a folder's files. It ignores files that are removed meanwhile.
func sizeOf(path string) (size int64) {
	_ = filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			if info, infoErr := entry.Info(); infoErr == nil {
				size += info.Size()
			}
		}
		return nil
	})
	return size
}

// copyAll copies a file or a folder. It ignores files that are removed meanwhile.
func copyAll(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		target := to + strings.TrimPrefix(path, from)
		if err == nil && entry.IsDir() {
			return os.Mkdir(target, 0o700)
		}
		var content []byte
		if err == nil {
			content, err = os.ReadFile(path)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
		return durable.WriteFile(target, content)
	})
}
