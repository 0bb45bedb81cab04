"""A worker with one slot. Its output is the time at which its handler started."""

import json
import os
import time
import urllib.request

WORKER = os.environ["RUNPOD_POD_ID"]
TAKE = os.environ["RUNPOD_WEBHOOK_GET_JOB"].replace("$ID", WORKER)
DONE = os.environ["RUNPOD_WEBHOOK_POST_OUTPUT"].replace("$RUNPOD_POD_ID", WORKER)


def ask(url, body=None):
    request = urllib.request.Request(url, data=body, headers={"Authorization": os.environ["RUNPOD_AI_API_KEY"]})
    with urllib.request.urlopen(request) as answer:
        return answer.status, answer.read()


def handler(job):
    return time.time()


while True:
    status, text = ask(TAKE + "&job_in_progress=0")
    if status == 200:
        job = json.loads(text)
        output = json.dumps({"output": handler(job)}).encode()
        ask(DONE.replace("$ID", job["id"]) + "&isStream=false", output)
