// SPDX-License-Identifier: MIT
//
// emq fsck over queues that BullMQ alone has written: nothing is found while they are sound, whatever they hold;
// what is broken in them is found and repaired, and BullMQ works on.
'use strict';

const { DelayedError, FlowProducer, WaitingChildrenError, Worker } = require('bullmq');
const { assert, connection, file, meet, open, redis, test, until } = require('./lib/harness.js');

const ok = (value) => ({ do: 'return', value });
const FAR = 1000000;

function flows(keep) {
  const flow = new FlowProducer({ connection });
  return keep(flow, () => flow.close());
}

// A worker of BullMQ's that holds one job until the gate opens.
async function hold(m) {
  const gate = file();
  await m.node.work(m.q);
  const id = await m.node.add(m.q, 'held', { do: 'hold', gate });
  await until('it is held', async () => (await m.node.job(m.q, id)).state === 'active');
  return { id, release: () => open(gate) };
}

async function finish(m, ...ids) {
  for (const id of ids) await m.node.finished(m.q, id);
}

// What fsck finds, as [flaw, job, outcome].
async function fsck(m, ...flags) {
  const r = await m.emq.run('fsck', m.q, '--json', ...flags);
  const found = r.out.toString().split('\n').filter(Boolean).map((l) => JSON.parse(l));
  const gone = /there is no queue/.test(r.err.toString());
  assert.equal(r.code, found.length || gone ? 1 : 0, r.err);
  return found.map((f) => [f.flaw, f.id || '', f.outcome]);
}

function sound(what, fill) {
  test(`nothing is found in a sound queue: ${what}`, async (t) => {
    const m = meet(t, 'emq', 'bullmq');
    [m.emq, m.node] = m.made;
    const end = await fill(m);
    assert.deepEqual(await fsck(m), []);
    const all = await m.emq.run('fsck'); // the queues of its children too
    assert.equal(all.code, 0, all.out.toString() + all.err);
    if (end) await end();
  });
}

