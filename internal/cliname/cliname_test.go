package cliname_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cliname"
)

// child makes the test binary print the name and end: it stands for a provider
// that a command line started.
const child = "CLINAME_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		fmt.Print(cliname.Name())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// starter runs its first argument as a child, as a command line runs a
// provider.
const starter = `package main

import (
	"os"
	"os/exec"
)

func main() {
	cmd := exec.Command(os.Args[1])
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if cmd.Run() != nil {
		os.Exit(1)
	}
}
`

func TestNameIsThatOfTheParentProcess(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ title, module, file, want string }{
		{"OpenTofu", "github.com/opentofu/opentofu", "tofu", cliname.OpenTofu},
		{"OpenTofu, renamed", "github.com/opentofu/opentofu", "terraform", cliname.OpenTofu},
		{"Terraform", "github.com/hashicorp/terraform", "terraform", cliname.Terraform},
		{"Terraform, renamed", "github.com/hashicorp/terraform", "tofu", cliname.Terraform},
		{"another program", "example.com/debugger", "debugger", cliname.Terraform},
	} {
		t.Run(c.title, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "go.mod"), "module "+c.module+"\n")
			write(t, filepath.Join(dir, "main.go"), starter)
			bin := filepath.Join(dir, c.file+".exe")
			build := exec.Command("go", "build", "-o", bin, ".")
			build.Dir = dir
			build.Env = append(os.Environ(), "GOWORK=off")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%s\n%s", err, out)
			}
			run := exec.Command(bin, self)
			run.Env = append(os.Environ(), child+"=1")
			out, err := run.CombinedOutput()
			if err != nil || string(out) != c.want {
				t.Errorf("got %q (%v), expected %q", out, err, c.want)
			}
		})
	}
}

// A program without Go's build information is judged by its file name.
func TestNameByFileName(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh on PATH")
	}
	data, err := os.ReadFile(shell)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"tofu-1.12": cliname.OpenTofu, "terraform": cliname.Terraform} {
		bin := filepath.Join(t.TempDir(), file)
		if err := os.WriteFile(bin, data, 0o755); err != nil {
			t.Fatal(err)
		}
		// The colon keeps the shell from replacing itself with its last command.
		run := exec.Command(bin, "-c", `"$0"; :`, self)
		run.Env = append(os.Environ(), child+"=1")
		out, err := run.CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("parent %s: got %q (%v), expected %q", file, out, err, want)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
