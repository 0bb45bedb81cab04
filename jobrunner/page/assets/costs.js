// Today's costs of the deployment at the catalog's prices, by endpoint.

import { $, h, keyed, row, setNumbers, setText } from './dom.js';
import { duration, money } from './format.js';

const columns = ['Endpoint', 'Workers’ time', 'GPUs and CPUs', 'Disks', 'Cost'];
const classes = ['main', 'num', 'num', 'num', 'num'];

function make(c) {
  const tr = row(columns, classes);
  tr.name = c.endpoint ? h('a', { href: '#/endpoint/' + encodeURIComponent(c.endpoint) }) : h('b');
  tr.cells[0].append(tr.name);
  return tr;
}

function update(tr, c) {
  setText(tr.name, c.name);
  setText(tr.cells[1], c.time == null ? '–' : duration(Math.floor(c.time / 1000) * 1000));
  setNumbers(tr, 2, [c.compute, c.disk], (n) => (n == null ? '–' : money(n)));
  setText(tr.cells[4], money(c.total));
}

// showCosts updates the section. one is the shown endpoint, or undefined. It calls hint with true if the total is 0.
export function showCosts(s, names, one, hint) {
  const { costs } = s;
  const rows = costs.endpoints
    .filter((c) => !one || c.endpoint === one.id)
    .map((c) => (names.has(c.endpoint) ? { ...c, key: c.endpoint, name: names.get(c.endpoint) } : { ...c, key: c.endpoint, endpoint: '', name: `${c.endpoint} (deleted)` }));
  if (!one) {
    const rest = [['Network volumes', costs.volumes], ['Pods', costs.pods], ['Clusters', costs.clusters]];
    for (const [name, total] of rest) if (total) rows.push({ key: name, name, total });
    if (rows.length > 1) rows.push({ key: 'Total', name: 'Total', total: costs.total });
  }
  const total = one ? rows.reduce((n, c) => n + c.total, 0) : costs.total;
  $('costs-section').hidden = rows.length === 0;
  setText($('costs-count'), `${money(total)} since midnight, UTC`);
  keyed($('costs').tBodies[0], rows, (c) => c.key + (c.endpoint ? '' : ' '), make, update);
  hint(total === 0);
}
