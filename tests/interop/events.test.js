// SPDX-License-Identifier: MIT
//
// What BullMQ's QueueEvents hear of each side, and what `emq tail` hears of BullMQ.
'use strict';

const { QueueEvents } = require('bullmq');
const { EmqSide } = require('./lib/emq_side.js');
const { assert, both, connection, each, file, open, redis, until } = require('./lib/harness.js');

const NAMES = [
  'added', 'waiting', 'delayed', 'active', 'progress', 'completed', 'failed', 'retries-exhausted', 'stalled',
  'removed', 'cleaned', 'drained', 'paused', 'resumed', 'duplicated', 'deduplicated', 'waiting-children',
];

// Everything heard from now on, as BullMQ hands it to a listener; an error ends the test. By default it would miss what
// comes between its being ready and its first read.
async function listen(q, keep) {
  const [last] = await redis.xrevrange(`bull:${q}:events`, '+', '-', 'COUNT', 1);
  const events = new QueueEvents(q, { connection, lastEventId: last ? last[0] : '0-0' });
  keep(events, () => events.close());
  const heard = [];
  for (const name of NAMES)
    events.on(name, (args) => {
      const plain = { ...args };
      if (name === 'drained') return heard.push([name, {}]);
      if (name === 'delayed') plain.delay = typeof plain.delay;
      heard.push([name, plain]);
    });
  events.on('error', (e) => heard.push(['error', { message: e.message }]));
  await events.waitUntilReady();
  return heard;
}
const of = (heard, id) => heard.filter(([, a]) => a.jobId === id);

both('a job is heard from the add to its end', async ({ q, p, w, keep }) => {
  const heard = await listen(q, keep);
  await w.work(q);
  const id = await p.add(q, 'mail', { do: 'tell', progress: [{ at: 1 }], value: { ok: ['ü', null] } });
  await until('it is completed', () => of(heard, id).some(([name]) => name === 'completed'));
  assert.deepEqual(of(heard, id), [
    ['added', { jobId: id, name: 'mail' }],
    ['waiting', { jobId: id }],
    ['active', { jobId: id, prev: 'waiting' }],
    ['progress', { jobId: id, data: { at: 1 } }],
    ['completed', { jobId: id, returnvalue: { ok: ['ü', null] }, prev: 'active' }],
  ]);
  await until('the queue is empty', () => heard.some(([name]) => name === 'drained'));
});

both('every kind of result leaves the listener alive', async ({ q, p, w, keep }) => {
  const heard = await listen(q, keep);
  await w.work(q);
  const values = [null, '', 'text', 'quote " \\ \u2028', 0, -1.5e-7, true, [], {}, [[], {}], { a: { b: [] } }];
  for (const value of values) {
    const id = await p.add(q, 'job', { do: 'return', value });
    const [, args] = await until('it is heard', () => of(heard, id).find(([name]) => name === 'completed'));
    assert.deepEqual(args.returnvalue, value);
  }
  const id = await p.add(q, 'job', { do: 'return' }); // undefined
  const [, args] = await until('it is heard', () => of(heard, id).find(([name]) => name === 'completed'));
  assert.equal(args.returnvalue, null);
});

both('retries and the end of them are heard', async ({ q, p, w, keep }) => {
  const heard = await listen(q, keep);
  await w.work(q);
  const id = await p.add(q, 'job', { do: 'throw', message: 'a "reason"' }, { attempts: 3, backoff: { type: 'fixed', delay: 20 } });
  await until('it is over', () => of(heard, id).some(([name]) => name === 'retries-exhausted'));
  const again = [
    ['active', { jobId: id, prev: 'waiting' }],
    ['delayed', { jobId: id, delay: 'number' }],
    ['waiting', { jobId: id, prev: 'delayed' }],
  ];
  assert.deepEqual(of(heard, id), [
    ['added', { jobId: id, name: 'job' }],
    ['waiting', { jobId: id }],
    ...again,
    ...again,
    ['active', { jobId: id, prev: 'waiting' }],
    ['failed', { jobId: id, failedReason: 'a "reason"', prev: 'active' }],
    ['retries-exhausted', { jobId: id, attemptsMade: '3' }],
  ]);
});

both('an immediate retry is heard', async ({ q, p, w, keep }) => {
  const heard = await listen(q, keep);
  await w.work(q);
  const id = await p.add(q, 'job', { do: 'throwUntil', attempt: 2, value: 1 }, { attempts: 2 });
  await until('it is over', () => of(heard, id).some(([name]) => name === 'completed'));
  assert.deepEqual(of(heard, id).slice(2), [
    ['active', { jobId: id, prev: 'waiting' }],
    ['waiting', { jobId: id, prev: 'active' }],
    ['active', { jobId: id, prev: 'waiting' }],
    ['completed', { jobId: id, returnvalue: 1, prev: 'active' }],
  ]);
});

