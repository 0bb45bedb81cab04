package worker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// SDK says which release of the public SDK the worker is built on.
func (p *Pools) SDK(endpoint, worker, release string) {
	w, err := p.find(endpoint, worker)
	if err != nil {
		return
	}
	w.mu.Lock()
	known := w.sdk == release
	w.sdk = release
	w.mu.Unlock()
	if known || !keepsJobsInFolder(release) || !p.shared(w) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advise(adviceOnFolder, fmt.Sprintf("release %s of the public SDK keeps which jobs it runs in a file of its working folder, which it shares with other workers here: "+
		"they take each other's jobs for their own, and after a while ask for no more. Use release 1.10 or later, one worker, or containers (docs/guides/worker.md)", release))
}

// shared tells whether another worker runs in the working folder of this one.
func (p *Pools) shared(w *worker) bool {
	folder := w.now().folder
	if folder == "" {
		return false
	}
	for _, one := range p.all() {
		if one.find(func(other *worker) bool { v := other.now(); return other != w && v.speaks && v.folder == folder }) != nil {
			return true
		}
	}
	return false
}

// keepsJobsInFolder tells whether a release keeps its jobs in its working folder: 1.7.12
// to 1.9.
func keepsJobsInFolder(release string) bool {
	var n []int
	for part := range strings.SplitSeq(strings.TrimPrefix(release, "v"), ".") {
		one, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		n = append(n, one)
	}
	return len(n) >= 2 && slices.Compare(n, []int{1, 7, 12}) >= 0 && slices.Compare(n, []int{1, 10}) < 0
}
