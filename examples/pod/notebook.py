"""Counts its starts on the volume and serves its working folder until it is stopped."""

import http.server
import os
import pathlib

# A container has the volume at its mount path, a local process in GPUCLOUD_VOLUME.
starts = pathlib.Path(os.environ.get("GPUCLOUD_VOLUME", "/work")) / "starts"
count = int(starts.read_text()) + 1 if starts.exists() else 1
starts.write_text(str(count))
print(f"start number {count}", flush=True)
# In a container, listen on 0.0.0.0:8888. A local process gets its port from RUNPOD_TCP_PORT_8888.
port = int(os.environ.get("RUNPOD_TCP_PORT_8888", "8888"))
http.server.ThreadingHTTPServer(("127.0.0.1", port), http.server.SimpleHTTPRequestHandler).serve_forever()
