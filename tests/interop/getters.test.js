// SPDX-License-Identifier: MIT
//
// BullMQ's getters over what EchoMQ wrote, and EchoMQ's over what BullMQ wrote.
'use strict';

const { Job } = require('bullmq');
const { assert, both, each, file, meet, open, redis, test, until } = require('./lib/harness.js');

const ids = (jobs) => jobs.map((j) => j.id);

both('each getter of BullMQ finds the jobs of its state', async ({ q, p, w, made }) => {
  const gate = file();
  const node = made.find((s) => s.queue);
  const queue = node.queue(q);
  await w.work(q);
  const good = await p.add(q, 'job', { do: 'return', value: 1 });
  const bad = await p.add(q, 'job', { do: 'fatal', message: 'no' });
  await p.finished(q, good);
  await p.finished(q, bad);
  const running = await p.add(q, 'job', { do: 'hold', gate });
  await until('it runs', async () => (await p.job(q, running)).state === 'active');
  const waiting = await p.add(q, 'job', {}, { jobId: 'a b' });
  const delayed = await p.add(q, 'job', {}, { delay: 100000 });
  const prio = await p.add(q, 'job', {}, { priority: 3 });
  const by = {
    active: [running, queue.getActive()], waiting: [waiting, queue.getWaiting()], delayed: [delayed, queue.getDelayed()],
    prioritized: [prio, queue.getPrioritized()], completed: [good, queue.getCompleted()], failed: [bad, queue.getFailed()],
  };
  for (const [state, [id, jobs]] of Object.entries(by)) {
    assert.deepEqual(ids(await jobs), [id], state);
    const job = await Job.fromId(queue, id);
    assert.equal(await job.getState(), state);
    const checks = [job.isActive(), job.isWaiting(), job.isDelayed(), job.isCompleted(), job.isFailed()];
    const expected = ['active', 'waiting', 'delayed', 'completed', 'failed'].map((s) => s === state);
    assert.deepEqual(await Promise.all(checks), expected, state);
  }
  assert.deepEqual(
    await Promise.all([queue.count(), queue.getActiveCount(), queue.getDelayedCount(), queue.getCompletedCount(), queue.getFailedCount(), queue.getPrioritizedCount()]),
    [3, 1, 1, 1, 1, 1],
  );
  assert.equal(await queue.getJobCountByTypes('completed', 'failed'), 2);
  assert.match(await queue.exportPrometheusMetrics(), /state="completed"\} 1/);
  open(gate);
  await p.finished(q, running);
});

each('a pause is read by BullMQ', async ({ q, side, node }) => {
  const queue = node.queue(q);
  await side.add(q, 'job', {});
  assert.equal(await queue.isPaused(), false);
  await side.pause(q);
  assert.equal(await queue.isPaused(), true);
  assert.equal((await queue.getMeta()).paused, true);
  await side.resume(q);
  assert.equal(await queue.isPaused(), false);
});

each('who holds a dedup id is known to both sides', async ({ q, side, node }) => {
  const id = await side.add(q, 'job', {}, { deduplication: { id: 'd', ttl: 100000 } });
  assert.equal(await node.queue(q).getDeduplicationJobId('d'), id);
  await side.releaseDedup(q, 'd');
  assert.equal(await node.queue(q).getDeduplicationJobId('d'), null);
});

both('a full rate limit is seen by BullMQ', async ({ q, p, w, made }) => {
  const node = made.find((s) => s.queue);
  await node.queue(q).setGlobalRateLimit(1, 60000);
  await w.work(q);
  await p.finished(q, await p.add(q, 'job', {}));
  await p.add(q, 'job', {});
  const left = await node.queue(q).getRateLimitTtl();
  assert.ok(left > 0 && left <= 60000, `${left} ms`);
  assert.equal((await p.counts(q)).waiting, 1);
});

test('a limit that BullMQ imposes by hand holds for a worker of EchoMQ', async (t) => {
  const { q, made: [emq, node] } = meet(t, 'emq', 'bullmq');
  await node.queue(q).setGlobalRateLimit(100, 1000);
  await node.queue(q).rateLimit(1500);
  await emq.work(q);
  const id = await node.add(q, 'job', { do: 'return', value: 1 });
  for (;;) {
    const { state } = await node.job(q, id);
    if ((await redis.get(`bull:${q}:limiter`)) !== String(Number.MAX_SAFE_INTEGER)) break; // ended, or counts again
    assert.equal(state, 'waiting');
  }
  assert.deepEqual(await node.finished(q, id), { value: 1 });
});
