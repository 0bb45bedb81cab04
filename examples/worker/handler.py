"""A worker on the public Python SDK: pip install runpod."""

import runpod


def handler(job):
    return {"text": job["input"]["text"].upper()}


runpod.serverless.start({"handler": handler})
