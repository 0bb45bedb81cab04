package worker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// SDK records which release of the public SDK a worker uses.
func (p *Pools) SDK(endpoint, worker, release string) {
	w, err := p.find(endpoint, worker)
	if err != nil {
		return
	}
	w.mu.Lock()
	unchanged := w.sdk == release
	w.sdk = release
	w.mu.Unlock()
	if unchanged || !keepsJobsInFolder(release) || !p.shared(w) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advise(adviceOnFolder, fmt.Sprintf("release %s of the public SDK keeps which jobs it runs in a file of its working folder, which it shares with other workers here: "+
		"they take each other's jobs for their own, and after a while ask for no more. Use release 1.10 or later, one worker, or containers (docs/guides/worker.md)", release))
}

// shared reports whether another worker runs in this worker's working folder.
func (p *Pools) shared(w *worker) bool {
	folder := w.view().folder
	if folder == "" {
		return false
	}
	return p.anyWorker(func(other *worker) bool { v := other.view(); return other != w && v.usesProtocol && v.folder == folder }) != nil
}

// keepsJobsInFolder reports whether a release keeps its jobs in its working folder, as 1.7.12 to 1.9
// do.
func keepsJobsInFolder(release string) bool {
	var n []int
	for part := range strings.SplitSeq(strings.TrimPrefix(release, "v"), ".") {
		number, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		n = append(n, number)
	}
	return len(n) >= 2 && slices.Compare(n, []int{1, 7, 12}) >= 0 && slices.Compare(n, []int{1, 10}) < 0
}
