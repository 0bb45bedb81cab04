package workerapi_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var updateReleases = flag.Bool("releases.update", false, "write the table of releases of the public SDK into the page")

// checks are the tests that run with each release of the public SDK.
var checks = []struct{ test, description string }{
	{"TestWorkerResults", "outputs and errors of every type"},
	{"TestWorkerSeesTheSubmission", "the handler gets the whole submission"},
	{"TestWorkerStreams", "generators stream, with and without aggregation"},
	{"TestProcessStreams", "a client reads the stream"},
	{"TestGeneratorThatRaises", "if a generator raises, its job is FAILED with the error"},
	{"TestWorkerReportsProgress", "progress updates"},
	{"TestLateProgressChangesNothing", "progress after the result is ignored"},
	{"TestWorkerTakesBatches", "several jobs per request, with `concurrency_modifier`"},
	{"TestSlotsOfAWorker", "cancelling one of a worker's jobs doesn't affect the others"},
	{"TestManySlots", "300 jobs on 50 slots: all are COMPLETED, none is stopped"},
	{"TestLargeJobReachesAWorker", "an input of a megabyte"},
	{"TestCancelFreesTheSlot", "a cancel frees or replaces the worker, even if the handler blocks"},
	{"TestTimeOutFreesTheSlot", "the execution time-out frees or replaces the worker"},
	{"TestWorkerStops", "a cancel stops the handler without ending the worker"},
	{"TestCrashLosesTheJob", "after a crash the job runs once more, then it is FAILED with the exit status"},
	{"TestKilledWorkerLosesTheJob", "after a kill of the worker its job runs once more"},
	{"TestRestartedWorkerLosesTheJob", "if a worker restarts within its process, its job runs once more"},
	{"TestWorkerIsReplacedAfterItsJob", "`refresh_worker`"},
	{"TestReplacedWorkerEndsItsJob", "a new release of the endpoint lets running jobs finish"},
	{"TestIdleWorkerEnds", "an idle worker ends without losing a job"},
	{"TestUnfitWorkerIsUnhealthy", "a failed fitness check makes the worker UNHEALTHY"},
}

// listReleases lists the subfolders with the public SDK, the oldest release first, or none.
func listReleases(folder string) (releases []string) {
	if folder == "" || hasSDK(folder) {
		return nil
	}
	entries, _ := os.ReadDir(folder) // empty after an error
	for _, e := range entries {
		if hasSDK(filepath.Join(folder, e.Name())) {
			releases = append(releases, e.Name())
		}
	}
	slices.SortFunc(releases, func(a, b string) int { return slices.Compare(parseRelease(a), parseRelease(b)) })
	return releases
}

func hasSDK(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "runpod"))
	return err == nil
}

func parseRelease(release string) (out []int) {
	for part := range strings.SplitSeq(strings.TrimPrefix(release, "v"), ".") {
		n, _ := strconv.Atoi(part) // 0 for an invalid number
		out = append(out, n)
	}
	return out
}

// verdictPattern matches the line with the verdict of a test or a subtest.
var verdictPattern = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (\w+)(/\S+)?`)

// parseVerdicts returns the verdicts of the tests. A test with only skipped subtests is skipped.
func parseVerdicts(output string) map[string]string {
	verdicts, subtests := map[string]string{}, map[string]map[string]bool{}
	for _, m := range verdictPattern.FindAllStringSubmatch(output, -1) {
		if m[3] == "" {
			verdicts[m[2]] = m[1]
			continue
		}
		if subtests[m[2]] == nil {
			subtests[m[2]] = map[string]bool{}
		}
		subtests[m[2]][m[1]] = true
	}
	for test, kinds := range subtests {
		if kinds["SKIP"] && len(kinds) == 1 && verdicts[test] == "PASS" {
			verdicts[test] = "SKIP"
		}
	}
	return verdicts
}

// testReleases runs the tests of this program once for each release, and returns the exit status.
func testReleases(folder string, releases []string) (status int) {
	verdicts := map[string]map[string]string{} // by release and test
	for _, release := range releases {
		args := append(slices.Clone(os.Args[1:]), "-test.v=true")
		args = slices.DeleteFunc(args, func(a string) bool { return strings.Contains(a, "releases.update") })
		if !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-test.run") }) {
			var names []string
			for _, c := range checks {
				names = append(names, c.test)
			}
			args = append(args, "-test.run=^("+strings.Join(names, "|")+")$")
		}
		child := exec.CommandContext(context.Background(), os.Args[0], args...)
		child.Env = append(os.Environ(), "WORKER_SDK_PATH="+filepath.Join(folder, release))
		var out bytes.Buffer
		child.Stdout, child.Stderr = &out, &out
		err := child.Run()
		verdicts[release] = parseVerdicts(out.String())
		fmt.Printf("release %s: %d tests, %v\n", release, len(verdicts[release]), err)
		if err != nil {
			status = 1
			_, _ = io.Copy(os.Stdout, &out)
		}
	}
	table := releaseTable(releases, verdicts)
	fmt.Print(table)
	if *updateReleases {
		if err := writeTable("../../docs/reference/sdk-releases.md", table); err != nil {
			fmt.Println(err)
			status = 1
		}
	}
	return status
}

// releaseTable returns the table of verdicts: yes, no, or – for a feature that the release lacks.
func releaseTable(releases []string, verdicts map[string]map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| check | %s |\n|---|%s\n", strings.Join(releases, " | "), strings.Repeat("---|", len(releases)))
	for _, c := range checks {
		b.WriteString("| " + c.description)
		for _, release := range releases {
			b.WriteString(" | " + map[string]string{"PASS": "yes", "FAIL": "no", "SKIP": "–", "": "not tried"}[verdicts[release][c.test]])
		}
		b.WriteString(" |\n")
	}
	return b.String()
}

// The table is between these lines of the page.
const (
	tableStart = "<!-- releases: WORKER_SDK_PATH=DIR go test ./jobrunner/workerapi -releases.update -timeout=60m -->\n"
	tableEnd   = "<!-- end of releases -->\n"
)

func writeTable(file, table string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), tableStart)
	_, after, hasEnd := strings.Cut(rest, tableEnd)
	if !ok || !hasEnd {
		return fmt.Errorf("updating the table in %s: expected the lines\n%s%s", file, tableStart, tableEnd)
	}
	return os.WriteFile(file, []byte(before+tableStart+table+tableEnd+after), 0o644) //nolint:gosec // the page is public
}