sound('nothing at all', async () => {});
sound('settings, and no job', async ({ q, node }) => {
  await node.queue(q).setGlobalConcurrency(3);
  await node.queue(q).setGlobalRateLimit(10, 1000);
});
sound('waiting jobs, of own ids, data of any kind, in front', async ({ q, node }) => {
  await node.addMany(q, Array.from({ length: 300 }, (_, n) => ({ name: 'many', data: { n } })));
  await node.add(q, 'own', 'text', { jobId: 'a-name of its own' });
  await node.add(q, 'long', 'ü'.repeat(100000), { lifo: true });
  await node.add(q, 'nothing');
  await node.add(q, 'null', null);
});
sound('prioritized jobs', async ({ q, node }) => {
  for (const priority of [1, 2, 2, 7, 2097151]) await node.add(q, 'job', ok(1), { priority });
  const id = await node.add(q, 'job', ok(1), { priority: 9 });
  await node.setPriority(q, id, 4);
  await node.setPriority(q, await node.add(q, 'job', ok(1), { priority: 9 }), 0);
});
sound('delayed jobs, promoted and changed ones', async ({ q, node }) => {
  for (const delay of [50, 1000, FAR]) await node.add(q, 'job', ok(1), { delay });
  await node.promote(q, await node.add(q, 'job', ok(1), { delay: FAR, priority: 3 }));
  await node.setDelay(q, await node.add(q, 'job', ok(1), { delay: FAR }), 2 * FAR);
});
sound('a job that a worker holds, and others behind it', async (m) => {
  const held = await hold(m);
  await m.node.add(m.q, 'next', ok(1));
  await m.node.add(m.q, 'urgent', ok(1), { priority: 1 });
  return held.release;
});
sound('a paused queue', async (m) => {
  const held = await hold(m);
  await m.node.pause(m.q);
  await m.node.add(m.q, 'next', ok(1));
  await m.node.add(m.q, 'urgent', ok(1), { priority: 1 });
  return held.release;
});
sound('a queue that was paused with jobs, and goes on', async ({ q, node }) => {
  await node.add(q, 'before', ok(1));
  await node.pause(q);
  await node.add(q, 'meanwhile', ok(1));
  await node.resume(q);
});
sound('finished jobs, of all outcomes', async (m) => {
  const add = (data, opts) => m.node.add(m.q, 'job', data, opts);
  await m.node.work(m.q, { concurrency: 4 });
  await finish(m, await add(ok({ deep: [1, null, 'x'] })), await add(ok()), await add(ok('text')), await add(ok(null)), await add(ok('half a pair: \ud800')),
    await add({ do: 'tell', progress: [1, { at: 'half' }], logs: ['a', 'b'], value: 1 }),
    await add({ do: 'throw', message: 'no' }, { attempts: 3 }), await add({ do: 'fatal', message: '' }),
    await add({ do: 'throwUntil', attempt: 2, value: 1 }, { attempts: 2 }));
});
sound('jobs that were removed when they ended, and few that are kept', async (m) => {
  await m.node.work(m.q);
  const last = [];
  for (let i = 0; i < 8; i++) {
    await m.node.add(m.q, 'gone', ok(i), { removeOnComplete: true });
    await m.node.add(m.q, 'gone', { do: 'throw', message: 'x' }, { removeOnFail: true });
    last.push(await m.node.add(m.q, 'kept', ok(i), { removeOnComplete: { count: 3 } }));
    last.push(await m.node.add(m.q, 'kept', { do: 'throw', message: 'x' }, { removeOnFail: 2 }));
  }
  await until('all are done', async () => {
    const c = await m.node.counts(m.q);
    return c.completed === 3 && c.failed === 2 && c.waiting + c.active === 0;
  });
});
sound('jobs that wait for another attempt', async (m) => {
  await m.node.work(m.q);
  const ids = [];
  for (const backoff of [FAR, { type: 'exponential', delay: FAR }])
    ids.push(await m.node.add(m.q, 'job', { do: 'throw', message: 'x' }, { attempts: 2, backoff }));
  for (const id of ids) await until('it is delayed', async () => (await m.node.job(m.q, id)).state === 'delayed');
});
sound('jobs that were retried, removed, cleaned and drained by hand', async (m) => {
  const worker = await m.node.work(m.q);
  const failed = await m.node.add(m.q, 'job', { do: 'fatal', message: 'x' });
  const done = await m.node.add(m.q, 'job', ok(1));
  const old = await m.node.add(m.q, 'job', ok(1));
  await finish(m, failed, done, old);
  await worker.stop();
  await m.node.retry(m.q, failed);
  await m.node.retry(m.q, done);
  await m.node.remove(m.q, await m.node.add(m.q, 'job', ok(1)));
  await m.node.clean(m.q, 'completed', 0);
  await m.node.add(m.q, 'job', ok(1), { delay: FAR });
  await m.node.drain(m.q, false);
  await m.node.add(m.q, 'job', ok(1));
});
sound('what is left of an obliterated queue', async ({ q, node }) => {
  await node.add(q, 'job', ok(1));
  await node.obliterate(q, true);
});
sound('dedup ids of all kinds', async (m) => {
  const add = (id, opts) => m.node.add(m.q, 'job', ok(1), { deduplication: { id, ...opts } });
  const gate = file();
  await m.node.work(m.q);
  const busy = await m.node.add(m.q, 'job', { do: 'hold', gate }, { deduplication: { id: 'last', keepLastIfActive: true } });
  await until('it is held', async () => (await m.node.job(m.q, busy)).state === 'active');
  await add('last', { keepLastIfActive: true });
  await add('simple');
  await add('simple');
  await add('window', { ttl: FAR });
  await add('window', { ttl: FAR, extend: true });
  await m.node.add(m.q, 'job', ok(1), { delay: FAR, deduplication: { id: 'debounce', ttl: FAR, extend: true, replace: true } });
  await m.node.add(m.q, 'job', ok(2), { delay: FAR, deduplication: { id: 'debounce', ttl: FAR, extend: true, replace: true } });
  await add('freed');
  await m.node.releaseDedup(m.q, 'freed');
  return async () => {
    open(gate);
    await until('the kept one has run too', async () => (await m.node.counts(m.q)).waiting === 0);
    assert.deepEqual(await fsck(m), []);
  };
});
sound('parents and children, waiting, done and failed', async (m) => {
  const { q, keep, node } = m;
  const child = (name, data, opts) => ({ name, queueName: `${q}-c`, data, opts });
  const parent = (name, children, opts) => flows(keep).add({ name, queueName: q, data: ok(1), children, opts });
  await node.work(`${q}-c`);
  await parent('done', [child('a', ok({ n: 1 })), child('b', ok(2), { priority: 3 })]);
  await parent('ignoring', [child('a', { do: 'fatal', message: 'no' }, { ignoreDependencyOnFailure: true }), child('b', ok(1))]);
  const fails = await parent('failing', [child('a', { do: 'fatal', message: 'no' }, { failParentOnFailure: true })]);
  await until('the children are done', async () => (await node.counts(`${q}-c`)).completed + (await node.counts(`${q}-c`)).failed === 5);
  const waits = await parent('waiting', [child('a', ok(1), { delay: FAR }),
    { name: 'between', queueName: q, data: ok(1), children: [child('deep', ok(1), { delay: FAR })] }], { priority: 2 });
  assert.equal((await node.job(q, waits.job.id)).state, 'waiting-children');
  assert.equal(await redis.hget(`bull:${q}:${fails.job.id}`, 'defa') !== null, true); // to be failed by the next worker
  await node.work(q);
  await until('the parents are done', async () => (await node.counts(q)).completed === 2);
});
sound('a job that its handler made a parent', async (m) => {
  const { q, node, keep } = m;
  const worker = new Worker(q, async (job, token) => {
    await node.queue(`${q}-c`).add('child', ok(1), { parent: { id: job.id, queue: job.queueQualifiedName } });
    if (await job.moveToWaitingChildren(token)) throw new WaitingChildrenError();
  }, { connection });
  keep(worker, () => worker.close(true));
  const id = await node.add(q, 'job', {});
  await until('it waits for it', async () => (await node.job(q, id)).state === 'waiting-children');
});
sound('jobs that their handler put back, by hand', async (m) => {
  const { q, node, keep } = m;
  const worker = new Worker(q, async (job, token) => {
    if (job.name === 'later') {
      await job.moveToDelayed(Date.now() + FAR, token);
      throw new DelayedError();
    }
    await worker.rateLimit(FAR);
    throw Worker.RateLimitError();
  }, { connection, limiter: { max: 100, duration: 1000 } });
  keep(worker, () => worker.close(true));
  const [later, limited] = [await node.add(q, 'later', {}), await node.add(q, 'limited', {}, { priority: 2 })];
  await until('it is delayed', async () => (await node.job(q, later)).state === 'delayed');
  await until('it is back in line', async () => (await node.queue(q).getRateLimitTtl()) > 0 && (await node.job(q, limited)).state === 'prioritized');
  await worker.close();
});
sound('schedulers', async (m) => {
  const { q, node } = m;
  await node.queue(q).upsertJobScheduler('often', { every: 100 }, { name: 'often', data: ok(1), opts: { removeOnComplete: 5 } });
  await node.queue(q).upsertJobScheduler('seldom', { every: FAR }, { name: 'seldom', data: ok(1), opts: { priority: 3 } });
  await node.queue(q).upsertJobScheduler('nightly', { pattern: '0 30 3 * * *', tz: 'Europe/Vienna' }, { name: 'nightly' });
  await node.queue(q).upsertJobScheduler('gone', { every: FAR }, {});
  await node.queue(q).add('of old', ok(1), { repeat: { pattern: '0 4 * * *' }, jobId: 'repeated' });
  await node.queue(q).removeJobScheduler('gone');
  await node.work(q);
  await until('it has come a few times', async () => (await node.queue(q).getJobScheduler('often')).iterationCount > 3);
});
sound('a rate limit, with jobs behind it', async (m) => {
  await m.node.work(m.q, { limiter: { max: 1, duration: FAR } });
  await finish(m, await m.node.add(m.q, 'job', ok(1)));
  await m.node.add(m.q, 'job', ok(1));
});
sound('workers that are busy, with metrics and trimmed events', async (m) => {
  const { q, node, keep } = m;
  await node.queue(q).trimEvents(20);
  const worker = new Worker(q, async (job) => {
    await job.updateProgress(job.data.n);
    if (job.data.n % 5 === 0) throw new Error('five');
  }, { connection, concurrency: 5, metrics: { maxDataPoints: 100 } });
  keep(worker, () => worker.close(true));
  let added = 0;
  const adding = setInterval(() => node.add(q, 'job', { n: added++ }, { priority: added % 3, delay: (added % 4) * 5, attempts: 2, backoff: 5 }), 2);
  keep(adding, () => clearInterval(adding));
  for (let i = 0; i < 5; i++) assert.deepEqual(await fsck(m), []);
  clearInterval(adding);
  await until('all are done', async () => (await node.counts(q)).completed + (await node.counts(q)).failed === added);
});
sound('a worker that was killed, when another one has taken over', async (m) => {
  const { q, node } = m;
  const gate = file();
  const first = await node.work(q, { process: true, lock: 1000, stalled: 300 });
  const id = await node.add(q, 'job', { do: 'hold', gate });
  await until('it is held', async () => (await node.job(q, id)).state === 'active');
  await first.kill();
  await node.work(q, { lock: 1000, stalled: 300 });
  open(gate);
  await node.finished(q, id);
});

