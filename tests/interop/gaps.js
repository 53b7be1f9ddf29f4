// SPDX-License-Identifier: MIT
//
// Where EchoMQ differs from BullMQ 6.7.0 on purpose: each row says why, what the differential test does not
// compare (`hide`, on both dumps) or does not play (`avoid`), and a proof: operations after which the two
// key spaces differ without the row.
'use strict';

const { SAID } = require('./lib/operations.js');

const add = (opts = {}) => ({ op: 'add', name: 'a', data: 1, opts: { ...SAID, ...opts } });

module.exports = [
  {
    name: 'the length of the stream of events is not written into a queue without one',
    why: 'BullMQ writes its default of 10000 into `meta` whenever a queue is opened; a script that misses it takes the same number',
    hide(dump) {
      if (dump.meta) delete dump.meta['opts.maxLenEvents'];
      if (dump.meta && !Object.keys(dump.meta).length) delete dump.meta;
    },
    proof: [add()],
  },
  {
    name: 'the counter of priorities begins in the middle',
    why: 'so that a job can go to the front of its own priority, below every number that was given out',
    hide(dump) {
      if (dump.pc) dump.pc = 'a counter';
    },
    proof: [add({ priority: 1 })],
  },
  {
    name: 'a clean that found nothing is no event',
    why: 'nothing happened',
    hide(dump) {
      if (dump.events) dump.events = dump.events.filter((e) => e !== 'event cleaned count 0');
    },
    proof: [add(), { op: 'clean', state: 'failed' }],
  },
];
