// SPDX-License-Identifier: MIT
//
// Locks, dead workers and pauses: what one side leaves behind, the other finds.
'use strict';

const { assert, both, each, file, meet, nap, open, redis, runsOf, test, until } = require('./lib/harness.js');

const LOCK = { lock: 1000, stalled: 300, maxStalled: 3 };

both('a job of a killed worker is recovered by the other side', async ({ q, p, w }) => {
  const [gate, runs] = [file(), file()];
  const dead = await p.work(q, { ...LOCK, runs, process: true, name: 'dead' });
  const id = await p.add(q, 'job', { do: 'hold', gate });
  await until('it runs', async () => runsOf(runs, id).length === 1);
  await dead.kill();
  await w.work(q, { ...LOCK, runs, name: 'heir' });
  await until('it runs again', async () => runsOf(runs, id).length === 2);
  open(gate);
  assert.deepEqual(await p.finished(q, id), { value: 'held' });
  const job = await p.job(q, id);
  assert.deepEqual([job.stalledCounter, job.attemptsMade, job.attemptsStarted, job.processedBy], [1, 1, 2, 'heir']);
});

both('a job that outlives too many workers of the other side fails', async ({ q, p, w }) => {
  const [gate, runs] = [file(), file()];
  const o = { ...LOCK, maxStalled: 0, runs };
  const dead = await p.work(q, { ...o, process: true });
  const id = await p.add(q, 'job', { do: 'hold', gate });
  await until('it runs', async () => runsOf(runs, id).length === 1);
  await dead.kill();
  await w.work(q, o);
  assert.deepEqual(await p.finished(q, id), { reason: 'job stalled more than allowable limit' });
  assert.equal(runsOf(runs, id).length, 1);
});

both('a lock is renewed as long as its job runs', async ({ q, p, w, made }) => {
  const [gate, runs] = [file(), file()];
  const [long, other] = [w, made[0]];
  const o = { ...LOCK, runs };
  await long.work(q, { ...o, name: 'long' });
  const id = await p.add(q, 'job', { do: 'hold', gate });
  await until('it runs', async () => runsOf(runs, id).length === 1);
  await other.work(q, { ...o, name: 'other' });
  // Three locks and ten sweeps long.
  const end = Date.now() + 3 * LOCK.lock;
  while (Date.now() < end) {
    assert.ok((await redis.pttl(`bull:${q}:${id}:lock`)) > 0, 'the lock is there');
    await nap(50);
  }
  open(gate);
  assert.deepEqual(await p.finished(q, id), { value: 'held' });
  assert.equal(runsOf(runs, id).length, 1);
  assert.equal((await p.job(q, id)).stalledCounter, 0);
});

both('a job of a dead worker is recovered once, though workers of both sides look', async ({ q, p, w, made }) => {
  const [gate, runs] = [file(), file()];
  const dead = await p.work(q, { ...LOCK, runs, process: true, name: 'dead' });
  const id = await p.add(q, 'job', { do: 'hold', gate });
  await until('it runs', async () => runsOf(runs, id).length === 1);
  await dead.kill();
  for (const side of made) await side.work(q, { ...LOCK, runs, name: 'heir' });
  await until('it runs again', async () => runsOf(runs, id).length === 2);
  // Each side looks a few times more.
  await nap(6 * LOCK.stalled);
  open(gate);
  assert.deepEqual(await p.finished(q, id), { value: 'held' });
  assert.equal(runsOf(runs, id).length, 2);
  assert.equal((await p.job(q, id)).stalledCounter, 1);
});

test('a job that was taken at most once and lost is failed by a BullMQ worker without running', async (t) => {
  const { q, made: [emq, node] } = meet(t, 'emq', 'bullmq');
  const [gate, runs] = [file(), file()];
  const dead = await emq.work(q, { ...LOCK, mode: 'at-most-once', runs });
  const id = await node.add(q, 'job', { do: 'hold', gate });
  await until('it runs', async () => runsOf(runs, id).length === 1);
  await dead.kill();
  await node.work(q, { ...LOCK, runs });
  const { reason } = await node.finished(q, id);
  assert.match(reason, /at-most-once/);
  assert.equal(runsOf(runs, id).length, 1);
  assert.equal((await emq.job(q, id)).state, 'failed');
});

test('a job that was taken at most once and done leaves no deferred failure behind', async (t) => {
  const { q, made: [emq, node] } = meet(t, 'emq', 'bullmq');
  await emq.work(q, { mode: 'at-most-once' });
  const id = await node.add(q, 'job', { do: 'return', value: 5 });
  assert.deepEqual(await node.finished(q, id), { value: 5 });
  assert.equal(await redis.hget(`bull:${q}:${id}`, 'defa'), null);
});