// Fills, breaks, and says what BullMQ can do again behind the repair. `flaws`: [flaw, job].
function broken(what, fill, flaws, then) {
  test(`${what}: found, repaired, and BullMQ works on`, async (t) => {
    const m = meet(t, 'emq', 'bullmq');
    [m.emq, m.node] = m.made;
    m.key = (rest) => `bull:${m.q}:${rest}`;
    m.id = await fill(m);
    const expected = flaws.map(([flaw, job]) => [flaw, job === undefined ? m.id : job]);
    const as = (outcome) => expected.map((f) => [...f, outcome]);
    assert.deepEqual(await fsck(m, '--wait', '0'), as('repairable'));
    assert.deepEqual(await fsck(m, '--wait', '0', '--repair', '--dry-run'), as('repairable'));
    assert.deepEqual(await fsck(m, '--wait', '0', '--repair'), as('repaired'));
    assert.deepEqual(await fsck(m, '--wait', '0'), []);
    await then(m);
    // And any other job.
    if (!m.working) await m.node.work(m.q);
    const other = await m.node.add(m.q, 'other', ok('as ever'));
    assert.deepEqual(await m.node.finished(m.q, other), { value: 'as ever' });
    assert.deepEqual(await fsck(m), []);
  });
}

async function works(m, value) {
  m.working = true;
  await m.node.work(m.q);
  assert.deepEqual(await m.node.finished(m.q, m.id), { value });
}

