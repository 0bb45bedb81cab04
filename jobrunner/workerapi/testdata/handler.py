"""Handlers for the tests: what a job's input asks for is what they do.

HANDLER names the kind. They run under the stand-in, or with WORKER_SDK_PATH set
under the public SDK that lies there.
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


def instantly(job):
    """What needs no waiting, for every kind of handler."""
    ask = job["input"]
    match ask.get("op"):
        case "return":
            return ask.get("value")
        case "raise":
            raise ValueError(ask["text"])
        case "crash":
            os._exit(3)
        case "restart":  # the process begins anew, and the one that pings goes on
            if sys.argv[1:] == ["restarted"]:
                return "restarted"
            os.execv(sys.executable, [sys.executable, __file__, "restarted"])
        case "late progress":  # of a job that is over
            serverless.progress_update({"id": ask["of"]}, "late")
        case "length":
            return len(ask["text"])
        case "seen":
            return {name: job[name] for name in sorted(job) if name not in ("id", "input")}
        case "env":
            return os.environ.get(ask["name"])
    return ask


async def awaiting(job):
    ask = job["input"]
    if ask.get("op") == "progress":
        for one in ask["values"]:
            serverless.progress_update(job, one)
            await asyncio.sleep(ask.get("every", 0.2))
        return "done"
    if ask.get("op") == "sleep":
        print("began", job["id"], flush=True)
        await asyncio.sleep(ask["seconds"])
    if ask.get("op") == "hold":  # until the test makes the file
        print("began", job["id"], flush=True)
        while not os.path.exists(ask["until"]):
            await asyncio.sleep(0.05)
        if ask.get("then") == "crash":
            os._exit(3)
    return instantly(job)


def blocking(job):
    if job["input"].get("op") == "sleep":
        print("began", job["id"], flush=True)
        time.sleep(job["input"]["seconds"])
    if job["input"].get("op") == "hold":
        print("began", job["id"], flush=True)
        while not os.path.exists(job["input"]["until"]):
            time.sleep(0.05)
    return instantly(job)


async def streaming(job):
    for one in job["input"].get("chunks", []):
        yield one
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
