package main_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// artefacts returns the flags for a report in every format, and the files.
func artefacts(dir string) (flags, files []string) {
	for format, name := range map[string]string{
		"html": "r.html", "junit": "r.xml", "markdown": "r.md", "har": "r.har", "badge": "r.svg", "shield": "shield.json", "json": "r.json", "ctrf": "ctrf.json",
	} {
		path := filepath.Join(dir, name)
		flags, files = append(flags, "--report="+format+"="+path), append(files, path)
	}
	return flags, files
}

func readFiles(t *testing.T, paths []string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, path := range paths {
		texts[filepath.Base(path)] = string(must.ReadFile(t, path))
	}
	return texts
}

// No report shows a key, even if every answer echoes all keys, also where reports truncate.
func TestNoSecretInAnyReport(t *testing.T) {
	secrets := map[string]string{"GPUCLOUD_API_KEY": key, "GPUCLOUD_OTHER_API_KEY": `other"key/<&>+é`, "GPUCLOUD_USER_API_KEY": "the-key-of-another-user"}
	var all string
	for _, secret := range secrets {
		all += " " + secret
	}
	quoted := must.Do(json.Marshal(all))(t)
	url := serve(t, intercept(func(r *http.Request) bool {
		return r.Header.Get("Authorization") == "Bearer "+key && strings.HasPrefix(r.URL.Path, "/v2/catalog/")
	}, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["X-Echo"] = []string{"Bearer " + key}
		w.WriteHeader(http.StatusTeapot)
		if strings.HasSuffix(r.URL.Path, "/cpus") {
			// A key lies across the 300th and the 4096th byte, at which reports truncate.
			fmt.Fprint(w, "1234567"+strings.Repeat(key, 500))
			return
		}
		fmt.Fprintf(w, "%s %s", all, quoted)
	}))
	cmd := command(t, "run", "--base-url="+url, "--select=VER-38,VER-36,VER-41,AUT")
	flags, files := artefacts(cmd.Dir)
	summary := filepath.Join(cmd.Dir, "summary.md")
	must.Succeed(t, os.WriteFile(summary, []byte("another step's words\n"), 0o600))
	cmd.Args, files = append(cmd.Args, flags...), append(files, summary)
	cmd.Env = append(cmd.Env, "GITHUB_STEP_SUMMARY="+summary)
	for name, secret := range secrets {
		cmd.Env = append(cmd.Env, name+"="+secret)
	}
	output := runExpecting(t, cmd, 1)
	texts := readFiles(t, files)
	texts["the terminal"] = output
	for file, text := range texts {
		// The beginning of a key counts as a leak.
		for _, part := range []string{key[:8], `other"key`, `other\"key`, "other&#34;key", "other&quot;key", "the-key-of-another"} {
			i := strings.Index(text, part)
			must.Hold(t, i < 0, file, "shows", part, "…", text[max(0, i-80):min(len(text), i+80)])
		}
	}
	for file, want := range map[string]string{
		"the terminal": "FAIL VER-38", "r.html": `id="VER-38" data-verdict="FAIL"`, "r.xml": "VER-38: ", "r.md": "#ver-38\">VER-38</a>", "r.har": `"pageref": "VER-38"`,
		"r.svg": "MUST broken", "shield.json": "MUST broken", "r.json": `"clause": "VER-38"`, "summary.md": "another step's words\n## ❌ Conformance: not conformant",
	} {
		if !strings.Contains(texts[file], want) {
			t.Errorf("%s lacks %q:\n%.2000s", file, want, texts[file])
		}
	}
	must.Hold(t, strings.Contains(texts["r.html"], "418") && strings.Contains(texts["r.har"], "Bearer $GPUCLOUD_API_KEY"), "the reports don't show the answers")
	var report struct{ Counts map[string]int }
	var junit struct {
		Failures int `xml:"failures,attr"`
	}
	must.Succeed(t, errors.Join(json.Unmarshal([]byte(texts["r.json"]), &report), xml.Unmarshal([]byte(texts["r.xml"]), &junit)))
	n := report.Counts["FAIL"]
	must.Hold(t, n != 0 && junit.Failures == n && strings.Contains(texts["the terminal"], fmt.Sprintf("%d FAIL, ", n)), junit.Failures, "failures in JUnit", report.Counts, "in JSON; the terminal says", texts["the terminal"])
}

// If the reader of the output has gone, the reports are still written.
func TestClosedPipe(t *testing.T) {
	reader, writer, err := os.Pipe()
	must.Succeed(t, errors.Join(err, reader.Close()))
	defer writer.Close()
	cmd := command(t, "run", "--base-url="+serve(t, nil), "--select=VER-38", "--json=r.json")
	cmd.Stdout = writer
	_ = cmd.Run() // the exit code is checked below
	must.Equal(t, cmd.ProcessState.ExitCode(), 2, "exit code")
	must.ReadFile(t, filepath.Join(cmd.Dir, "r.json"))
}

