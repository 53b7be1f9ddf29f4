// SPDX-License-Identifier: MIT
//
// One side's administration of what the other side made; BullMQ's getters judge.
'use strict';

const { assert, both, each, file, meet, open, redis, runsOf, test, until } = require('./lib/harness.js');

// Jobs that ended, in order; `node` works them.
async function finishedJobs(q, node, list) {
  const worker = await node.work(q);
  const ids = [];
  for (const [data, opts] of list) {
    const id = await node.add(q, 'job', data, opts);
    await node.finished(q, id);
    ids.push(id);
  }
  await worker.stop();
  return ids;
}
const OK = [{ do: 'return', value: 1 }, {}];
const BAD = [{ do: 'fatal', message: 'broken' }, {}];
const ids = async (side, q, state) => (await side.jobs(q, state)).map((j) => j.id);

each('counts and lists of every state', async ({ q, side, node }) => {
  const done = await finishedJobs(q, node, [OK, BAD, OK]);
  const waiting = [await side.add(q, 'job', {}), await node.add(q, 'job', {})];
  const first = await side.add(q, 'job', {}, { lifo: true });
  const delayed = [await node.add(q, 'job', {}, { delay: 200000 }), await side.add(q, 'job', {}, { delay: 100000 })];
  const prio = [await side.add(q, 'job', {}, { priority: 9 }), await node.add(q, 'job', {}, { priority: 3 })];
  assert.deepEqual(await side.counts(q), {
    active: 0, completed: 2, delayed: 2, failed: 1, prioritized: 2, waiting: 3, 'waiting-children': 0,
  });
  assert.deepEqual(await ids(side, q, 'completed'), [done[0], done[2]]);
  assert.deepEqual(await ids(side, q, 'failed'), [done[1]]);
  assert.deepEqual(await ids(side, q, 'waiting'), [first, ...waiting]);
  assert.deepEqual(await ids(side, q, 'delayed'), delayed.reverse());
  assert.deepEqual(await ids(side, q, 'prioritized'), prio.reverse());
  assert.deepEqual(await node.queue(q).getCountsPerPriority([0, 3, 9]), { 0: 3, 3: 1, 9: 1 });
});

each('a failed job is put back by hand and may fail again', async ({ q, side, node }) => {
  const [id] = await finishedJobs(q, node, [BAD]);
  await side.retry(q, id);
  const job = await node.job(q, id);
  assert.deepEqual([job.state, job.failedReason, job.finishedOn, job.processedOn], ['waiting', undefined, undefined, undefined]);
  await node.work(q);
  assert.deepEqual(await node.finished(q, id), { reason: 'broken' });
});

each('a completed job is put back by hand', async ({ q, side, node }) => {
  const [id] = await finishedJobs(q, node, [OK]);
  await side.retry(q, id);
  const job = await node.job(q, id);
  assert.deepEqual([job.state, job.returnvalue], ['waiting', undefined]);
  await node.work(q);
  assert.deepEqual(await node.finished(q, id), { value: 1 });
});

each('all failed jobs are put back at once', async ({ q, side, node }) => {
  const done = await finishedJobs(q, node, [BAD, OK, BAD, BAD]);
  await side.retryAll(q, 'failed');
  assert.deepEqual(await ids(node, q, 'waiting'), [done[0], done[2], done[3]]);
  assert.deepEqual(await node.counts(q).then((c) => [c.failed, c.completed]), [0, 1]);
});

each('delayed jobs are promoted, one and all, and an idle worker wakes', async ({ q, side, node }) => {
  const runs = file();
  const list = [];
  for (let i = 0; i < 4; i++) list.push(await node.add(q, 'job', {}, { delay: 100000 + i }));
  await node.work(q, { runs });
  await side.promote(q, list[2]);
  await node.finished(q, list[2]);
  assert.equal((await node.job(q, list[2])).delay, 0);
  await side.promoteAll(q);
  await until('all are done', async () => (await node.counts(q)).completed === 4);
  assert.deepEqual(runsOf(runs).map((l) => l.split(' ')[0]), [list[2], list[0], list[1], list[3]]);
});

each('priority, due time and data are changed', async ({ q, side, node }) => {
  const [a, b, c] = [await node.add(q, 'job', {}), await node.add(q, 'job', {}, { priority: 5 }), await node.add(q, 'job', {}, { delay: 100000 })];
  await side.setPriority(q, a, 3);
  await side.setPriority(q, b, 0);
  assert.deepEqual([(await node.job(q, a)).state, (await node.job(q, a)).priority], ['prioritized', 3]);
  assert.deepEqual([(await node.job(q, b)).state, (await node.job(q, b)).priority], ['waiting', 0]);
  await side.setDelay(q, c, 500000);
  const due = Number(await redis.zscore(`bull:${q}:delayed`, c)) / 4096;
  assert.ok(due > Date.now() + 400000 && due <= Date.now() + 500001);
  await side.setData(q, c, { other: ['data'] });
  assert.deepEqual((await node.job(q, c)).data, { other: ['data'] });
});

each('a delay cut short wakes an idle worker', async ({ q, side, node }) => {
  const id = await node.add(q, 'job', { do: 'return', value: 1 }, { delay: 1000000 });
  await node.work(q);
  await side.setDelay(q, id, 300);
  assert.deepEqual(await node.finished(q, id), { value: 1 });
});

each('a job of any state is removed with all its keys', async ({ q, side, node }) => {
  const [done, bad] = await finishedJobs(q, node, [[{ do: 'tell', logs: ['x'], value: 1 }, {}], BAD]);
  const list = [done, bad, await node.add(q, 'job', {}), await node.add(q, 'job', {}, { delay: 100000 }), await node.add(q, 'job', {}, { priority: 2 })];
  for (const id of list) {
    await side.remove(q, id);
    assert.equal(await node.job(q, id), undefined);
    assert.deepEqual(await redis.keys(`bull:${q}:${id}*`), []);
  }
  assert.equal(Object.values(await node.counts(q)).reduce((a, b) => a + b), 0);
});

