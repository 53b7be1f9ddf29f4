// SPDX-License-Identifier: MIT
//
// Random operations over what a dump of the key space shows.
'use strict';

const { STEP } = require('./keyspace.js');

class Random {
  constructor(seed) {
    this.state = BigInt(seed) & 0xffffffffffffffffn;
  }
  // splitmix64
  next() {
    const mask = 0xffffffffffffffffn;
    this.state = (this.state + 0x9e3779b97f4a7c15n) & mask;
    let z = this.state;
    z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & mask;
    z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & mask;
    return Number((z ^ (z >> 31n)) >> 11n);
  }
  below(n) {
    return this.next() % n;
  }
  chance(percent) {
    return this.below(100) < percent;
  }
  pick(list) {
    return list[this.below(list.length)];
  }
}

const members = (key) => {
  const list = Array.isArray(key) ? key : (key && key.value) || [];
  return list.map((m) => m.split(' ')[0]);
};
const states = (dump) => ({
  waiting: members(dump.wait), active: members(dump.active), delayed: members(dump.delayed), prioritized: members(dump.prioritized),
  completed: members(dump.completed), failed: members(dump.failed),
});

const VALUES = [null, 1, 'text ü "q"', { a: [], b: {} }, [1, null], true, ''];

// The two sides have other defaults.
const SAID = { attempts: 1, removeOnComplete: false, removeOnFail: false, keepLogs: 1000, stackTraceLimit: 10 };

function options(r) {
  const o = { ...SAID, attempts: 1 + r.below(3) };
  if (r.chance(20)) o.delay = STEP * (1 + r.below(3));
  if (r.chance(30)) o.priority = 1 + r.below(3);
  if (r.chance(10)) o.lifo = true;
  if (r.chance(15)) o.jobId = `id${r.below(6)}`;
  if (r.chance(50)) o.backoff = { type: r.pick(['fixed', 'exponential']), delay: STEP };
  if (r.chance(25)) o.removeOnComplete = r.pick([true, { count: 2 }, { count: 3 }]);
  if (r.chance(25)) o.removeOnFail = r.pick([true, { count: 1 }, { count: 2 }]);
  if (r.chance(15)) o.keepLogs = 1 + r.below(2);
  if (r.chance(30)) {
    const d = { id: `d${r.below(3)}` };
    const mode = r.below(5);
    if (mode === 1) d.ttl = STEP;
    if (mode === 2) Object.assign(d, { ttl: STEP, extend: true });
    if (mode === 3) Object.assign(d, { ttl: STEP, replace: true });
    if (mode === 4) d.keepLastIfActive = true;
    o.deduplication = d;
  }
  return o;
}

const KINDS = [
  [30, (r) => ({ op: 'add', name: r.pick(['a', 'b']), data: r.pick(VALUES), opts: options(r) })],
  [20, () => ({ op: 'take' })],
  [9, (r, s) => on(r, s, ['active'], (id) => ({ op: 'complete', id, value: r.pick(VALUES) }))],
  [9, (r, s) => on(r, s, ['active'], (id) => ({ op: 'fail', id, reason: r.pick(['no', 'not "now"']) }))],
  [2, (r, s) => on(r, s, ['active'], (id) => ({ op: 'fatal', id, reason: 'never' }))],
  [3, (r, s) => on(r, s, ['active'], (id) => ({ op: 'release', id }))],
  [3, (r, s) => on(r, s, ['active'], (id) => ({ op: 'stall', id, maxStalled: 1 + r.below(2) }))],
  [2, (r, s) => on(r, s, ['active'], (id) => ({ op: 'extend', id }))],
  [4, (r, s) => on(r, s, ['active'], (id) => ({ op: 'progress', id, value: r.pick(VALUES) }))],
  [4, (r, s) => on(r, s, ['active'], (id) => ({ op: 'log', id, line: r.pick(['one', 'two ü']) }))],
  [2, (r, s) => on(r, s, null, (id) => ({ op: 'data', id, value: r.pick(VALUES) }))],
  [3, (r, s) => on(r, s, ['waiting', 'prioritized', 'delayed'], (id) => ({ op: 'priority', id, priority: r.below(4), lifo: r.chance(30) }))],
  [2, (r, s) => on(r, s, ['delayed', 'waiting'], (id) => ({ op: 'delay', id, delay: STEP * (1 + r.below(3)) }))],
  [4, (r, s) => on(r, s, ['delayed', 'waiting'], (id) => ({ op: 'promote', id }))],
  [3, (r, s) => on(r, s, ['failed', 'completed'], (id) => ({ op: 'retry', id }))],
  [4, (r, s) => on(r, s, null, (id) => ({ op: 'remove', id }))],
  [2, () => ({ op: 'pause' })],
  [4, () => ({ op: 'resume' })],
  [2, (r) => ({ op: 'concurrency', limit: r.below(3) })],
  [1, (r) => ({ op: 'drain', delayed: r.chance(50) })],
  [1, (r) => ({ op: 'clean', state: r.pick(['completed', 'failed', 'waiting', 'delayed', 'prioritized']) })],
  [1, (r) => ({ op: 'retryAll', state: r.pick(['failed', 'completed']) })],
  [1, () => ({ op: 'promoteAll' })],
  [1, (r) => ({ op: 'releaseDedup', dedup: `d${r.below(3)}` })],
  [1, () => ({ op: 'obliterate' })],
];
const TOTAL = KINDS.reduce((sum, [weight]) => sum + weight, 0);

// A job of one of the states (null = any); none: no such operation.
function on(r, s, of, make) {
  const ids = (of || Object.keys(s)).flatMap((state) => s[state]);
  return ids.length ? make(r.pick(ids)) : undefined;
}

function operation(r, dump) {
  const s = states(dump);
  for (;;) {
    let at = r.below(TOTAL);
    const [, make] = KINDS.find(([weight]) => (at -= weight) < 0);
    const o = make(r, s);
    if (o) return o;
  }
}

module.exports = { Random, SAID, operation, states };
