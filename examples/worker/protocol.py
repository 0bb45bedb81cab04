# protocol.py
# A worker without the SDK, for any language that can send HTTP requests.
import json
import os
import urllib.request


def call(variable, job="", body=None):
    worker = os.environ["RUNPOD_POD_ID"]
    url = os.environ[variable].replace("$RUNPOD_POD_ID", worker).replace("$ID", job or worker)
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Authorization": os.environ["RUNPOD_AI_API_KEY"]})
    with urllib.request.urlopen(request, timeout=100) as answer:
        return json.loads(answer.read() or "null")


while True:
    job = call("RUNPOD_WEBHOOK_GET_JOB")  # waits for a job; 204 without a body if none came
    if job is None:
        continue
    try:
        result = {"output": {"text": job["input"]["text"].upper()}}
    except Exception as error:
        result = {"error": repr(error)}
    call("RUNPOD_WEBHOOK_POST_OUTPUT", job["id"], result)