// diff shows the changes between two runs. It exits with 1 if something is worse, so that CI can stop.
func TestDiff(t *testing.T) {
	var broken atomic.Bool
	url := serve(t, intercept(func(r *http.Request) bool { return broken.Load() && strings.HasPrefix(r.URL.Path, "/v2/catalog/cpus") }, http.NotFound))
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.json"), filepath.Join(dir, "bad.json")
	runExpecting(t, command(t, "run", "--base-url="+url, "--select=VER-38,VER-36", "--report=json="+good), 0)
	broken.Store(true)
	runExpecting(t, command(t, "run", "--base-url="+url, "--select=VER-38,VER-36", "--json="+bad), 1)
	must.Contain(t, runExpecting(t, command(t, "diff", good, bad), 1), "WORSE VER-38 MUST  PASS → FAIL", "1 worse, 0 better")
	must.Contain(t, runExpecting(t, command(t, "diff", bad, good), 0), "BETTER VER-38 MUST  FAIL → PASS")
	lines := strings.Split(strings.TrimSpace(runExpecting(t, command(t, "diff", "--json", good, bad), 1)), "\n")
	var change struct {
		Clause, Direction string
		Before, After     struct{ Verdict string }
	}
	var counts struct {
		Worse    int
		GotWorse bool `json:"got_worse"`
	}
	must.Require(t, len(lines) == 2 && json.Unmarshal([]byte(lines[0]), &change) == nil && json.Unmarshal([]byte(lines[1]), &counts) == nil, "expected a change and the counts, got", lines)
	must.Hold(t, change.Clause == "VER-38" && change.Direction == "worse" && change.Before.Verdict == "PASS" && change.After.Verdict == "FAIL" && counts.Worse == 1 && counts.GotWorse, "got", lines)
	must.Contain(t, runExpecting(t, command(t, "diff", bad, bad), 0), "0 worse, 0 better, 0 otherwise changed")
	must.Contain(t, runExpecting(t, command(t, "diff", good, tempFile(t, "{}")), 2), "can't be compared")
	must.Contain(t, runExpecting(t, command(t, "diff", good, tempFile(t, `{"schema": "`+report.Schema+`"}`)), 2), "it has no results")
}

// A report that can't be written is rejected before a request is sent. The check leaves no file.
func TestReportsThatCannotBeWritten(t *testing.T) {
	for want, args := range map[string][]string{
		"expected one of json, html, junit, markdown, har, ctrf, badge, shield": {"--report=pdf=x"},
		"expected FORMAT=FILE, such as html=report.html":                        {"--report=html"},
		"the folder /nothing/is/here doesn't exist":                             {"--report=html=/nothing/is/here/r.html"},
		"is a directory":                              {"--report=html=" + t.TempDir()},
		"l would overwrite a file of the run":         {"--json=./l", "--ledger=l"},
		"rrr can't be written":                        {"--json=" + strings.Repeat("r", 300)}, // the name is too long
		"of --defer can't be written":                 {"--defer=" + strings.Repeat("r", 300)},
		"two reports can't be on the standard output": {"--report=html=-", "--json=-"},
		"two reports can't be in the file r":          {"--report=html=./r", "--json=r"},
	} {
		output := runExpecting(t, command(t, append([]string{"run", "--base-url=http://127.0.0.1:1"}, args...)...), 2)
		must.Hold(t, strings.Contains(output, want) && !strings.Contains(output, "unreachable"), args, "says", output, "and not", want)
	}
	cmd := command(t, "run", "--base-url=http://127.0.0.1:1", "--dry-run", "--json=link")
	must.Succeed(t, os.Symlink("target", filepath.Join(cmd.Dir, "link")))
	runExpecting(t, cmd, 0)
	must.Equal(t, strings.Join(fileNames(t, cmd.Dir), " "), "link", "files")
}

// A command that can't write its output fails.
func TestLostOutput(t *testing.T) {
	for _, args := range [][]string{{"explain", "JOB-01"}, {"run", "--base-url=" + serve(t, nil), "--select=VER-38"}} {
		cmd := command(t, args...)
		cmd.Stdout = must.Do(os.Open(os.DevNull))(t) // read-only
		_ = cmd.Run()                                // the exit code is checked below
		must.Equal(t, cmd.ProcessState.ExitCode(), 2, "exit code of", args)
	}
}

// The reader of a FIFO gets the whole report. The check before the run doesn't end its input.
func TestReportInFIFO(t *testing.T) {
	file, text := filepath.Join(t.TempDir(), "fifo"), make(chan []byte, 1)
	makeFIFO(t, file)
	go func() { text <- must.ReadFile(t, file) }()
	runExpecting(t, command(t, "run", "--base-url="+serve(t, nil), "--select=VER-38", "--json="+file), 0)
	must.Contain(t, string(<-text), `"clause": "VER-38"`)
}