broken('an id without its record', async (m) => {
  const id = await m.node.add(m.q, 'job', ok(1));
  await redis.del(m.key(id));
  return id;
}, [['ghost']], async (m) => assert.equal((await m.node.counts(m.q)).waiting, 0));

for (const place of ['wait', 'delayed', 'prioritized'])
  broken(`a record that is gone from ${place}`, async (m) => {
    const opts = { wait: {}, delayed: { delay: 100 }, prioritized: { priority: 4 } }[place];
    const id = await m.node.add(m.q, 'job', ok('found'), opts);
    await (place === 'wait' ? redis.lrem(m.key(place), 0, id) : redis.zrem(m.key(place), id));
    return id;
  }, [['nowhere']], (m) => works(m, 'found'));

broken('an active job without a lock', async (m) => {
  const id = await m.node.add(m.q, 'job', ok('again'));
  await redis.lmove(m.key('wait'), m.key('active'), 'RIGHT', 'LEFT');
  return id;
}, [['stalled']], (m) => works(m, 'again'));

broken('a lock without an end', async (m) => {
  const gate = file();
  const worker = await m.node.work(m.q, { process: true, stalled: 200 });
  const id = await m.node.add(m.q, 'job', { do: 'hold', gate });
  await until('it is held', async () => (await m.node.job(m.q, id)).state === 'active');
  await worker.kill();
  await redis.persist(m.key(`${id}:lock`));
  open(gate);
  return id;
}, [['lock']], async (m) => {
  const left = await redis.pttl(m.key(`${m.id}:lock`));
  assert.ok(left > 0 && left <= 30000, `the lock ends in ${left} ms`);
  await redis.pexpire(m.key(`${m.id}:lock`), 1); // as if they had passed
  m.working = true;
  await m.node.work(m.q, { stalled: 200 });
  assert.deepEqual(await m.node.finished(m.q, m.id), { value: 'held' });
});

