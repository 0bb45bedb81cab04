"""A stand-in for the public worker SDK. It needs only the standard library.

On the wire it behaves like a worker of the SDK, including its weaknesses: a
blocking handler blocks the event loop, pings come from a process that outlives
a crash, a job taken after SIGTERM never runs, and a rejected result is lost.

STANDIN_RELEASE names an older release to imitate. Before 1.6.2, the result of a
generator that raises is lost, and pings continue to name the job. Before 1.4, the
worker requests its next job even so, and pauses before it starts a job. Before
1.10, it doesn't request the jobs to stop.
"""

import asyncio
import inspect
import json
import os
import select
import signal
import sys
import threading
import time
import traceback
import urllib.error
import urllib.parse
import urllib.request

WORKER = os.environ.get("RUNPOD_POD_ID", "")
KEY = os.environ.get("RUNPOD_AI_API_KEY", "")
RELEASE = os.environ.get("STANDIN_RELEASE", "")
VERSION = RELEASE or "stand-in"


def before(*release):
    """Reports whether the imitated release is older than a release."""
    return bool(RELEASE) and tuple(int(part) for part in RELEASE.split(".")) < release


POLL_TIMEOUT = 90  # seconds
SLOT_INTERVAL = 1  # seconds between checks for a free slot
QUEUE_INTERVAL = 0.1  # seconds between checks for a taken job
STOP_PAUSE = 1  # seconds after a job-stop request that returned no jobs
RATE_LIMIT_PAUSE = 5  # seconds after a 429
POST_RETRIES = (2, 3)  # seconds after a 5xx; then the result is dropped

LEVELS = ("NOTSET", "TRACE", "DEBUG", "INFO", "WARN", "ERROR")
LEVEL = os.environ.get("RUNPOD_LOG_LEVEL", os.environ.get("RUNPOD_DEBUG_LEVEL", "DEBUG"))


def log(*words, level="INFO", job=None):
    """Logs a line like the SDK: as JSON if there is an endpoint."""
    if LEVEL == "NOTSET" or LEVEL in LEVELS and LEVELS.index(LEVEL) > LEVELS.index(level):
        return
    message = " ".join(str(word) for word in words)
    if os.environ.get("RUNPOD_ENDPOINT_ID"):
        print(json.dumps({"requestId": job, "message": message, "level": level}), flush=True)
    else:
        print(f"{level:<7}| {job + ' | ' if job else ''}{message}", flush=True)


def uncaught(kind, value, trace):
    log(f"Uncaught exception | {traceback.format_exception(kind, value, trace)}", level="ERROR")


def address(variable, job=""):
    """Returns the URL in a variable, with its placeholders replaced."""
    url = os.environ.get(variable, "").replace("$RUNPOD_POD_ID", WORKER)
    return url.replace("$ID", job or WORKER)


def send(url, body=None, request_id=""):
    """Sends a request and returns the status and text of the response."""
    headers = {"Authorization": KEY}
    if body is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    if request_id:
        headers["X-Request-ID"] = request_id
    request = urllib.request.Request(url, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=POLL_TIMEOUT) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as err:
        return err.code, err.read().decode()


class Jobs:
    """The worker's jobs. The pinging process gets their ids after each change."""

    def __init__(self):
        self.ids = []
        self.latest = ""  # sent as X-Request-ID, even about another job
        self.stopped = set()
        self.pinger = None  # the pinging process's input

    def publish(self):
        os.write(self.pinger, (",".join(self.ids) + "\n").encode())

    def add(self, job):
        self.ids.append(job)
        self.latest = job
        self.publish()

    def remove(self, job):
        self.ids.remove(job)
        self.publish()


JOBS = Jobs()


def post(variable, job, body, stream=False):
    """Posts a job's output or progress. It is lost if it is rejected or not delivered."""
    url = address(variable, job) + f"&isStream={'true' if stream else 'false'}"
    try:
        text = json.dumps(body, ensure_ascii=False).encode()
    except TypeError as err:
        log(f"Error while returning job result. | {err}", level="ERROR", job=job)
        return
    for pause in (*POST_RETRIES, None):
        try:
            status, answer = send(url, text, JOBS.latest)
        except OSError as err:
            log(f"the result is lost: {err}", level="ERROR", job=job)
            return
        if status < 400:
            return
        log(f"the result was answered {status} {answer}", level="ERROR", job=job)
        if status < 500 or pause is None:
            return
        time.sleep(pause)


