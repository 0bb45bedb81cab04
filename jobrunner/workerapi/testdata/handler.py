"""Handlers for the tests. A job's input selects what they do.

HANDLER selects the handler. It runs under the stand-in or, if WORKER_SDK_PATH is
set, under the public SDK in that folder.
"""

import asyncio
import os
import sys
import time

if os.environ.get("WORKER_SDK_PATH"):
    sys.path.insert(0, os.environ["WORKER_SDK_PATH"])
    from runpod import serverless
else:
    import standin as serverless


def respond(job):
    """Performs an operation that doesn't wait. By default it returns the input."""
    request = job["input"]
    match request.get("op"):
        case "return":
            return request.get("value")
        case "raise":
            raise ValueError(request["text"])
        case "crash":
            os._exit(3)
        case "restart":  # replaces this process; the process that pings continues
            if sys.argv[1:] == ["restarted"]:
                return "restarted"
            os.execv(sys.executable, [sys.executable, __file__, "restarted"])
        case "late progress":  # of a job that has ended
            serverless.progress_update({"id": request["of"]}, "late")
        case "length":
            return len(request["text"])
        case "seen":
            return {name: job[name] for name in sorted(job) if name not in ("id", "input")}
        case "env":
            return os.environ.get(request["name"])
    return request


async def awaiting(job):
    request = job["input"]
    if request.get("op") == "progress":
        for value in request["values"]:
            serverless.progress_update(job, value)
            await asyncio.sleep(request.get("every", 0.2))
        return "done"
    if request.get("op") == "sleep":
        print("began", job["id"], flush=True)
        await asyncio.sleep(request["seconds"])
    if request.get("op") == "hold":  # until the test creates the file
        print("began", job["id"], flush=True)
        while not os.path.exists(request["until"]):
            await asyncio.sleep(0.05)
        if request.get("then") == "crash":
            os._exit(3)
    return respond(job)


def blocking(job):
    if job["input"].get("op") == "sleep":
        print("began", job["id"], flush=True)
        time.sleep(job["input"]["seconds"])
    if job["input"].get("op") == "hold":
        print("began", job["id"], flush=True)
        while not os.path.exists(job["input"]["until"]):
            time.sleep(0.05)
    return respond(job)


async def streaming(job):
    for chunk in job["input"].get("chunks", []):
        yield chunk
        await asyncio.sleep(job["input"].get("every", 0))
    if job["input"].get("op") == "raise":
        raise ValueError(job["input"]["text"])


def unfit():
    raise RuntimeError("no room left on the disk")


CONFIG = {
    "awaiting": {"handler": awaiting},
    "blocking": {"handler": blocking},
    "streaming": {"handler": streaming},
    "aggregating": {"handler": streaming, "return_aggregate_stream": True},
    "two at a time": {"handler": awaiting, "concurrency_modifier": lambda _: 2},
    "fifty at a time": {"handler": awaiting, "concurrency_modifier": lambda _: 50},
    "fresh for each": {"handler": awaiting, "refresh_worker": True},
    "unfit": {"handler": awaiting},
}[os.environ.get("HANDLER", "awaiting")]

if __name__ == "__main__":
    if os.environ.get("HANDLER") == "unfit" and hasattr(serverless, "register_fitness_check"):
        serverless.register_fitness_check(unfit)
    serverless.start(CONFIG)
