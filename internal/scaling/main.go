// Command scaling simulates a deployment of several jobrunners and databases with costs
// that were measured: which part bounds it, and how long jobs take near that bound
// (docs/scaling.md).
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "scaling:", err)
		os.Exit(1)
	}
}

func run(args []string, w io.Writer) error {
	var m model
	flags := flag.NewFlagSet("scaling", flag.ContinueOnError)
	rates := flags.String("rates", "100,1000,5000,16667", "jobs per second, separated by commas; 16667 is a million a minute")
	flags.IntVar(&m.nodes, "nodes", 1, "jobrunners")
	flags.IntVar(&m.nodeCores, "node-cores", 2, "processors of each jobrunner")
	flags.DurationVar(&m.nodeCost, "node-cost", 0, "processor time of a jobrunner for a job: measured, required")
	flags.IntVar(&m.primaries, "primaries", 1, "databases, over which the endpoints are spread")
	flags.IntVar(&m.databaseCores, "database-cores", 2, "processors of each database")
	flags.DurationVar(&m.databaseCost, "database-cost", 0, "processor time of a database for a job: measured, required")
	flags.DurationVar(&m.commit, "commit", 0, "what a commit waits for the disk or a replica: measured")
	flags.IntVar(&m.workers, "workers", 1000, "workers")
	flags.DurationVar(&m.execution, "execution", 0, "execution time of a job: yours, required")
	duration := flags.Duration("time", 20*time.Second, "simulated time")
	seed := flags.Uint64("seed", 1, "of the random arrivals and costs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if m.nodeCost <= 0 || m.databaseCost <= 0 || m.execution <= 0 {
		return errors.New("missing costs: set -node-cost, -database-cost and -execution to what you measured")
	}
	if min(m.nodes, m.nodeCores, m.primaries, m.databaseCores, m.workers) < 1 || *duration <= 0 || m.commit < 0 {
		return errors.New("invalid number: expected at least one of everything")
	}
	nodes, databases, workers := m.bound()
	fmt.Fprintf(w, "bounds, in jobs per second: nodes %.0f, databases %.0f, workers %.0f\n", nodes, databases, workers)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "jobs/s\tcompleted/s\tp50\tp99\tnodes\tdatabases\tworkers\t")
	for text := range strings.SplitSeq(*rates, ",") {
		var err error
		if m.rate, err = strconv.ParseFloat(text, 64); err != nil || m.rate <= 0 {
			return fmt.Errorf("invalid rate %q: expected jobs per second", text)
		}
		o := m.simulate(*duration, *seed)
		fmt.Fprintf(table, "%s\t%.0f\t%s\t%s\t%.0f%%\t%.0f%%\t%.0f%%\t\n", text, o.completed, o.p50.Round(10*time.Microsecond), o.p99.Round(10*time.Microsecond),
			100*o.nodesBusy, 100*o.databaseBusy, 100*o.workBusy)
	}
	return table.Flush()
}
