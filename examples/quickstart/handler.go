// Handler estimates pi. It runs once per job, reads the input on stdin and writes lines of
// JSON. Each line is a chunk of the stream; the last one is the output.
//
//	{"samples": 3000000}
package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
)

const parts = 4 // chunks of the stream

func main() {
	if err := handle(); err != nil { // the job is FAILED with this error
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func handle() error {
	var input struct {
		Samples int `json:"samples"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&input); err != nil {
		return fmt.Errorf("the input is not {\"samples\": NUMBER}: %w", err)
	}
	if input.Samples == 0 {
		input.Samples, _ = strconv.Atoi(os.Getenv("SAMPLES")) // set by the template
	}
	if input.Samples < parts || input.Samples > 1e9 {
		return fmt.Errorf("samples is %d: send a number from %d to 1000000000", input.Samples, parts)
	}
	inside, drawn := 0, 0
	for part := range parts {
		for ; drawn < input.Samples*(part+1)/parts; drawn++ {
			if x, y := rand.Float64(), rand.Float64(); x*x+y*y < 1 {
				inside++
			}
		}
		estimate := map[string]any{"pi": 4 * float64(inside) / float64(drawn), "samples": drawn}
		if err := json.NewEncoder(os.Stdout).Encode(estimate); err != nil {
			return err
		}
	}
	return nil
}