broken('a dedup id of a job that is gone', async (m) => {
  await redis.set(m.key('de:mine'), 'nobody');
  return 'nobody';
}, [['dedup-owner']], async (m) => {
  m.id = await m.node.add(m.q, 'job', ok('new'), { deduplication: { id: 'mine' } });
  await works(m, 'new');
});

broken('a parent that waits for nothing', async (m) => {
  const { job, children } = await flows(m.keep).add({
    name: 'parent', queueName: m.q, data: ok('freed'), children: [{ name: 'a', queueName: `${m.q}-c`, data: ok(1) }],
  });
  await redis.del(m.key(`${job.id}:dependencies`), `bull:${m.q}-c:${children[0].job.id}`);
  await redis.del(`bull:${m.q}-c:wait`);
  return job.id;
}, [['parent']], (m) => works(m, 'freed'));

broken('a parent whose child is gone', async (m) => {
  const { job, children } = await flows(m.keep).add({
    name: 'parent', queueName: m.q, data: ok('freed'),
    children: [{ name: 'a', queueName: `${m.q}-c`, data: ok(1) }, { name: 'b', queueName: `${m.q}-c`, data: ok(2) }],
  });
  m.second = children[1].job.id;
  await redis.del(`bull:${m.q}-c:${children[0].job.id}`);
  await redis.lrem(`bull:${m.q}-c:wait`, 0, children[0].job.id);
  return job.id;
}, [['child']], async (m) => {
  assert.equal((await m.node.job(m.q, m.id)).state, 'waiting-children'); // the other one is still to come
  await m.node.work(`${m.q}-c`);
  await works(m, 'freed');
});

broken('a parent that was not told of children that have ended', async (m) => {
  const { job, children } = await flows(m.keep).add({
    name: 'parent', queueName: m.q, data: ok('freed'),
    children: [{ name: 'a', queueName: `${m.q}-c`, data: ok({ n: 1 }) },
      { name: 'b', queueName: `${m.q}-c`, data: { do: 'fatal', message: 'no' }, opts: { ignoreDependencyOnFailure: true } }],
  });
  m.children = children.map((c) => `bull:${m.q}-c:${c.job.id}`);
  const parent = await redis.hgetall(m.key(job.id));
  await m.node.work(`${m.q}-c`);
  await until('the children have ended', async () => (await redis.exists(m.key(`${job.id}:processed`), m.key(`${job.id}:failed`))) === 2);
  await until('the parent goes on', async () => (await m.node.job(m.q, job.id)).state === 'waiting');
  await redis.multi().del(m.key(job.id), m.key(`${job.id}:processed`), m.key(`${job.id}:failed`)).hset(m.key(job.id), parent)
    .lrem(m.key('wait'), 0, job.id).zadd(m.key('waiting-children'), Date.now(), job.id)
    .sadd(m.key(`${job.id}:dependencies`), ...m.children).exec();
  return job.id;
}, [['child-ended']], async (m) => {
  assert.deepEqual(await redis.hgetall(m.key(`${m.id}:processed`)), { [m.children[0]]: '{"n":1}' });
  assert.deepEqual(await redis.hgetall(m.key(`${m.id}:failed`)), { [m.children[1]]: 'no' });
  await works(m, 'freed');
});