// A report replaces an earlier one atomically, and keeps the file's mode and a symbolic link to it.
func TestReportReplacesEarlierReport(t *testing.T) {
	cmd := command(t, "run", "--base-url="+serve(t, nil), "--select=VER-38", "--json=link")
	file, link := filepath.Join(cmd.Dir, "r.json"), filepath.Join(cmd.Dir, "link")
	must.Succeed(t, errors.Join(os.WriteFile(file, []byte("earlier"), 0o600), os.Chmod(file, 0o640), os.Symlink(file, link)))
	before := must.Do(os.Open(file))(t)
	defer before.Close()
	runExpecting(t, cmd, 0)
	must.Equal(t, string(must.Do(io.ReadAll(before))(t)), "earlier", "text of the earlier report's file")
	must.Contain(t, string(must.ReadFile(t, file)), `"clause": "VER-38"`)
	must.Equal(t, must.Do(os.Stat(link))(t).Mode(), 0o640, "mode")
	must.Equal(t, strings.Join(fileNames(t, cmd.Dir), " "), "conformance-ledger.jsonl link r.json", "files")
}

// A report on the standard output is the only text there.
func TestReportOnStandardOutput(t *testing.T) {
	url := serve(t, nil)
	file := filepath.Join(t.TempDir(), "later.json")
	for _, args := range [][]string{
		{"run", "--base-url=" + url, "--select=LIM-12", "--allow=create,queue", "--defer=" + file, "--report=json=-"},
		{"resume", file, "--report=json=-"},
	} {
		cmd := command(t, args...)
		cmd.Stderr = io.Discard
		out, err := cmd.Output()
		var exit *exec.ExitError
		must.Require(t, err == nil || errors.As(err, &exit), err)
		var report struct{ Schema string }
		must.Hold(t, json.Unmarshal(out, &report) == nil && report.Schema != "", args, "in", string(out))
	}
}

// A report names its implementation, can be signed, and can be compared with others.
func TestPublishedReport(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		must.Require(t, os.Getenv("CI") == "", err)
		t.Skip("openssl isn't installed: only another program can show that the signature is a standard one")
	}
	url := serve(t, nil)
	dir := t.TempDir()
	inDir := func(name string) string { return filepath.Join(dir, name) }
	for _, args := range [][]string{{"genpkey", "-algorithm", "ed25519", "-out", inDir("key.pem")}, {"pkey", "-in", inDir("key.pem"), "-pubout", "-out", inDir("public.pem")}} {
		if out, err := exec.CommandContext(t.Context(), "openssl", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	runExpecting(t, command(t, "run", "--base-url="+url, "--select=VER-40", "--json="+inDir("r.json"), "--implementation=Our cloud", "--implementation-version=3.4", "--contact=https://example.com", "--sign="+inDir("key.pem")), 0)
	must.Contain(t, runExpecting(t, command(t, "verify", inDir("r.json"), "--key="+inDir("public.pem")), 0), "Our cloud 3.4")
	out, err := exec.CommandContext(t.Context(), "openssl", "pkeyutl", "-verify", "-pubin", "-inkey", inDir("public.pem"), "-rawin", "-in", inDir("r.json"), "-sigfile", inDir("r.json.sig")).CombinedOutput()
	must.Hold(t, err == nil, "openssl", err, string(out))
	text := must.ReadFile(t, inDir("r.json"))
	must.Contain(t, string(text), `"contact": "https://example.com"`, `"date": "2026-08-18"`)
	must.Equal(t, strings.Count(runExpecting(t, command(t, "compare", inDir("r.json"), inDir("r.json"), "--html=-"), 0), "Our cloud 3.4"), 2, "columns")
	must.Succeed(t, os.WriteFile(inDir("r.json"), append(text, ' '), 0o600))
	runExpecting(t, command(t, "verify", inDir("r.json"), "--key="+inDir("public.pem")), 2)
	must.Contain(t, runExpecting(t, command(t, "verify", inDir("key.pem"), "--key="+inDir("public.pem")), 2), "--signature")
	for want, args := range map[string][]string{
		"--json": {"--sign=" + inDir("key.pem")}, "Ed25519": {"--sign=" + inDir("public.pem"), "--json=" + inDir("x.json")}, "--implementation": {"--contact=x"},
	} {
		output := runExpecting(t, command(t, append([]string{"run", "--base-url=" + url}, args...)...), 2)
		must.Hold(t, strings.Contains(output, want) || strings.Contains(output, "PEM"), args, "prints", output, "without", want, "or PEM")
	}
}