each('a running job is not removed', async ({ q, side, node, name }) => {
  const gate = file();
  const other = name === 'emq' ? node : side;
  await other.work(q);
  const id = await node.add(q, 'job', { do: 'hold', gate });
  await until('it runs', async () => (await node.job(q, id)).state === 'active');
  await assert.rejects(side.remove(q, id));
  assert.equal((await node.job(q, id)).state, 'active');
  open(gate);
  await node.finished(q, id);
});

each('draining takes what waits and leaves what is done, and the delayed unless asked', async ({ q, side, node }) => {
  await finishedJobs(q, node, [OK, BAD]);
  for (const opts of [{}, { priority: 1 }, { delay: 100000 }, { lifo: true }]) await node.add(q, 'job', {}, opts);
  await side.drain(q, false);
  let c = await node.counts(q);
  assert.deepEqual([c.waiting, c.prioritized, c.delayed, c.completed, c.failed], [0, 0, 1, 1, 1]);
  await side.drain(q, true);
  c = await node.counts(q);
  assert.deepEqual([c.delayed, c.completed, c.failed], [0, 1, 1]);
});

each('cleaning removes the jobs of one state that are old enough', async ({ q, side, node }) => {
  await finishedJobs(q, node, [OK, BAD, OK]);
  await node.add(q, 'job', {});
  await node.add(q, 'job', {}, { delay: 100000 });
  await side.clean(q, 'completed', 1000000);
  assert.equal((await node.counts(q)).completed, 2);
  await side.clean(q, 'completed', 0);
  await side.clean(q, 'failed', 0);
  await side.clean(q, 'waiting', 0);
  await side.clean(q, 'delayed', 0);
  assert.equal(Object.values(await node.counts(q)).reduce((a, b) => a + b), 0);
  assert.deepEqual((await redis.keys(`bull:${q}:*`)).filter((k) => /:\d+/.test(k)), []);
});

each('obliterating leaves nothing of the queue', async ({ q, side, node }) => {
  await finishedJobs(q, node, [OK, BAD]);
  for (const opts of [{}, { priority: 1 }, { delay: 100000 }, { deduplication: { id: 'd' } }]) await node.add(q, 'job', {}, opts);
  await side.add(q, 'job', {});
  await side.pause(q);
  await side.obliterate(q, false);
  assert.deepEqual(await redis.keys(`bull:${q}:*`), []);
  // And the name is as good as new.
  const id = await side.add(q, 'job', { do: 'return', value: 2 });
  await node.work(q);
  assert.deepEqual(await node.finished(q, id), { value: 2 });
});

each('obliterating by force takes running jobs too', async ({ q, side, node }) => {
  const gate = file();
  await node.work(q);
  const id = await node.add(q, 'job', { do: 'hold', gate });
  await until('it runs', async () => (await node.job(q, id)).state === 'active');
  await assert.rejects(side.obliterate(q, false));
  await side.pause(q);
  await assert.rejects(side.obliterate(q, false));
  await side.obliterate(q, true);
  assert.deepEqual(await redis.keys(`bull:${q}:*`), []);
  open(gate);
});

both('removeOrphanedJobs finds no orphan in what both sides made', async ({ q, p, w, made }) => {
  const gate = file();
  await w.work(q);
  await w.finished(q, await p.add(q, 'job', { do: 'tell', logs: ['x'], value: 1 }));
  await w.finished(q, await p.add(q, 'job', { do: 'throwUntil', attempt: 2, value: 1 }, { attempts: 2 }));
  const id = await p.add(q, 'job', { do: 'hold', gate }, { deduplication: { id: 'd', keepLastIfActive: true } });
  await until('it runs', async () => (await p.job(q, id)).state === 'active');
  await p.add(q, 'job', {}, { deduplication: { id: 'd', keepLastIfActive: true } });
  await p.add(q, 'job', {}, { delay: 100000 });
  await p.add(q, 'job', {}, { priority: 5, jobId: 'own' });
  const node = made.find((s) => s.queue) || w;
  const queue = node.queue(q);
  assert.equal(await queue.removeOrphanedJobs(), 0);
  open(gate);
  await until('all of them are done', async () => (await p.counts(q)).completed === 5);
});

each('keys that are no job of anybody are removed by removeOrphanedJobs, and nothing of ours', async ({ q, side, node }) => {
  const id = await side.add(q, 'job', {});
  await side.setPriority(q, id, 4); // leaves a history and a receipt
  const own = (await redis.keys(`bull::emq:*${q}*`)).sort();
  assert.equal(own.length > 0, !side.queue);
  await redis.hset(`bull:${q}:orphan`, 'name', 'x', 'data', '{}');
  await redis.rpush(`bull:${q}:orphan:logs`, 'x');
  assert.equal(await node.queue(q).removeOrphanedJobs(), 1);
  assert.equal((await node.counts(q)).prioritized, 1);
  assert.deepEqual((await redis.keys(`bull::emq:*${q}*`)).sort(), own);
});

test('removeOrphanedJobs, called all the time, takes nothing from a long batch that is being added', async (t) => {
  const { q, made: [emq, node] } = meet(t, 'emq', 'bullmq');
  const n = 10000;
  let added = null;
  emq.addMany(q, Array.from({ length: n }, (_, i) => ({ name: 'job', data: { i } }))).then((ids) => { added = ids; });
  while (!added) assert.equal(await node.queue(q).removeOrphanedJobs(), 0);
  assert.equal((await node.counts(q)).waiting, n);
});
