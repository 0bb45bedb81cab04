package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// backup copies what a deployment needs to go on elsewhere.
type backup struct {
	Folder string `arg:"" help:"New folder of the copy, which serve --data can use."`
	Data   string `placeholder:"DIR" help:"Data folder of the deployment. Default: the default of serve."`
}

// Help has examples.
func (backup) Help() string {
	return `Jobs, results, objects and keys are in the copy; with --engine they are in PostgreSQL, whose own tools copy them.
Account secrets are in it encrypted, without their key: keep secrets.key elsewhere, and put it into the copy to use them.

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
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("invalid folder %s: expected one that does not exist", b.Folder), err)
	}
	// The copy gets its name when it is whole.
	part, err := os.MkdirTemp(filepath.Dir(to), "."+filepath.Base(to)+"-") // 0700
	if err != nil {
		return fmt.Errorf("making the folder of the copy: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(part)) }()
	defer showCopied(part, sizeOf(dir))()
	// Reports first: one that reaches the database meanwhile is then in both, which
	// changes nothing, and never in neither.
	for _, name := range slices.Concat(jobrunner.StateFiles(), []string{keyFile}) {
		if err := copyAll(filepath.Join(dir, name), filepath.Join(part, name)); err != nil {
			return fmt.Errorf("copying %s: %w", name, err)
		}
	}
	if err := sqldb.Backup(dir, part); err != nil {
		return err
	}
	if err := os.Rename(part, to); err != nil {
		return err
	}
	fmt.Fprintln(stdout, to)
	if _, err := os.Stat(filepath.Join(dir, store.SecretKeyFile)); err == nil {
		fmt.Fprintf(stderr, "Account secrets are encrypted, and their key is not in the copy: keep %s elsewhere, and put it into the copy to use them\n", filepath.Join(dir, store.SecretKeyFile))
	}
	return nil
}

// showCopied shows how much of a folder is copied, where somebody looks, until the
// function that it returns is called.
func showCopied(part string, total int64) (end func()) {
	line := cli.NewProgress(os.Stderr)
	if !line.Visible() {
		return func() {}
	}
	show := func() { line.Show("copied %d of about %d MiB", sizeOf(part)>>20, total>>20) }
	show()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				show()
			case <-stop:
				line.End()
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}

// sizeOf is the size of a folder's files, without those that vanish meanwhile.
func sizeOf(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			if info, infoErr := entry.Info(); infoErr == nil {
				size += info.Size()
			}
		}
		return nil
	})
	return size
}

// copyAll copies a file or the files of a folder. What vanishes meanwhile is left out.
func copyAll(from, to string) error {
	info, err := os.Stat(from)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return copyFile(from, to)
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := copyAll(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) (err error) {
	source, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Sync(), target.Close())
}
