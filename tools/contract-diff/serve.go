package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// served downloads the document of a jobrunner and returns its file. If the argument is a
// document, it returns the argument.
func served(jobrunner string) (file string, err error) {
	if filepath.Ext(jobrunner) == ".json" {
		return jobrunner, nil
	}
	const key = "contract-diff"
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, jobrunner, "serve", "--ephemeral", "--gpus=off", "--listen=127.0.0.1:0")
	cmd.Env = append(os.Environ(), "GPUCLOUD_API_KEY="+key)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("starting %s: %w", jobrunner, err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait() // it was killed
	}()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if url, ok := strings.CutPrefix(lines.Text(), "export GPUCLOUD_BASE_URL="); ok {
			return download(ctx, url+"/v2/openapi.json", key)
		}
	}
	return "", fmt.Errorf("%s serve printed no address: run it to see why", jobrunner)
}

func download(ctx context.Context, url, key string) (file string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answered %s", url, response.Status)
	}
	out, err := os.CreateTemp("", "contract-diff-*.json")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, response.Body)
	return out.Name(), errors.Join(err, out.Close())
}
