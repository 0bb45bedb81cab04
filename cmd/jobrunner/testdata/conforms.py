"""Implements builtin/conformance as a worker over the worker protocol.

/worker/attempts has a URL that returns the number of a job's dispatches.
"""

import asyncio
import json
import os
import signal
import urllib.request

from runpod import serverless


def attempt(job):
    with open("/worker/attempts") as file:
        request = urllib.request.Request(file.read().strip(), data=job["id"].encode())
    with urllib.request.urlopen(request, timeout=10) as answer:
        return int(answer.read())


def beacon(url, job, n):
    body = json.dumps({"id": job["id"], "attempt": 0, "n": n}).encode()
    try:
        request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=5).close()
    except OSError:
        pass  # the receiver has ended


def output_of(order):
    return {"output": order["output"]} if "output" in order else {}


class Worker(serverless.Worker):
    """Streams and returns at the same time, which a handler on the SDK can't."""

    async def call(self, job):
        order = job["input"]
        order = order.get("openai_input") or order
        pause = order.get("ms", 0) / 1000
        done = output_of(order)
        match order.get("op"):
            case "echo":
                return {"output": job["input"]}
            case "bytes":
                return {"output": "x" * order["n"]}
            case "sleep":
                await asyncio.sleep(pause)
                return done
            case "fail" | "crash" as op:
                if "times" in order and await asyncio.to_thread(attempt, job) > order["times"]:
                    return {"output": job["input"]}
                if op == "crash":
                    os._exit(3)
                message = "x" * order["bytes"] if order.get("bytes") else order.get("message") or "failed as ordered"
                return {**done, "error": message}
            case "stream":
                return await self.chunks(job, order, pause)
            case "beacon":
                every, n, left = order.get("every", 0) / 1000, 0, pause
                while True:
                    await asyncio.to_thread(beacon, order["url"], job, n)
                    if every == 0 or left <= 0 or every > left:
                        await asyncio.sleep(left)
                        return done
                    await asyncio.sleep(every)
                    left, n = left - every, n + 1
        return {"error": f"no such op: {order.get('op')}"}

    async def chunks(self, job, order, pause):
        outputs = order.get("outputs", [])
        for i in range(order.get("n", 0)):
            await asyncio.sleep(pause)
            chunk = {"n": i}
            if i < len(outputs):
                chunk = outputs[i]
            elif order.get("bytes"):
                chunk = "x" * order["bytes"]
            await asyncio.to_thread(serverless.post, "RUNPOD_WEBHOOK_POST_STREAM", job["id"], {"output": chunk}, True)
        done = output_of(order)
        return {**done, "error": order["message"]} if order.get("message") else done


if os.environ.get("RUNPOD_WEBHOOK_GET_JOB"):
    serverless.Worker = Worker
    serverless.start({"handler": None})
else:  # runs in a pod
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    signal.pause()