broken('a child that its parent does not wait for', async (m) => {
  const { job, children } = await flows(m.keep).add({
    name: 'parent', queueName: `${m.q}-p`, data: ok('freed'),
    children: [{ name: 'a', queueName: m.q, data: ok(1) }, { name: 'b', queueName: m.q, data: ok(2), opts: { delay: FAR } }],
  });
  m.parent = job.id;
  await redis.srem(`bull:${m.q}-p:${job.id}:dependencies`, m.key(children[0].job.id));
  return children[0].job.id;
}, [['unlinked']], async (m) => {
  assert.equal(await redis.sismember(`bull:${m.q}-p:${m.parent}:dependencies`, m.key(m.id)), 1);
  await works(m, 1);
  assert.deepEqual(await redis.hgetall(`bull:${m.q}-p:${m.parent}:processed`), { [m.key(m.id)]: '1' });
});

broken('a marker that is lost, with a worker that sleeps', async (m) => {
  await m.node.work(m.q);
  await m.node.finished(m.q, await m.node.add(m.q, 'first', ok(1))); // now it waits to be woken
  // As an add would, but for the marker.
  const id = 'unseen';
  await redis.hset(m.key(id), { name: 'job', data: JSON.stringify(ok('seen')), opts: '{}', timestamp: Date.now(), delay: 0, priority: 0 });
  await redis.lpush(m.key('wait'), id);
  m.working = true;
  return id;
}, [['marker', '']], async (m) => assert.deepEqual(await m.node.finished(m.q, m.id), { value: 'seen' }));

broken('a job that stands in line twice', async (m) => {
  const id = await m.node.add(m.q, 'job', ok('once'));
  await redis.rpush(m.key('wait'), id);
  return id;
}, [['twice']], async (m) => {
  await works(m, 'once');
  assert.equal((await m.node.job(m.q, m.id)).attemptsStarted, 1);
});

broken('a finished job that is back in line', async (m) => {
  const worker = await m.node.work(m.q);
  const id = await m.node.add(m.q, 'job', ok('once'));
  await finish(m, id);
  await worker.stop();
  await redis.lpush(m.key('wait'), id);
  return id;
}, [['twice'], ['marker', '']], async (m) => {
  await works(m, 'once');
  assert.equal((await m.node.job(m.q, m.id)).attemptsStarted, 1);
});

broken('a due time that is no score of BullMQ', async (m) => {
  const id = await m.node.add(m.q, 'job', ok('due'), { delay: FAR });
  await redis.zadd(m.key('delayed'), Date.now() - 5000, id);
  return id;
}, [['due']], (m) => works(m, 'due'));

broken('a place that is not of its priority', async (m) => {
  await m.node.add(m.q, 'other', ok(1), { priority: 5 });
  const id = await m.node.add(m.q, 'job', ok('placed'), { priority: 2 });
  await redis.zadd(m.key('prioritized'), 9 * 2 ** 32 + 1, id);
  return id;
}, [['priority']], async (m) => {
  assert.equal((await m.node.jobs(m.q, 'prioritized'))[0].id, m.id);
  await works(m, 'placed');
});

broken('a limit without an end', async (m) => {
  await redis.set(m.key('limiter'), 99);
  m.later = await m.node.add(m.q, 'job', ok('free'));
  return '';
}, [['limiter', '']], async (m) => {
  m.id = m.later;
  m.working = true;
  await m.node.work(m.q, { limiter: { max: 1000, duration: 1000 } });
  assert.deepEqual(await m.node.finished(m.q, m.id), { value: 'free' });
});

broken('a counter that is behind the ids', async (m) => {
  const id = await m.node.add(m.q, 'job', ok(1), { delay: FAR });
  await redis.set(m.key('id'), 0);
  return id;
}, [['counter', '']], async (m) => assert.notEqual(await m.node.add(m.q, 'job', ok(2), { delay: FAR }), m.id));

