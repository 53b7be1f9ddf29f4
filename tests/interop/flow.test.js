// SPDX-License-Identifier: MIT
//
// Jobs of BullMQ's flows and schedulers under EchoMQ's workers: what EchoMQ does not serve itself, it does
// not harm.
'use strict';

const { FlowProducer } = require('bullmq');
const { assert, connection, meet, redis, test, until } = require('./lib/harness.js');

function flows(keep) {
  const flow = new FlowProducer({ connection });
  return keep(flow, () => flow.close());
}
const ok = (value) => ({ do: 'return', value });

test('children that EchoMQ completes release their parent', async (t) => {
  const { q, keep, made: [emq, node] } = meet(t, 'emq', 'bullmq');
  const { job } = await flows(keep).add({
    name: 'parent', queueName: q, data: ok('done'),
    children: [{ name: 'a', queueName: `${q}-c`, data: ok({ n: 1 }) }, { name: 'b', queueName: `${q}-c`, data: ok(2), opts: { priority: 3 } }],
  });
  await emq.work(`${q}-c`);
  await until('the parent waits', async () => (await node.job(q, job.id)).state === 'waiting');
  const values = await node.withJob(q, job.id, (j) => j.getChildrenValues());
  assert.deepEqual(Object.values(values), [{ n: 1 }, 2]);
  await emq.work(q);
  assert.deepEqual(await node.finished(q, job.id), { value: 'done' });
});

for (const [flag, state] of [['failParentOnFailure', 'failed'], ['ignoreDependencyOnFailure', 'completed'], ['removeDependencyOnFailure', 'completed'], ['continueParentOnFailure', 'completed']])
  test(`a child that EchoMQ fails does to its parent what ${flag} says`, async (t) => {
    const { q, keep, made: [emq, node] } = meet(t, 'emq', 'bullmq');
    const { job } = await flows(keep).add({
      name: 'parent', queueName: q, data: ok(1),
      children: [{ name: 'a', queueName: `${q}-c`, data: { do: 'fatal', message: 'no' }, opts: { [flag]: true } }],
    });
    await emq.work(`${q}-c`);
    await node.work(q);
    await until('the parent is over', async () => (await node.job(q, job.id)).state === state);
    const { ignored, unprocessed } = await node.withJob(q, job.id, (j) => j.getDependencies());
    assert.deepEqual(unprocessed || [], []);
    const kept = flag === 'ignoreDependencyOnFailure' || flag === 'continueParentOnFailure';
    assert.deepEqual(Object.values(ignored || {}), kept ? ['no'] : []);
  });

test('a parent whose child is waiting is not handed out', async (t) => {
  const { q, keep, made: [emq, node] } = meet(t, 'emq', 'bullmq');
  const { job, children } = await flows(keep).add({
    name: 'parent', queueName: q, data: ok(1), children: [{ name: 'a', queueName: `${q}-c`, data: ok(2) }],
  });
  await emq.work(q);
  await node.finished(q, await node.add(q, 'other', {}));
  assert.equal((await node.job(q, job.id)).state, 'waiting-children');
  assert.equal((await emq.job(q, job.id)).state, 'waiting-children');
  await emq.remove(`${q}-c`, children[0].job.id);
  await node.finished(q, job.id); // its last child is gone
});

// The job's handler adds a child to it through BullMQ and succeeds; each run leaves a line in the job's log.
const bears = (q) => [process.execPath, '-e', `
  const { Queue } = require(${JSON.stringify(require.resolve('bullmq'))});
  const queue = new Queue('${q}-c', { connection: ${JSON.stringify(connection)} });
  console.error('a run');
  queue.add('child', {}, { parent: { id: process.env.EMQ_JOB_ID, queue: 'bull:${q}' } }).then(() => queue.close());`];

test('a job that gets a child while it runs is failed once an attempt, as with BullMQ, and never stalls', async (t) => {
  const { q, made: [emq, node] } = meet(t, 'emq', 'bullmq');
  const id = await node.add(q, 'parent', {}, { attempts: 2 });
  await emq.work(q, { lock: 1000, stalled: 500, command: bears(q) });
  assert.match((await node.finished(q, id)).reason, /children of the job are not done/);
  const job = await node.withJob(q, id, (j) => j);
  assert.deepEqual([job.attemptsMade, job.attemptsStarted, job.stalledCounter], [2, 2, 0]);
  assert.equal((await node.logs(q, id)).length, 2);
});

for (const how of ['by its id', 'with all'])
  test(`a scheduler goes on after a cancel and a removal ${how}`, async (t) => {
    const { q, made: [emq, node] } = meet(t, 'emq', 'bullmq');
    await node.queue(q).upsertJobScheduler('tick', { every: 200, startDate: Date.now() + 200 }, { name: 'tick', data: ok('tock') });
    const [next] = await node.jobs(q, 'delayed');
    for (const verb of ['cancel', 'rm']) {
      const r = await emq.run(verb, q, how === 'with all' ? '--all' : next.id);
      assert.equal(r.code, how === 'with all' ? 0 : 1);
      assert.match(r.err, /the next run of (a )?scheduler/);
    }
    await node.work(q);
    await until('it has run twice', async () => (await node.counts(q)).completed > 1);
  });

test('the pending job of a scheduler is left to BullMQ, who makes the next one, and keeps nobody waiting', async (t) => {
  const { q, made: [emq, node] } = meet(t, 'emq', 'bullmq');
  await node.queue(q).upsertJobScheduler('tick', { every: 1000000 }, { name: 'tick', data: ok('tock') });
  await emq.work(q);
  for (let i = 0; i < 3; i++) await node.finished(q, await node.add(q, 'other', {}));
  assert.equal((await node.jobs(q, 'waiting'))[0].name, 'tick');
  await node.work(q);
  await until('it is done', async () => (await node.counts(q)).completed === 4);
  const done = (await node.jobs(q, 'completed')).find((j) => j.name === 'tick');
  assert.equal(done.returnvalue, 'tock');
  assert.equal((await node.counts(q)).delayed, 1); // the next one
  assert.equal((await node.queue(q).getJobSchedulers())[0].iterationCount, 2);
});

test('a job with a deferred failure is failed with its reason, unrun', async (t) => {
  const { q, made: [emq, node] } = meet(t, 'emq', 'bullmq');
  const id = await node.add(q, 'job', ok(1));
  await redis.hset(`bull:${q}:${id}`, 'defa', 'some "reason"');
  await emq.work(q);
  assert.deepEqual(await node.finished(q, id), { reason: 'some "reason"' });
  assert.equal(await redis.hget(`bull:${q}:${id}`, 'defa'), null);
});
