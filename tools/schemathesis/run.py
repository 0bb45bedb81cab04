"""Tests a jobrunner with schemathesis against its OpenAPI documents: run.py JOBRUNNER [version/key ...]

Schemathesis also loads this file, for the hook. EXAMPLES=20 makes a short run, which
doesn't require that each line of accepted.tsv still occurs.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
SCOPES = {"full": [], "scoped": ["--management=read", "--jobs=read"]}


def accepted():
    """Returns the lines of accepted.tsv: code, operations, text, reason."""
    lines = [line.split("\t") for line in (FOLDER / "accepted.tsv").read_text().splitlines() if line and line[0] != "#"]
    for line in lines:
        if len(line) != 4 or not all(line):
            sys.exit(f"accepted.tsv: want code, operations, text and reason: {line}")
    return lines


if run := os.environ.get("SCHEMATHESIS_RUN"):
    import schemathesis

    TABLE = [(number, line[0], re.compile(line[1]), re.compile(line[2])) for number, line in enumerate(accepted())]
    seen = set()

    @schemathesis.hook
    def filter_failure(context, failure, case, response):
        """Keeps the failures that no line accepts, and records the lines that accept one."""
        operation = f"{run} {failure.operation}"
        text = f"{failure.message}\n{response.request.url}\n{response.content.decode(errors='replace')}"
        for number, code, operations, pattern in TABLE:
            if code == failure.code and operations.search(operation) and pattern.search(text):
                if number not in seen:
                    seen.add(number)
                    with open(os.environ["SCHEMATHESIS_SEEN"], "a") as file:
                        file.write(f"{number}\n")
                return False
        return True


def start(jobrunner, folder):
    """Starts a jobrunner. Returns the process, its address and a key for each scope."""
    keys = {
        name: subprocess.run([jobrunner, "keys", "add", "--data", folder, *scope, name], check=True, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True).stdout.strip()
        for name, scope in SCOPES.items()
    }
    process = subprocess.Popen(
        [jobrunner, "serve", "--ephemeral", "--limits=off", "--gpus=off", "--listen=127.0.0.1:0", "--keys", folder],
        env={**os.environ, "PATH": ""},  # without Docker and Podman, which would pull the image of each example
        stdout=subprocess.PIPE, stderr=open(Path(folder) / "log", "w"), text=True)
    for line in process.stdout:
        if line.startswith("export GPUCLOUD_BASE_URL="):
            return process, line.split("=", 1)[1].strip(), keys
    sys.exit("the jobrunner didn't start: " + (Path(folder) / "log").read_text())


def judge(url, version, name, key, folder, examples):
    """Runs schemathesis with one document and one key. Returns whether it found nothing new."""
    print(f"== {version}, {name} key", flush=True)
    done = subprocess.run(
        [Path(sys.executable).parent / "st", "--config-file", FOLDER / "schemathesis.toml", "run", f"{url}/{version}/openapi.json",
         "--header", f"Authorization: Bearer {key}", "--max-examples", examples],
        cwd=folder, env={**os.environ, "SCHEMATHESIS_HOOKS": str(FOLDER / "run.py"), "SCHEMATHESIS_RUN": f"{version} {name}",
                         "SCHEMATHESIS_SEEN": str(Path(folder) / "seen"), "PYTHONDONTWRITEBYTECODE": "1"})
    return done.returncode == 0


def main(jobrunner, *only):
    examples, ok, seen = os.environ.get("EXAMPLES") or "500", True, set()
    for version in "v1", "v2":
        with tempfile.TemporaryDirectory() as folder:
            process, url, keys = start(jobrunner, folder)
            try:
                for name, key in keys.items():
                    if not only or f"{version}/{name}" in only:
                        ok = judge(url, version, name, key, folder, examples) and ok
                        if process.poll() is not None:
                            sys.exit("the jobrunner ended: " + (Path(folder) / "log").read_text()[-5000:])
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait()
            if (Path(folder) / "seen").exists():
                seen |= set(map(int, (Path(folder) / "seen").read_text().split()))
    for number, line in enumerate(accepted()):
        if number not in seen:
            print("accepted.tsv: no longer occurs: " + "\t".join(line))
            ok = ok and (examples != "500" or bool(only))
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