broken('a result that is no JSON', async (m) => {
  const worker = await m.node.work(m.q);
  const id = await m.node.add(m.q, 'job', ok(1));
  await finish(m, id);
  await worker.stop();
  await redis.hset(m.key(id), 'returnvalue', 'raw bytes');
  return id;
}, [['result']], async (m) => assert.equal((await m.node.job(m.q, m.id)).returnvalue, 'raw bytes'));

broken('an event that no reader can read', async (m) => {
  const id = await m.node.add(m.q, 'job', ok(1));
  await redis.xadd(m.key('events'), '*', 'event', 'completed', 'jobId', id, 'returnvalue', 'oops');
  return id;
}, [['event']], (m) => works(m, 1));

broken('settings that are gone', async (m) => {
  const id = await m.node.add(m.q, 'job', ok('seen'));
  await redis.del(m.key('meta'));
  return id;
}, [['meta', '']], (m) => works(m, 'seen'));

test('several flaws at once, in one repair: nothing is lost, each job runs once', async (t) => {
  const m = meet(t, 'emq', 'bullmq');
  [m.emq, m.node] = m.made;
  const { q, emq, node } = m;
  const runs = file();
  const ids = (await node.addMany(q, Array.from({ length: 40 }, (_, n) => ({ name: 'job', data: ok(n), opts: { priority: n % 4, delay: (n % 3) * 10 } })))).map((j) => j.id);
  const waiting = await redis.lrange(`bull:${q}:wait`, 0, -1);
  await redis.lrem(`bull:${q}:wait`, 0, waiting[0]);
  await redis.rpush(`bull:${q}:wait`, waiting[1], 'ghost');
  await redis.zrem(`bull:${q}:prioritized`, (await redis.zrange(`bull:${q}:prioritized`, 0, 0))[0]);
  await redis.set(`bull:${q}:id`, 3);
  await redis.del(`bull:${q}:marker`);
  assert.equal((await emq.run('fsck', q, '--repair', '--wait', '0')).code, 1);
  assert.deepEqual(await fsck(m, '--wait', '0'), []);
  await node.work(q, { runs, concurrency: 4 });
  await until('all are done', async () => (await node.counts(q)).completed === ids.length);
  assert.deepEqual(require('node:fs').readFileSync(runs, 'utf8').trim().split('\n').map((l) => l.split(' ')[0]).sort(), [...ids].sort());
});

test('a scheduler without its next time, and a next time without a scheduler, are told and left', async (t) => {
  const m = meet(t, 'emq', 'bullmq');
  [m.emq, m.node] = m.made;
  for (const id of ['lost', 'kept']) await m.node.queue(m.q).upsertJobScheduler(id, { every: FAR }, { name: id, data: ok(1) });
  await redis.zrem(`bull:${m.q}:repeat`, 'lost');
  await redis.zadd(`bull:${m.q}:repeat`, Date.now(), 'nobody');
  assert.deepEqual((await fsck(m, '--repair')).sort(), [['schedule', '', 'not repairable'], ['scheduler', '', 'not repairable']]);
  assert.equal((await m.node.queue(m.q).getJobScheduler('kept')).name, 'kept');
});

test('a scheduler whose next job is gone is told; it comes again when it is set anew', async (t) => {
  const m = meet(t, 'emq', 'bullmq');
  [m.emq, m.node] = m.made;
  const set = (every) => m.node.queue(m.q).upsertJobScheduler('stopped', { every }, { name: 'stopped', data: ok(1) });
  const { id } = await set(FAR);
  await redis.lrem(`bull:${m.q}:wait`, 0, id);
  await redis.del(`bull:${m.q}:${id}`);
  assert.deepEqual(await fsck(m, '--repair'), [['unscheduled', id, 'not repairable']]);
  await set(FAR / 2);
  assert.deepEqual(await fsck(m), []);
});
