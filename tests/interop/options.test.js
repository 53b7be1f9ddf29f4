// SPDX-License-Identifier: MIT
//
// Options: what one side writes is what the other side reads, and what nobody else knows does no harm.
'use strict';

const { DelayedError, Job, WaitingError, Worker } = require('bullmq');
const { assert, both, connection, file, meet, redis, runsOf, test, until } = require('./lib/harness.js');

test('every option of EchoMQ is an option of BullMQ', async (t) => {
  const { q, made: [emq, node] } = meet(t, 'emq', 'bullmq');
  const said = {
    jobId: 'own', delay: 100000, priority: 7, attempts: 4, backoff: { type: 'exponential', delay: 250, jitter: 0.5 },
    removeOnComplete: { count: 5, age: 60 }, removeOnFail: { age: 3600 }, keepLogs: 6,
    deduplication: { id: 'd', ttl: 50000, extend: true },
  };
  await emq.add(q, 'job', {}, said);
  const { opts } = await Job.fromId(node.queue(q), 'own');
  assert.deepEqual({ ...opts, stackTraceLimit: undefined }, { ...said, stackTraceLimit: undefined });
  assert.equal(typeof opts.stackTraceLimit, 'number');
  const lifo = await emq.add(q, 'job', {}, { lifo: true, removeOnComplete: true, removeOnFail: 3 });
  const o = (await Job.fromId(node.queue(q), lifo)).opts;
  assert.deepEqual([o.lifo, o.removeOnComplete, o.removeOnFail.count ?? o.removeOnFail], [true, true, 3]);
});

test('options of BullMQ that EchoMQ does not know stay as they are and do no harm', async (t) => {
  const { q, made: [emq, node] } = meet(t, 'emq', 'bullmq');
  const odd = {
    attempts: 2, backoff: { type: 'of-my-own', delay: 20 }, sizeLimit: 1000, telemetry: { metadata: 'm', omitContext: true },
    mine: { deep: [1, null] }, timestamp: 1700000000123, stackTraceLimit: 0, keepLogs: 1,
  };
  const id = await node.add(q, 'job', { do: 'throwUntil', attempt: 2, value: 'in the end' }, odd);
  const before = await redis.hget(`bull:${q}:${id}`, 'opts');
  await emq.work(q);
  assert.deepEqual(await node.finished(q, id), { value: 'in the end' });
  assert.equal(await redis.hget(`bull:${q}:${id}`, 'opts'), before);
  const job = await node.job(q, id);
  assert.deepEqual([job.timestamp, job.attemptsMade, job.stacktrace], [odd.timestamp, 2, undefined]);
});

both('a jittered backoff stays between its bounds', async ({ q, p, w }) => {
  await w.work(q);
  const ids = [];
  for (let i = 0; i < 8; i++)
    ids.push(await p.add(q, 'job', { do: 'throw', message: 'x' }, { attempts: 2, backoff: { type: 'fixed', delay: 100000, jitter: 0.5 } }));
  await until('all wait', async () => (await p.counts(q)).delayed === ids.length);
  const delays = (await p.jobs(q, 'delayed')).map((j) => j.delay);
  for (const delay of delays) assert.ok(delay >= 50000 && delay <= 100000, `${delay} ms`);
  assert.ok(new Set(delays).size > 1);
});

both('a batch is worked whole and in its order', async ({ q, p, w }) => {
  const runs = file();
  const n = 250;
  await p.addMany(q, Array.from({ length: n }, (_, i) => ({ name: 'job', data: { do: 'return', value: i } })));
  const added = await w.jobs(q, 'waiting');
  assert.deepEqual(added.map((j) => j.data.value), Array.from({ length: n }, (_, i) => i));
  await w.work(q, { runs });
  await until('all are done', async () => (await p.counts(q)).completed === n);
  assert.deepEqual(runsOf(runs).map((l) => l.split(' ')[0]), added.map((j) => j.id));
});

both('finished jobs past their age go with the next one that ends', async ({ q, p, w }) => {
  await w.work(q);
  for (const [data, opts, state] of [[{}, { removeOnComplete: { age: 1 } }, 'completed'], [{ do: 'fatal', message: 'x' }, { removeOnFail: { age: 1 } }, 'failed']]) {
    const old = await p.add(q, 'job', data, opts);
    const { finishedOn } = await until('it is finished', async () => {
      const job = await p.job(q, old);
      return job.finishedOn && job;
    });
    await until('it is past its age', async () => Number((await redis.time())[0]) * 1000 > finishedOn + 1000);
    const id = await p.add(q, 'job', data, opts);
    await until('the next one ended', async () => (await p.jobs(q, state)).some((j) => j.id === id));
    await until('the old one is gone', async () => (await redis.exists(`bull:${q}:${old}`)) === 0);
    await p.remove(q, id); // it, too, is past its age soon: EchoMQ shows it to nobody then, BullMQ does
  }
});

test('a job that a BullMQ processor puts off or gives back is worked by EchoMQ', async (t) => {
  const { q, keep, made: [emq, node] } = meet(t, 'emq', 'bullmq');
  const later = await node.add(q, 'job', { do: 'return', value: 'later' });
  const back = await node.add(q, 'job', { do: 'return', value: 'back' });
  const seen = new Set();
  const worker = keep(
    new Worker(q, async (job, token) => {
      seen.add(job.id);
      if (job.id === later) {
        await job.moveToDelayed(Date.now() + 300, token);
        throw new DelayedError();
      }
      await worker.pause(true);
      await job.moveToWait(token);
      throw new WaitingError();
    }, { connection, drainDelay: 300 }),
    () => worker.close(true),
  );
  await until('BullMQ had both', () => seen.size === 2);
  await until('neither runs', async () => (await node.counts(q)).active === 0);
  await worker.close();
  await emq.work(q);
  assert.deepEqual(await node.finished(q, back), { value: 'back' });
  assert.deepEqual(await node.finished(q, later), { value: 'later' });
  const job = await emq.job(q, later);
  assert.deepEqual([job.attemptsMade, job.attemptsStarted], [1, 2]);
});
