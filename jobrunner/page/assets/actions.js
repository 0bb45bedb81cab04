// The actions of the page. Each describes its effect before it runs. The APIs authorize them.

import { call } from './call.js';
import { confirm } from './confirm.js';
import { compute, count, words } from './format.js';

const things = (n, thing) => (n === 1 ? `1 ${thing}` : `${count(n)} ${thing}s`);
const jobs = (n) => things(n, 'job');

// withVerb returns a number of jobs, or other things, with a verb in the singular or plural.
const withVerb = (n, one, many, thing = 'job') => `${things(n, thing)} ${n === 1 ? one : many}`;

const podEffects = {
  start: (p) => [`It starts as soon as its compute is free (${compute(p)}).`, 'Its disk is new; its volume, if it has one, is kept.'],
  stop: () => ['Its program is asked to end, and killed after 5 seconds. It releases its GPUs, and stays stopped until somebody starts it.', 'Its disk is deleted; its volume, if it has one, is kept.'],
  restart: () => ['Its program is asked to end, killed after 5 seconds, and started again. It keeps its GPUs.', 'Its disk is deleted; its volume, if it has one, is kept.'],
};
const capital = (text) => text[0].toUpperCase() + text.slice(1);

// actOnPod asks to confirm one of the actions that the pod allows.
export function actOnPod(action, p, fallbackFocus) {
  const name = p.name || p.id;
  confirm({
    title: `${capital(action)} pod ${name}?`, verb: `${capital(action)} pod`, fallbackFocus, effects: () => podEffects[action](p),
    run: async () => `Pod ${name} is ${words((await call(action + '-pod', { id: p.id })).status)}.`,
  });
}

// stopEndpoint sets the maximum number of workers to 0. current returns the current endpoint.
export function stopEndpoint(current, fallbackFocus) {
  const e = current();
  const name = e.name || e.id;
  const effects = () => {
    const { min, max, queued, running, type } = current();
    const change = `Sets workers.min (now ${min}) and workers.max (now ${max}) to 0. If Terraform manages the endpoint, its next apply undoes that.`;
    if (type !== 'QUEUE') return [change, 'Its workers finish their open requests and end. Further requests wait, at most two minutes.'];
    return [
      change,
      `${running ? withVerb(running, 'runs', 'run') : 'No job runs'}. Workers finish their jobs, and end.`,
      `${queued ? withVerb(queued, 'waits', 'wait') : 'No job waits'}. Further jobs are accepted. All wait until workers are allowed again or their time to live ends.`,
    ];
  };
  confirm({
    title: `Stop endpoint ${name}?`, verb: 'Stop endpoint', effects, fallbackFocus,
    run: async () => {
      await call('stop-endpoint', { endpoint: e.id });
      const { running } = current();
      return `Endpoint ${name} is stopped: it can’t have workers.` + (running ? ` ${withVerb(running, 'is', 'are')} being finished.` : '');
    },
  });
}

// purgeQueue removes the waiting jobs.
export function purgeQueue(current, fallbackFocus) {
  const e = current();
  const name = e.name || e.id;
  const effects = () => {
    const { queued, running } = current();
    return [
      queued ? `Removes ${withVerb(queued, 'that waits', 'that wait')}. They can’t be brought back: their status is not found.` : 'No job waits: nothing is removed.',
      running ? `${withVerb(running, 'that runs is', 'that run are')} not affected.` : 'No job runs.',
    ];
  };
  confirm({
    title: `Purge the queue of ${name}?`, verb: 'Purge queue', effects, fallbackFocus,
    run: async () => `Removed ${jobs((await call('purge-queue', { endpoint: e.id })).removed)} from the queue of ${name}.`,
  });
}

const jobEffects = {
  cancel: (j) => [`1 job is affected, which ${j.state === 'IN_PROGRESS' ? 'runs: its execution is stopped' : 'waits: it never runs'}. It can’t be retried.`],
  retry: () => ['1 job is affected: it goes to the end of the queue with its id and its input. Its error and its output are removed.'],
};

export const mayRetry = (state) => ['FAILED', 'TIMED_OUT'].includes(state);
export const mayCancel = (state) => ['IN_QUEUE', 'IN_PROGRESS'].includes(state);

// actOnJob asks to confirm that a job is cancelled or retried, and calls done with the answer.
export function actOnJob(op, j, done, fallbackFocus) {
  confirm({
    title: `${capital(op)} job ${j.id}?`, verb: `${capital(op)} job`, fallbackFocus, effects: () => jobEffects[op](j),
    run: async () => {
      const reply = await call(op, { endpoint: j.endpoint, id: j.id });
      done(reply);
      return `Job ${j.id} is ${words(reply.status)}.`;
    },
  });
}

// mayCancelBatch reports whether requests of a batch wait or run.
export const mayCancelBatch = (b) => b.status === 'DRAFT' || b.status === 'FINALIZED' && b.requestCompleted + b.requestFailed < b.requestTotal;

// cancelBatch asks to confirm that a batch is cancelled. current returns the current batch.
export function cancelBatch(endpoint, current, fallbackFocus) {
  const { id, name } = current();
  const effects = () => {
    const b = current();
    const waits = b.requestTotal - b.requestInProgress - b.requestCompleted - b.requestFailed;
    return [
      waits ? `${withVerb(waits, 'waits: it never runs', 'wait: they never run', 'request')}.` : 'No request waits.',
      b.requestInProgress ? `${withVerb(b.requestInProgress, 'runs, and ends', 'run, and end', 'request')} before the batch is cancelled.` : 'No request runs.',
    ];
  };
  confirm({
    title: `Cancel batch ${name || id}?`, verb: 'Cancel batch', effects, fallbackFocus,
    run: async () => {
      const reply = await call('cancel-batch', { endpoint, id });
      return reply.requestInProgress ? `Batch ${name || id} is cancelled as soon as ${withVerb(reply.requestInProgress, 'has', 'have', 'request')} ended.` : `Batch ${name || id} is ${words(reply.status)}.`;
    },
  });
}
