// The dialog that asks before something is done, and the line that says what came
// of it.

import { $, h, setText } from './dom.js';

const dialog = $('confirm');
let asked = null; // what it asks: {says, run, elsewhere}
let busy = false;

// confirm asks. title is a question, verb the name of the button. says answers the
// sentences that say what will happen; it is asked again while the dialog is open.
// run does it, and answers what came of it. elsewhere answers the element that gets
// the focus where the one that had it is gone.
export function confirm({ title, verb, says, run, elsewhere }) {
  asked = { says, run, elsewhere };
  busy = false;
  setText($('confirm-title'), title);
  setText($('confirm-yes'), verb);
  setText($('confirm-error'), '');
  setText($('outcome'), '');
  refreshConfirm();
  dialog.showModal();
}

// refreshConfirm brings what an open dialog says up to date.
export function refreshConfirm() {
  if (!asked) return;
  const sentences = asked.says();
  const box = $('confirm-text');
  if ([...box.children].map((p) => p.textContent).join('\n') !== sentences.join('\n')) box.replaceChildren(...sentences.map((s) => h('p', null, s)));
}

export const closeConfirm = () => dialog.open && dialog.close();

// A key that is held down would confirm what it has just asked for.
$('confirm-yes').addEventListener('keydown', (e) => { if (e.repeat) e.preventDefault(); });

$('confirm-form').addEventListener('submit', async (e) => {
  e.preventDefault();
  if (busy || !asked) return;
  const mine = asked;
  busy = true;
  setText($('confirm-error'), '');
  try {
    const outcome = await mine.run();
    if (asked === mine) dialog.close();
    setText($('outcome'), outcome);
    document.dispatchEvent(new Event('changed'));
  } catch (error) {
    if (asked === mine) setText($('confirm-error'), error.message);
  } finally {
    if (asked === mine) busy = false;
  }
});
$('confirm-no').addEventListener('click', () => dialog.close());
dialog.addEventListener('click', (e) => { if (e.target === dialog) dialog.close(); }); // beside it
dialog.addEventListener('close', () => {
  if (dialog.open) return; // it asks again already
  const { elsewhere } = asked ?? {};
  asked = null;
  const held = document.activeElement; // the browser gave the focus back, where what had it is still there
  if (held === document.body || dialog.contains(held)) elsewhere?.()?.focus();
});
