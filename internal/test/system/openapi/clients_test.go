package openapi

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/serving"
)

// goGenerator generates Go clients. package.json has the generator of TypeScript.
const goGenerator = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"

// step is one call of a generated client.
type step struct {
	Version, Operation, Method, Path string
	IDs                              []string          // path parameters in order
	Parameters                       map[string]string // path parameters by name
	Body                             json.RawMessage   `json:",omitempty"`
	Media                            string            // media type of the response, or ""
	Status                           int
}

// Two generators' clients of the served documents compile, and call every operation successfully.
func TestGeneratedClients(t *testing.T) {
	if testing.Short() {
		t.Skip("the generators are downloaded: see make test-all")
	}
	programs := t.TempDir()
	must.Succeed(t, gobuild.Programs(t.Context(), programs, "../../../../cmd/jobrunner"))
	s := &scene{keys: map[string]string{ownKey: "the-key-of-the-deployment"}, http: http.DefaultClient}
	cmd := exec.CommandContext(t.Context(), filepath.Join(programs, "jobrunner"), "serve", "--listen=127.0.0.1:0", "--ephemeral", "--simulate-gpus=h200x8", "--catalog="+catalogOfBuilds(t, programs)) //nolint:gosec // runs a program that the test built
	cmd.Env = append(os.Environ(), "TMPDIR="+programs, "GPUCLOUD_API_KEY="+s.keys[ownKey])
	s.url = serving.Exported(serving.Start(t, cmd), "GPUCLOUD_BASE_URL")
	s.furnish(t)
	all := servedOperations(t, s)
	for _, o := range all {
		if _, ok := bases[o.path]; ok && o.method == "POST" {
			s.create(t, o.path, jsonText(validBodies(o)[0]))
		}
	}
	t.Run("Go", func(t *testing.T) {
		dir := copyFolder(t, "testdata/clients/go")
		for _, d := range documents {
			document := s.saveDocument(t, dir, d)
			must.Succeed(t, os.Mkdir(filepath.Join(dir, d.version), 0o700))
			prepare(t, dir, "go", "run", goGenerator, "-generate=types,client,skip-prune", "-package="+d.version, "-o="+filepath.Join(d.version, "client.go"), document)
		}
		prepare(t, dir, "go", "mod", "download")
		mustRun(t, dir, "go", "vet", "./...")
		mustRun(t, dir, "go", "run", ".", s.saveScript(t, dir, all))
	})
	t.Run("TypeScript", func(t *testing.T) {
		dir := copyFolder(t, "testdata/clients/typescript")
		prepare(t, dir, "npm", "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
		for _, d := range documents {
			mustRun(t, dir, "npx", "--no-install", "openapi-typescript", s.saveDocument(t, dir, d), "--output="+d.version+".ts")
		}
		mustRun(t, dir, "npx", "--no-install", "tsc") // fails if a type is wrong
		mustRun(t, dir, "node", filepath.Join("out", "round.js"), s.saveScript(t, dir, all))
	})
}

// prepare runs a program that needs the network. If it fails, the test is skipped, or in CI fails.
func prepare(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	out, err := run(t, dir, program, args...)
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	default:
		t.Skipf("this machine can't prepare the clients: %s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}

func mustRun(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	out, err := run(t, dir, program, args...)
	must.Succeed(t, err, program, strings.Join(args, " "), out)
	t.Logf("%s", out)
}

func run(t *testing.T, dir, program string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...) //nolint:gosec // runs a program that this file names
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// copyFolder copies a folder, so that a test can write into it.
func copyFolder(t *testing.T, from string) string {
	t.Helper()
	dir := t.TempDir()
	must.Succeed(t, os.CopyFS(dir, os.DirFS(from)))
	return dir
}

func (s *scene) saveDocument(t *testing.T, dir string, d document) string {
	t.Helper()
	path := filepath.Join(dir, d.version+".json")
	a := s.send(t, request{method: "GET", path: "/" + d.version + "/openapi.json"})
	must.Succeed(t, os.WriteFile(path, a.body, 0o600))
	return path
}

// saveScript writes a script with a call of each operation. A changing call has its own object.
func (s *scene) saveScript(t *testing.T, dir string, all []operation) string {
	t.Helper()
	var steps []step
	for _, o := range all {
		w := &walker{T: t, scene: s, judge: new(judge), operation: o, all: all}
		w.create = w.collectionOperation("POST")
		out := step{Version: o.version, Operation: o.op.OperationID, Method: o.method, Path: strings.TrimPrefix(o.path, o.prefix), Parameters: map[string]string{}}
		for _, p := range o.parameters("path") {
			id := map[string]string{"workerId": w.worker, "buildId": buildID}[p.Name]
			if p.Name == "id" {
				id = w.object()
			}
			out.IDs, out.Parameters[p.Name] = append(out.IDs, id), id
		}
		if bodies := validBodies(o); bodies != nil {
			out.Body = json.RawMessage(s.prepared(request{body: jsonText(bodies[0])}).body)
		}
		for status, response := range o.op.Responses.Map() {
			if n, err := strconv.Atoi(status); err == nil && n/100 == 2 && (out.Status == 0 || n < out.Status) {
				out.Status = n
				for media := range response.Value.Content {
					out.Media = media
				}
			}
		}
		steps = append(steps, out)
	}
	slices.SortStableFunc(steps, func(a, b step) int { return strings.Compare(a.Version, b.Version) })
	script := must.Do(json.Marshal(map[string]any{"URL": s.url, "Key": s.keys[ownKey], "Steps": steps}))(t)
	path := filepath.Join(dir, "script.json")
	must.Succeed(t, os.WriteFile(path, script, 0o600))
	return path
}