test('fire and forget takes the job away', async (t) => {
  const { q, made: [emq, node] } = meet(t, 'emq', 'bullmq');
  const runs = file();
  await emq.work(q, { mode: 'fire-and-forget', runs });
  const id = await node.add(q, 'job', {});
  await until('it ran', async () => runsOf(runs, id).length === 1);
  assert.equal(await node.job(q, id), undefined);
  assert.deepEqual(await redis.keys(`bull:${q}:${id}*`), []);
});

both('a pause by one side stops the other, and its end wakes it', async ({ q, p, w, made }) => {
  const runs = file();
  await w.work(q, { runs });
  await w.finished(q, await p.add(q, 'job', {}));
  for (const side of [made[0], made[1]]) {
    await side.pause(q);
    const before = runsOf(runs).length;
    const id = await p.add(q, 'job', {});
    await nap(100); // would be time to take it
    assert.equal(runsOf(runs).length, before);
    await side.resume(q);
    await w.finished(q, id);
  }
});

both('a stopped worker finishes its job and leaves the rest', async ({ q, p, w }) => {
  const [gate, runs] = [file(), file()];
  const worker = await w.work(q, { runs });
  const id = await p.add(q, 'job', { do: 'hold', gate });
  const rest = await p.add(q, 'job', {});
  await until('it runs', async () => runsOf(runs, id).length === 1);
  const stopped = worker.stop();
  open(gate);
  await stopped;
  assert.equal((await p.job(q, id)).state, 'completed');
  assert.equal((await p.job(q, rest)).state, 'waiting');
  assert.equal(await redis.exists(`bull:${q}:${id}:lock`), 0);
});

each('a worker of this side refuses to settle a job that it lost', async ({ q, side, node }) => {
  const [gate, runs] = [file(), file()];
  await side.work(q, { runs });
  const id = await node.add(q, 'job', { do: 'hold', gate });
  await until('it runs', async () => runsOf(runs, id).length === 1);
  // Somebody else's now.
  await redis.set(`bull:${q}:${id}:lock`, 'somebody:1', 'PX', 100000);
  open(gate);
  await node.finished(q, await node.add(q, 'job', {})); // its next job is done: it gave the first one up
  assert.equal((await node.job(q, id)).state, 'active');
  assert.equal(await redis.get(`bull:${q}:${id}:lock`), 'somebody:1');
});

test('a worker of BullMQ without a name is not taken for the worker of EchoMQ before it', async (t) => {
  const { q, made } = meet(t, 'emq', 'bullmq');
  const [emq, node] = made;
  const id = await emq.add(q, 'job', {}, { attempts: 2, backoff: 50 });
  await emq.run('work', q, '--max-jobs', 1, '--', 'sh', '-c', 'exit 3');
  await node.work(q, { runs: file() });
  await node.finished(q, id);
  const { handouts } = JSON.parse(await emq.ok('why', q, id, '--json'));
  assert.deepEqual(handouts.map((h) => [h.attempt, h.worker === null, h.fence > 0, h.end]),
    [[1, false, true, 'retried'], [2, true, false, 'completed']]);
  assert.match(await emq.ok('why', q, id), /attempt 2: taken by a worker of BullMQ without a name/);
  assert.equal((await emq.job(q, id)).processedBy, undefined);
});

test('the lock of a job that BullMQ holds is no hand-out by EchoMQ', async (t) => {
  const { q, made } = meet(t, 'emq', 'bullmq');
  const [emq, node] = made;
  const gate = file();
  await node.work(q);
  await node.finished(q, await node.add(q, 'job', {})); // the tokens of its next ones end with another number
  const id = await node.add(q, 'job', { do: 'hold', gate });
  await until('it is held', async () => (await node.job(q, id)).state === 'active');
  const { handouts } = JSON.parse(await emq.ok('why', q, id, '--json'));
  assert.deepEqual(handouts.map((h) => [h.attempt, h.worker, h.fence > 0]), [[1, null, false]]);
  open(gate);
  await node.finished(q, id);
});

each('workers are seen by getWorkers under their names', async ({ q, side, node }) => {
  await side.work(q, { name: 'anna' });
  await side.work(q, { name: 'ben' });
  const names = await until('both are there', async () => {
    const list = await node.queue(q).getWorkers();
    return list.length === 2 && list.map((l) => l.rawname || l.name);
  });
  assert.deepEqual(names.map((n) => n.replace(/^.*:w:/, '')).sort(), ['anna', 'ben']);
  assert.equal((await node.queue(q).getWorkersCount()), 2);
});
