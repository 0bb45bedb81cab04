// The form that sends a job, and shows its stream and its end.

import { $, command, h, setText } from './dom.js';
import { actOnJob, mayCancel, mayRetry } from './actions.js';
import { call } from './call.js';
import { beginning, duration, words } from './format.js';

let endpoint = '';
let job = null; // {id, state}
let lost = ''; // id of the followed job, if the connection was lost
let turn = 0; // counts the shown jobs, so that late answers for an older one are ignored

const storageKey = (id) => 'gpucloud-input-' + id;

const isOver = (state) => !mayCancel(state);

// submission builds the body of a submission from the typed text: an input, or an object whose member
// input is an object.
function submission(text) {
  text ||= '{}';
  const value = JSON.parse(text);
  if (value === null || typeof value !== 'object' || Array.isArray(value)) throw new Error('Expected a JSON object.');
  const whole = value.input !== null && typeof value.input === 'object' && !Array.isArray(value.input);
  return whole ? text : `{"input": ${text}}`; // not value, whose numbers may be rounded
}

function showState(reply) {
  job = { id: reply.id, state: reply.status };
  setText($('send-state'), `${reply.id}: ${words(reply.status)}` + (reply.executionTime != null ? ` in ${duration(reply.executionTime)}` : ''));
  $('send-state').dataset.state = reply.status;
  $('send-cancel').disabled = !mayCancel(reply.status);
  $('send-retry').disabled = !mayRetry(reply.status);
}

const pretty = (value) => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));

function showEnd(reply) {
  showState(reply);
  const result = $('send-result');
  result.hidden = reply.output === undefined && !reply.error;
  setText(result, beginning([readable(reply.error), reply.output === undefined ? '' : pretty(reply.output)].filter(Boolean).join('\n')));
}

// follow shows the chunks of a job as they arrive, and its end.
async function follow(id) {
  const mine = turn;
  const stream = $('send-stream');
  let gap = lost;
  lost = '';
  try {
    while (mine === turn) {
      const reply = await call('stream', { endpoint, id });
      if (mine !== turn) return;
      if (gap) stream.append(h('div', { class: 'muted' }, 'The connection was lost: chunks may be missing here.'));
      gap = '';
      for (const chunk of reply.stream) stream.append(h('div', null, beginning(pretty(chunk.output))));
      while (stream.childElementCount > 1000) stream.firstElementChild.remove(); // a stream may run for days
      stream.hidden = !stream.childElementCount;
      stream.scrollTop = stream.scrollHeight;
      if (isOver(reply.status)) break;
      showState({ id, status: reply.status });
    }
    const reply = await call('status', { endpoint, id });
    if (mine === turn) showEnd(reply);
  } catch (e) {
    if (mine !== turn) return;
    if (e.isOutage) lost = id;
    throw e;
  }
}

// showingErrors runs work, and shows its error in the form.
async function showingErrors(work) {
  setText($('send-error'), '');
  try {
    await work();
  } catch (e) {
    setText($('send-error'), e.message);
  }
}

// readable returns the traceback of an exception, which the public SDK reports as JSON. Other errors are unchanged.
function readable(error) {
  try {
    return JSON.parse(error).error_traceback || error;
  } catch {
    return error;
  }
}

function clear() {
  turn++;
  [job, lost] = [null, ''];
  $('send-cancel').disabled = $('send-retry').disabled = true;
  $('send-stream').replaceChildren();
  $('send-stream').hidden = $('send-result').hidden = true;
  setText($('send-state'), '');
  setText($('send-error'), '');
}

async function send(op) {
  const body = submission($('send-input').value);
  try {
    localStorage.setItem(storageKey(endpoint), $('send-input').value);
  } catch { /* the browser may not allow storage */ }
  clear();
  const mine = turn;
  if (op === 'runsync') setText($('send-state'), 'Waiting for the end …');
  const reply = await call(op, { endpoint }, body).catch((e) => {
    if (mine !== turn) return;
    setText($('send-state'), '');
    throw e;
  });
  if (mine !== turn) return;
  showEnd(reply);
  if (!isOver(reply.status)) await follow(reply.id);
}

// showForm updates the form from a snapshot. one is the endpoint, or undefined for all.
export function showForm(one, jobs) {
  $('send-section').hidden = !one || one.type !== 'QUEUE';
  if (one?.id === endpoint) {
    const now = jobs.find((j) => j.id === job?.id)?.state; // a stream without chunks is answered after seconds
    if (job?.state === 'IN_QUEUE' && now === 'IN_PROGRESS') showState({ id: job.id, status: now });
    if (lost) showingErrors(() => follow(lost)); // the deployment answers again
  }
  if (!one || one.id === endpoint) return;
  clear();
  endpoint = one.id;
  let text = null;
  try {
    text = localStorage.getItem(storageKey(endpoint));
  } catch { /* the browser may not allow storage */ }
  $('send-input').value = text ?? '{\n  "say": "hello"\n}';
  $('send-variable').replaceChildren(command(`export RUNPOD_ENDPOINT_BASE_URL=${location.origin}/live/v2`));
}

$('send-form').addEventListener('submit', (e) => {
  e.preventDefault();
  showingErrors(() => send(e.submitter?.value ?? 'run'));
});

// onAction lets a button act on the form's job. Then show shows the answer, unless the form has another job.
const onAction = (op, show) => $('send-' + op).addEventListener('click', () => {
  const mine = turn;
  actOnJob(op, { ...job, endpoint }, (reply) => mine === turn && show(reply), () => $('send-input'));
});
onAction('cancel', showState);
onAction('retry', (reply) => showingErrors(() => {
  clear();
  showState(reply);
  return follow(reply.id);
}));