each('adds of every kind are heard', async ({ q, side, keep }) => {
  const heard = await listen(q, keep);
  const a = await side.add(q, 'job', {}, { jobId: 'own' });
  await side.add(q, 'job', {}, { jobId: 'own' });
  const b = await side.add(q, 'job', {}, { delay: 100000 });
  const c = await side.add(q, 'job', {}, { priority: 4 });
  const d = await side.add(q, 'job', {}, { deduplication: { id: 'x' } });
  await side.add(q, 'job', {}, { deduplication: { id: 'x' } });
  const e = await side.add(q, 'job', {}, { delay: 100000, deduplication: { id: 'y', ttl: 100000, replace: true } });
  const f = await side.add(q, 'job', {}, { delay: 100000, deduplication: { id: 'y', ttl: 100000, replace: true } });
  await until('the last one is heard', () => of(heard, f).some(([name]) => name === 'delayed'));
  const dropped = heard.find(([name]) => name === 'deduplicated')[1].deduplicatedJobId;
  assert.deepEqual(heard, [
    ['added', { jobId: a, name: 'job' }], ['waiting', { jobId: a }],
    ['duplicated', { jobId: a }],
    ['added', { jobId: b, name: 'job' }], ['delayed', { jobId: b, delay: 'number' }],
    ['added', { jobId: c, name: 'job' }], ['waiting', { jobId: c }],
    ['added', { jobId: d, name: 'job' }], ['waiting', { jobId: d }],
    ['deduplicated', { jobId: d, deduplicationId: 'x', deduplicatedJobId: dropped }],
    ['added', { jobId: e, name: 'job' }], ['delayed', { jobId: e, delay: 'number' }],
    ['removed', { jobId: e, prev: 'delayed' }],
    ['deduplicated', { jobId: f, deduplicationId: 'y', deduplicatedJobId: e }],
    ['added', { jobId: f, name: 'job' }], ['delayed', { jobId: f, delay: 'number' }],
  ]);
});

each('administration is heard', async ({ q, side, node, keep }) => {
  const worker = await node.work(q);
  const bad = await node.add(q, 'job', { do: 'fatal', message: 'x' });
  await node.finished(q, bad);
  const good = await node.add(q, 'job', {});
  await node.finished(q, good);
  await worker.stop();
  const [a, b] = [await node.add(q, 'job', {}, { delay: 100000 }), await node.add(q, 'job', {}, { priority: 2 })];
  const heard = await listen(q, keep);
  await side.pause(q);
  await side.resume(q);
  await side.promote(q, a);
  await side.retry(q, bad);
  await side.remove(q, a);
  await side.remove(q, b);
  await side.clean(q, 'completed', 0);
  await until('the last one is heard', () => heard.some(([name]) => name === 'cleaned'));
  assert.deepEqual(heard, [
    ['paused', {}],
    ['resumed', {}],
    ['waiting', { jobId: a, prev: 'delayed' }],
    ['waiting', { jobId: bad, prev: 'failed' }],
    ['removed', { jobId: a, prev: 'wait' }],
    ['removed', { jobId: b, prev: 'prioritized' }],
    ['cleaned', { count: '1' }],
  ]);
});

both('emq tail tells every event of the stream as it is', async ({ q, p, w, keep }) => {
  await w.work(q);
  const id = await p.add(q, 'job', { do: 'tell', progress: [{ at: 1 }], value: { a: 'ü "q"' } });
  await p.finished(q, id);
  await p.finished(q, await p.add(q, 'job', { do: 'throw', message: 'no "luck"' }, { attempts: 2 }));
  await w.pause(q);
  const emq = new EmqSide({ url: process.env.EMQ_TEST_SERVER, keep });
  const told = (await emq.ok('tail', q, '--all', '--wait', '0', '--json')).trim().split('\n').map((l) => JSON.parse(l));
  const stream = await redis.xrange(`bull:${q}:events`, '-', '+');
  assert.deepEqual(told.map((e) => [e.id, e.event, e.jobId]), stream.map(([at, f]) => [at, f[1], f[2] === 'jobId' ? f[3] : undefined]));
  assert.deepEqual(told.find((e) => e.event === 'completed').returnvalue, { a: 'ü "q"' });
});

both('a recovered job is heard', async ({ q, p, w, keep }) => {
  const [gate, lock] = [file(), { lock: 1000, stalled: 300 }];
  const heard = await listen(q, keep);
  const dead = await p.work(q, { ...lock, process: true });
  const id = await p.add(q, 'job', { do: 'hold', gate });
  await until('it runs', () => of(heard, id).some(([name]) => name === 'active'));
  await dead.kill();
  await w.work(q, lock);
  open(gate);
  await until('it is over', () => of(heard, id).some(([name]) => name === 'completed'));
  assert.deepEqual(of(heard, id).slice(2), [
    ['active', { jobId: id, prev: 'waiting' }],
    ['waiting', { jobId: id, prev: 'active' }],
    ['stalled', { jobId: id }],
    ['active', { jobId: id, prev: 'waiting' }],
    ['completed', { jobId: id, returnvalue: 'held', prev: 'active' }],
  ]);
});

both('the stream of events keeps to its length', async ({ q, p, w, redis }) => {
  await w.work(q, { concurrency: 10 });
  await p.finished(q, await p.add(q, 'job', {})); // BullMQ writes its default when it begins
  await redis.hset(`bull:${q}:meta`, 'opts.maxLenEvents', 50);
  const n = 150;
  for (let i = 0; i < n; i++) await p.add(q, 'job', {});
  await until('all are done', async () => (await w.counts(q)).completed === n + 1);
  assert.ok((await redis.xlen(`bull:${q}:events`)) < 400); // trimmed by whole nodes of the stream
});
