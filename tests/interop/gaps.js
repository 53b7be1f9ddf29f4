// SPDX-License-Identifier: MIT
//
// Where EchoMQ differs from BullMQ 6.7.0 on purpose: each row says why, what the differential test does not
// compare (`hide`, on both dumps) or does not play (`avoid`), and a proof: operations after which the two
// key spaces differ without the row.
'use strict';

const { SAID, states } = require('./lib/operations.js');
const { STEP } = require('./lib/keyspace.js');

const add = (opts = {}) => ({ op: 'add', name: 'a', data: 1, opts: { ...SAID, ...opts } });

const DEDUP_LAST = { deduplication: { id: 'd0', keepLastIfActive: true } };

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
    name: 'the counter of priorities begins in the middle and stays',
    why: 'so that a job can go to the front of its own priority, below every number that was given out',
    hide(dump) {
      delete dump.pc;
    },
    proof: [add({ priority: 1 })],
  },
  {
    name: 'a clean that found nothing is no event',
    why: 'nothing happened',
    hide(dump) {
      if (dump.events) dump.events = dump.events.filter((e) => e !== 'event cleaned count 0');
      if (dump.events && !dump.events.length) delete dump.events;
    },
    proof: [add(), { op: 'clean', state: 'failed' }],
  },
  {
    name: 'a job that is given back was not started',
    why: 'a clean give-back is not charged to the job: its count of starts is put back too',
    hide(dump, log) {
      for (const o of log) if (o.op === 'release' && dump[o.id]) delete dump[o.id].ats;
    },
    proof: [add(), { op: 'take' }, { op: 'release', id: '1' }],
  },
  {
    name: 'bulk promotion is promotion',
    why: 'BullMQ forgets the priorities of the jobs and leaves their delay in their record',
    avoid: (o, dump) => o.op === 'promoteAll' && dump.delayed,
    proof: [add({ delay: STEP, priority: 2 }), { op: 'promoteAll' }],
  },
  {
    name: 'bulk retry keeps priorities',
    why: 'BullMQ puts all of them into `wait`, in front of every priority',
    avoid: (o, dump) => o.op === 'retryAll' && states(dump)[o.state].some((id) => dump[id].priority !== '0'),
    proof: [add({ priority: 2 }), { op: 'take' }, { op: 'fatal', id: '1', reason: 'no' }, { op: 'retryAll', state: 'failed' }],
  },
  {
    name: 'a lifo job with a priority goes to the front of that priority',
    why: 'BullMQ puts it behind its equals, as if it were none',
    avoid: (o, dump) =>
      (o.op === 'add' && o.opts.lifo && o.opts.priority) || (o.op === 'fail' && dump[o.id]?.opts.lifo && dump[o.id].priority !== '0'),
    proof: [add({ priority: 2 }), add({ priority: 2, lifo: true })],
  },
  {
    name: 'a retry by hand goes to the end of the line',
    why: 'lifo is for the add; what was put back by an administrator passes nobody',
    avoid: (o, dump) => o.op === 'retry' && dump[o.id] && dump[o.id].opts.lifo,
    proof: [add({ lifo: true }), { op: 'take' }, { op: 'fatal', id: '1', reason: 'no' }, add(), { op: 'retry', id: '1' }],
  },
  {
    name: 'a sweep does not mark what it saw',
    why: 'a job that EchoMQ handed out had a lock, so that its end is seen at the first look; `stalled` holds BullMQ’s second looks',
    hide(dump) {
      delete dump.stalled;
      delete dump['stalled-check'];
    },
    proof: [add(), { op: 'take' }, { op: 'sweep', maxStalled: 1 }],
  },
  {
    name: 'a recovered job with a priority goes to the front of that priority',
    why: 'BullMQ puts it into `wait`, in front of everything',
    avoid: (o, dump) => o.op === 'stall' && dump[o.id].priority !== '0',
    proof: [add({ priority: 2 }), { op: 'take' }, { op: 'stall', id: '1', maxStalled: 1 }],
  },
  {
    name: 'the sweep itself fails a job that stalled too often',
    why: 'BullMQ puts it back into the line, for the next worker to fail it when it comes to it',
    avoid: (o, dump) => o.op === 'stall' && Number(dump[o.id].stc || 0) >= o.maxStalled,
    proof: [add(), { op: 'take' }, { op: 'stall', id: '1', maxStalled: 0 }],
  },
  {
    name: 'a dedup id that is given free forgets what was kept for it',
    why: 'BullMQ leaves the kept job, which then runs after the former owner beside a new one',
    avoid: (o, dump) => o.op === 'releaseDedup' && dump[`dn:${o.dedup}`],
    proof: [add(DEDUP_LAST), { op: 'take' }, add(DEDUP_LAST), { op: 'releaseDedup', dedup: 'd0' }],
  },
  {
    name: 'an obliterated queue leaves no dedup window',
    why: 'BullMQ leaves the windows of finished jobs, which drop the first adds of a new queue of that name',
    avoid: (o, dump) => o.op === 'obliterate' && Object.keys(dump).some((k) => /^d[en]:/.test(k)),
    proof: [add({ removeOnComplete: true, deduplication: { id: 'd0', ttl: STEP } }), { op: 'take' }, { op: 'complete', id: '1', value: 1 }, { op: 'obliterate' }],
  },
  {
    name: 'resuming a queue at its concurrency limit wakes nobody',
    why: 'nobody could take a job; whoever frees a slot wakes a worker',
    avoid: (o, dump) => o.op === 'resume' && dump.meta && dump.meta.concurrency && states(dump).active.length >= dump.meta.concurrency,
    proof: [{ op: 'concurrency', limit: 1 }, add(), add(), { op: 'take' }, { op: 'pause' }, { op: 'resume' }],
  },
  {
    name: 'a changed concurrency limit tells the workers',
    why: 'BullMQ writes no marker, and a worker that sleeps at the old limit sleeps on',
    avoid: (o, dump) => o.op === 'concurrency' && (dump.delayed || dump.wait || dump.prioritized),
    proof: [add({ delay: STEP }), { op: 'pause' }, { op: 'concurrency', limit: 2 }, { op: 'concurrency', limit: 0 }],
  },
  {
    name: 'a dedup id with a kept job gets no window',
    why: 'the kept job takes the id over when its owner ends; BullMQ lets an add with `extend` put that on a timer',
    avoid: (o, dump) => o.op === 'add' && o.opts.deduplication?.extend && dump[`dn:${o.opts.deduplication.id}`],
    proof: [add(DEDUP_LAST), { op: 'take' }, add(DEDUP_LAST), add({ deduplication: { id: 'd0', ttl: STEP, extend: true } })],
  },
  {
    name: 'a kept duplicate whose own id another job has by then gets the next one',
    why: 'BullMQ lets that other job hold the dedup id, and what was kept is lost',
    avoid: (o, dump) => o.op === 'add' && o.opts.jobId && o.opts.deduplication?.keepLastIfActive && dump[`de:${o.opts.deduplication.id}`],
    proof: [add(DEDUP_LAST), { op: 'take' }, add({ ...DEDUP_LAST, jobId: 'id1' }), add({ jobId: 'id1' }), { op: 'complete', id: '1', value: 1 }],
  },
  {
    name: 'who is put in front of a priority is in front of whom was put there before',
    why: 'BullMQ gives both the same score, so that their ids decide',
    avoid(o, dump, log) {
      const front = (x) => x.op === 'release' || (x.op === 'priority' && x.lifo);
      const priority = String(o.priority ?? dump[o.id]?.priority);
      return front(o) && states(dump).prioritized.some((id) => dump[id].priority === priority && log.some((x) => front(x) && x.id === id));
    },
    proof: ['1', '2'].flatMap(() => add({ priority: 3 })).concat(['1', '2'].map((id) => ({ op: 'priority', id, priority: 3, lifo: true }))),
  },
  {
    name: 'a job with a priority that is given back wakes a worker',
    why: 'BullMQ writes no marker then, so that a sleeping worker sleeps on beside a job that is ready',
    avoid: (o, dump) => o.op === 'release' && dump[o.id] && dump[o.id].priority !== '0' && !dump.marker?.includes('0 0'),
    proof: [add({ priority: 2 }), { op: 'take' }, { op: 'pause' }, { op: 'resume' }, { op: 'release', id: '1' }],
  },
  {
    name: 'a slot that a job leaves for its backoff wakes a worker at the concurrency limit',
    why: 'BullMQ writes no marker then, so that a sleeping worker sleeps on beside a free slot and a job that is ready',
    avoid(o, dump) {
      const job = dump[o.id];
      const waits = o.op === 'fail' && job?.opts?.backoff && Number(job.atm || 0) + 1 < job.opts.attempts;
      return waits && dump.meta?.concurrency && states(dump).active.includes(o.id) && (dump.wait || dump.prioritized) && !dump.marker?.includes('0 0');
    },
    proof: [add({ attempts: 2, backoff: { type: 'fixed', delay: STEP } }), { op: 'take' }, { op: 'pause' }, { op: 'resume' }, { op: 'concurrency', limit: 1 }, add(), { op: 'fail', id: '1', reason: 'no' }],
  },
];
