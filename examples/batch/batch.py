"""Counts the words of {"name": "a", "text": "…"}, stores the count in the volume as file a,
and returns all counts so far."""

import json
import os
import pathlib
import sys

job_input = json.load(sys.stdin)
# A container has the volume at its mount path, a local command in GPUCLOUD_VOLUME.
results = pathlib.Path(os.environ.get("GPUCLOUD_VOLUME", "/runpod-volume"))
(results / job_input["name"]).write_text(str(len(job_input["text"].split())))
print(json.dumps({file.name: int(file.read_text()) for file in sorted(results.iterdir())}))