def progress_update(job, progress):
    """Reports progress from a thread, so the report may arrive after the result."""
    body = {"status": "IN_PROGRESS", "output": progress}
    threading.Thread(target=post, args=("RUNPOD_WEBHOOK_POST_OUTPUT", job["id"], body)).start()


def failure(err):
    return {
        "error": json.dumps(
            {
                "error_type": str(type(err)),
                "error_message": str(err),
                "error_traceback": traceback.format_exc(),
                "hostname": os.environ.get("RUNPOD_POD_HOSTNAME", "unknown"),
                "worker_id": WORKER,
                "runpod_version": VERSION,
            }
        )
    }


class LostResult(Exception):
    """Ends a job's task before its result is posted."""


class Worker:
    """Takes jobs and runs them on one event loop."""

    def __init__(self, config):
        self.config = config
        self.handler = config["handler"]
        self.streams = inspect.isgeneratorfunction(self.handler) or inspect.isasyncgenfunction(self.handler)
        self.alive = True
        self.concurrency = 1
        self.queue = []
        self.tasks = {}

    async def run(self):
        self.loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.shut_down)
        listen = [] if before(1, 10) else [asyncio.to_thread(self.listen)]
        await asyncio.gather(self.take(), self.work(), *listen)

    def shut_down(self, *_):
        """Ends the loops. A job that the open poll returns afterwards is lost."""
        self.alive = False

    async def take(self):
        modify = self.config.get("concurrency_modifier", lambda n: n)
        while self.alive:
            self.concurrency = modify(self.concurrency)
            # Release 1.3 counts the running handlers, and so no lost jobs.
            free = self.concurrency - (len(self.queue) + len(self.tasks) if before(1, 4) else len(JOBS.ids))
            if free <= 0:
                log("JobScaler.get_jobs | Queue is full. Retrying soon.", level="DEBUG")
                await asyncio.sleep(SLOT_INTERVAL)
                continue
            try:
                await self.poll(free)
            except OSError as err:
                log("Failed to get job. |", err, level="ERROR")

    async def poll(self, free):
        url = address("RUNPOD_WEBHOOK_GET_JOB")
        if free > 1:
            url = url.replace("/job-take/", "/job-take-batch/") + f"&batch_size={free}"
        url += f"&job_in_progress={1 if JOBS.ids else 0}"
        status, text = await asyncio.to_thread(send, url)
        if status == 429:
            await asyncio.sleep(RATE_LIMIT_PAUSE)
        if status != 200:
            if status not in (204, 400, 429):
                log("Failed to get job. |", status, text, level="ERROR")
            return
        jobs = json.loads(text)
        if before(1, 4):
            await asyncio.sleep(SLOT_INTERVAL)
        for job in jobs if isinstance(jobs, list) else [jobs]:
            if job.get("id") is None or job.get("input") is None:
                log("a job without id or input is dropped:", job)
                continue
            JOBS.add(job["id"])
            self.queue.append(job)

    def listen(self):
        """Polls for the jobs to stop, beside the poll for jobs. A worker that shuts
        down waits for the end of this poll."""
        url = address("RUNPOD_WEBHOOK_GET_JOB").replace("/job-take/", "/job-stop/")
        while self.alive:
            try:
                status, text = send(url)
            except OSError as err:
                status, text = 0, str(err)
            if status == 200:
                for job in json.loads(text)["jobsToStop"]:
                    log("Stopping job.", job=job)
                    JOBS.stopped.add(job)
                    self.loop.call_soon_threadsafe(self.stop, job)
                continue
            if status != 204:
                log("job-stop:", status, text)
            time.sleep(STOP_PAUSE)

    def stop(self, job):
        if task := self.tasks.get(job):
            task.cancel()

    async def work(self):
        while self.alive or self.queue:
            while self.queue and len(self.tasks) < self.concurrency:
                job = self.queue.pop(0)
                self.tasks[job["id"]] = asyncio.create_task(self.do(job))
            await asyncio.sleep(QUEUE_INTERVAL)
        log("Received shutdown signal: no more jobs start")
        await asyncio.gather(*self.tasks.values())

    async def do(self, job):
        lost = False  # pings continue to name a lost job
        try:
            body = await (self.stream(job) if self.streams else self.call(job))
            if self.config.get("refresh_worker"):
                body["stopPod"] = True
            if job["id"] not in JOBS.stopped:
                await asyncio.to_thread(post, "RUNPOD_WEBHOOK_POST_OUTPUT", job["id"], body, self.streams)
            if self.config.get("refresh_worker"):
                self.alive = False
        except asyncio.CancelledError:
            log("Job stopped.", job=job["id"])
        except LostResult as err:
            log("Task exception was never retrieved:", err, level="ERROR")
            lost = True
        finally:
            if not lost:
                JOBS.remove(job["id"])
            del self.tasks[job["id"]]

    async def call(self, job):
        try:
            output = self.handler(job)
            if inspect.isawaitable(output):
                output = await output
        except Exception as err:
            body = failure(err)
            log("Captured Handler Exception", level="ERROR", job=job["id"])
            log(json.dumps(json.loads(body["error"]), indent=4), level="ERROR")
            return body
        if not isinstance(output, dict):
            return {"output": output}
        error, refresh = output.pop("error", None), output.pop("refresh_worker", None)
        body = {"output": output} if output else {}
        if error:
            body["error"] = error
        if refresh:
            body["stopPod"] = True
        return body

    async def stream(self, job):
        outputs = []
        try:
            chunks = self.handler(job)
            if inspect.isasyncgen(chunks):
                async for chunk in chunks:
                    if error := await self.chunk(job, chunk, outputs):
                        return error
            else:
                for chunk in chunks:
                    if error := await self.chunk(job, chunk, outputs):
                        return error
        except Exception as err:
            if before(1, 6, 2):
                raise LostResult(f"Object of type {type(err).__name__} is not JSON serializable") from err
            return {"error": f"handler: {err} \ntraceback: {traceback.format_exc()}"}
        return {"output": outputs}

    async def chunk(self, job, chunk, outputs):
        """Posts a chunk. A chunk with an error is the result, and ends the stream."""
        if isinstance(chunk, dict) and chunk.get("error"):
            return {"error": str(chunk["error"])}
        if self.config.get("return_aggregate_stream"):
            outputs.append(chunk)
        await asyncio.to_thread(post, "RUNPOD_WEBHOOK_POST_STREAM", job["id"], {"output": chunk})
        return None


