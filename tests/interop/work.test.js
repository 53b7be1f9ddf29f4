// SPDX-License-Identifier: MIT
//
// One side's jobs under the other side's worker: attempts, backoff, reasons, progress, logs, events.
'use strict';

const { assert, both, file, nap, open, redis, runsOf, until } = require('./lib/harness.js');

both('a failed job tells its reason and a stack for each attempt', async ({ q, p, w }) => {
  await w.work(q);
  const id = await p.add(q, 'job', { do: 'throw', message: 'no "luck"\nat all' }, { attempts: 3 });
  assert.deepEqual(await p.finished(q, id), { reason: 'no "luck"\nat all' });
  const job = await p.job(q, id);
  assert.deepEqual([job.attemptsMade, job.attemptsStarted, job.state], [3, 3, 'failed']);
  assert.equal(job.stacktrace.length, 3);
  assert.match(job.stacktrace[0], /behaviour\.js/);
});

both('a job that fails for good is not tried again', async ({ q, p, w }) => {
  const runs = file();
  await w.work(q, { runs });
  const id = await p.add(q, 'job', { do: 'fatal', message: 'never' }, { attempts: 5 });
  assert.deepEqual(await p.finished(q, id), { reason: 'never' });
  assert.equal(runsOf(runs, id).length, 1);
  assert.equal((await p.job(q, id)).attemptsMade, 1);
});

both('a retried job tells the attempt and succeeds in the end', async ({ q, p, w }) => {
  await w.work(q);
  const id = await p.add(q, 'job', { do: 'throwUntil', attempt: 3, value: { n: 3 } }, { attempts: 3 });
  assert.deepEqual(await p.finished(q, id), { value: { n: 3 } });
  const job = await p.job(q, id);
  assert.equal(job.attemptsMade, 3);
  assert.equal(job.failedReason, 'attempt 2'); // of the last attempt that failed
});

for (const [backoff, spans] of [
  [{ type: 'fixed', delay: 150 }, [150, 150]],
  [{ type: 'exponential', delay: 100 }, [100, 200]],
])
  both(`a ${backoff.type} backoff delays each retry`, async ({ q, p, w }) => {
    await w.work(q);
    const id = await p.add(q, 'job', { do: 'throwUntil', attempt: 3, value: 1 }, { attempts: 3, backoff });
    const job = await until('it is done', async () => {
      const j = await p.job(q, id);
      return j.finishedOn && j;
    });
    assert.equal(job.state, 'completed');
    assert.ok(job.finishedOn - job.timestamp >= spans[0] + spans[1]);
    // What the stream of events says of the delays: due times.
    const delayed = (await redis.xrange(`bull:${q}:events`, '-', '+')).filter(([, f]) => f[1] === 'delayed');
    assert.equal(delayed.length, 2);
    delayed.forEach(([at, f], i) => {
      const ahead = Number(f[5]) - Number(at.split('-')[0]);
      assert.ok(ahead > 0 && ahead <= spans[i], `${ahead} ms ahead, not ${spans[i]}`);
    });
  });

both('a retry with a long backoff waits among the delayed', async ({ q, p, w }) => {
  await w.work(q);
  const id = await p.add(q, 'job', { do: 'throw', message: 'x' }, { attempts: 2, backoff: { type: 'fixed', delay: 100000 } });
  await until('it waits', async () => (await p.job(q, id)).state === 'delayed');
  const job = await p.job(q, id);
  assert.deepEqual([job.delay, job.attemptsMade, job.failedReason], [100000, 1, 'x']);
});

both('as many stacks are kept as the adding side said', async ({ q, p, w, names }) => {
  await w.work(q);
  const opts = names[0] === 'emq' ? {} : { stackTraceLimit: 2 }; // EchoMQ says 10
  const id = await p.add(q, 'job', { do: 'throw', message: 'x' }, { attempts: 12, ...opts });
  await p.finished(q, id);
  assert.equal((await p.job(q, id)).stacktrace.length, names[0] === 'emq' ? 10 : 2);
});

both('the rate limit of a queue holds', async ({ q, p, w, made, redis }) => {
  const ids = [];
  for (let i = 0; i < 3; i++) ids.push(await p.add(q, 'job', {}));
  await redis.hset(`bull:${q}:meta`, 'max', 1, 'duration', 400);
  for (const side of made) await side.work(q, { concurrency: 3 });
  await until('all are done', async () => (await p.counts(q)).completed === 3);
  const starts = (await p.jobs(q, 'completed')).map((j) => j.processedOn).sort();
  for (let i = 1; i < 3; i++) assert.ok(starts[i] - starts[i - 1] >= 300, `${starts[i] - starts[i - 1]} ms apart`);
});

both('progress and log lines are there while the job runs', async ({ q, p, w }) => {
  await w.work(q);
  const id = await p.add(q, 'job', { do: 'tell', progress: [10, { done: 3, of: 7 }], logs: ['a line', 'another: ü'], value: 0 });
  assert.deepEqual(await w.finished(q, id), { value: 0 });
  assert.deepEqual((await p.job(q, id)).progress, { done: 3, of: 7 });
  assert.deepEqual(await p.logs(q, id), ['a line', 'another: ü']);
});

both('neither an idle worker nor a busy one waits out its sleep', async ({ q, p, w }) => {
  // BullMQ's worker sleeps up to 300 s here; EchoMQ's a second at a time.
  await w.work(q);
  for (let i = 0; i < 20; i++) {
    const id = await p.add(q, 'job', { do: 'return', value: i }, i % 3 ? {} : { priority: i + 1 });
    assert.deepEqual(await p.finished(q, id), { value: i });
  }
});

both('many sleeping workers share what is added at once', async ({ q, p, w }) => {
  const gate = file();
  for (let i = 0; i < 3; i++) await w.work(q, { name: `w${i}` });
  await w.finished(q, await p.add(q, 'job', {}));
  await p.pause(q);
  for (let i = 0; i < 3; i++) await p.add(q, 'job', { do: 'hold', gate });
  await p.resume(q);
  await until('each has one', async () => (await p.counts(q)).active === 3);
  const by = (await p.jobs(q, 'active')).map((j) => j.processedBy);
  assert.deepEqual(by.sort(), ['w0', 'w1', 'w2']);
  open(gate);
  await until('all are done', async () => (await p.counts(q)).completed === 4);
});

both('workers of both sides share a queue and each job runs once', async ({ q, p, w, made }) => {
  const runs = file();
  for (const side of made) await side.work(q, { runs, concurrency: 3 });
  const n = 60;
  for (let i = 0; i < n; i++) await made[i % 2].add(q, 'job', { do: 'return', value: i });
  await until('all are done', async () => (await p.counts(q)).completed === n);
  assert.equal(runsOf(runs).length, n);
  assert.equal(new Set(runsOf(runs)).size, n);
});

both('the concurrency limit of a queue holds over both sides', async ({ q, p, w, made, redis }) => {
  const gates = [file(), file(), file()];
  await made[0].queue?.(q).setGlobalConcurrency(1);
  await redis.hset(`bull:${q}:meta`, 'concurrency', 1);
  for (const side of made) await side.work(q, { concurrency: 2 });
  for (const gate of gates) await p.add(q, 'job', { do: 'hold', gate });
  for (let i = 0; i < 3; i++) {
    await until('one runs', async () => (await p.counts(q)).active === 1);
    await nap(50); // would be time for another to start
    assert.equal((await p.counts(q)).active, 1);
    // First come first served: the running one is the i-th.
    open(gates[i]);
    await until('it is done', async () => (await p.counts(q)).completed === i + 1);
  }
});