def ping(ids):
    """Pings forever, in its own process, with the job ids that it last read from a pipe."""
    interval = int(os.environ.get("RUNPOD_PING_INTERVAL", "10000")) / 1000
    jobs, partial = "", b""
    orphan = False
    while True:
        query = {"runpod_version": VERSION}
        if jobs:
            query["job_id"] = jobs
        try:
            send(address("RUNPOD_WEBHOOK_PING") + "&" + urllib.parse.urlencode(query))
        except OSError as err:
            log("ping:", err)
        due = time.monotonic() + interval
        while (left := due - time.monotonic()) > 0:
            if orphan:
                time.sleep(left)
            elif select.select([ids], [], [], left)[0]:
                data = os.read(ids, 1 << 16)
                orphan = not data
                *lines, partial = (partial + data).split(b"\n")
                if lines:
                    jobs = lines[-1].decode()


CHECKS = []


def register_fitness_check(check):
    CHECKS.append(check)
    return check


def check_fitness():
    """Runs the checks. If one fails, it reports the worker unhealthy and exits."""
    for check in CHECKS:
        try:
            check()
        except Exception as err:
            query = {
                "status": "unhealthy",
                "check": check.__name__,
                "reason": f"{type(err).__name__}: {err}"[:256],
                "runpod_version": VERSION,
            }
            send(address("RUNPOD_WEBHOOK_PING") + "&" + urllib.parse.urlencode(query))
            log(f"the check {check.__name__} failed: {err}")
            sys.exit(1)


def start(config):
    if not os.environ.get("RUNPOD_WEBHOOK_GET_JOB"):
        log("local test: there is no queue to poll")
        return
    print("--- Starting Serverless Worker |  Version stand-in ---", flush=True)
    sys.excepthook = uncaught
    check_fitness()
    ids, JOBS.pinger = os.pipe()
    if not (pinger := os.fork()):
        os.close(JOBS.pinger)
        ping(ids)
    try:
        asyncio.run(Worker(config).run())
    finally:
        os.kill(pinger, signal.SIGKILL)
