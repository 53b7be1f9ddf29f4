// SPDX-License-Identifier: MIT
//
// What one side adds, the other works: data, options, order, dedup, ids.
'use strict';

const fs = require('node:fs');

const { assert, both, each, file, meet, open, redis, test, until } = require('./lib/harness.js');

const DATA = {
  'an object': { a: 1, 'ключ': 'значение', nested: { list: [1, 2, { x: null }], empty: {} } },
  'a string': 'plain "text" with\nlines \u0000 and 🦆',
  'a number': -12.5,
  'a big integer': 9007199254740991,
  'true': true,
  'null': null,
  'an empty array': [],
  'an empty string': '',
  'a slash and markup': { url: 'https://example.org/a?b=<c>&d' },
};

both('data of every kind arrives as it was given and comes back as the result', async ({ q, p, w }) => {
  await w.work(q);
  for (const [kind, data] of Object.entries(DATA)) {
    const id = await p.add(q, 'job', { do: 'return', value: data });
    assert.deepEqual(await p.finished(q, id), { value: data }, kind);
    assert.deepEqual(await w.finished(q, id), { value: data }, kind);
  }
  // Data that are no object.
  for (const data of ['text', 7, false, null, [1, 2]]) {
    const id = await p.add(q, 'job', data);
    assert.deepEqual(await w.finished(q, id), { value: data }, JSON.stringify(data));
  }
});

both('data of a megabyte pass', async ({ q, p, w }) => {
  const big = 'ü'.repeat(500000);
  await w.work(q);
  const id = await p.add(q, 'job', { do: 'return', value: 'ok', big });
  assert.deepEqual(await w.finished(q, id), { value: 'ok' });
  assert.equal((await w.job(q, id)).data.big, big);
});

test('text and bytes that EchoMQ adds are strings for BullMQ and themselves for EchoMQ', async (t) => {
  const { q, made: [emq, node] } = meet(t, 'emq', 'bullmq');
  const text = 'no JSON: ü "quoted" \\ and\nlines';
  const bytes = Buffer.from([0, 255, 1, 254, 10]);
  const ids = [await emq.addBytes(q, 'job', text), await emq.addBytes(q, 'job', bytes)];
  assert.equal((await node.job(q, ids[0])).data, text);
  assert.equal((await node.job(q, ids[1])).data, bytes.toString('base64'));
  const back = await Promise.all(ids.map((id) => emq.run('show', q, id, '--data')));
  assert.deepEqual(back.map((r) => r.out), [Buffer.from(text), bytes]);
  // And as results of programs that write them.
  await emq.work(q, { command: ['cat'] });
  assert.deepEqual(await node.finished(q, ids[0]), { value: text });
  assert.deepEqual(await node.finished(q, ids[1]), { value: bytes.toString('base64') });
  const results = await Promise.all(ids.map((id) => emq.run('show', q, id, '--result')));
  assert.deepEqual(results.map((r) => r.out), [Buffer.from(text), bytes]);
});

test('a program gets the JSON of BullMQ byte for byte', async (t) => {
  const { q, made: [emq, node] } = meet(t, 'emq', 'bullmq');
  await emq.work(q, { command: ['cat'] });
  for (const data of [{ a: [1, { b: null }], 'ü': '\u0001' }, 'text', 0.1, [], {}]) {
    const id = await node.add(q, 'job', data);
    assert.deepEqual(await node.finished(q, id), { value: data });
    assert.equal((await emq.run('show', q, id, '--result')).out.toString(), await redis.hget(`bull:${q}:${id}`, 'data'));
  }
});

both('the name of a job and its own id pass', async ({ q, p, w }) => {
  for (const [name, jobId] of [['mail', 'my-id'], ['Ünïcode name', 'id with blanks'], ['x', 'a/b#c']]) {
    const id = await p.add(q, name, { a: 1 }, { jobId });
    assert.equal(id, jobId);
    const job = await w.job(q, id);
    assert.equal(job.name, name);
    assert.equal(job.state, 'waiting');
  }
});

both('a custom id names one job, whoever adds it again', async ({ q, p, w }) => {
  await p.add(q, 'first', { n: 1 }, { jobId: 'same' });
  assert.equal(await w.add(q, 'second', { n: 2 }, { jobId: 'same' }), 'same');
  assert.equal(await p.add(q, 'third', { n: 3 }, { jobId: 'same' }), 'same');
  const job = await w.job(q, 'same');
  assert.deepEqual([job.name, job.data], ['first', { n: 1 }]);
  assert.equal((await w.counts(q)).waiting, 1);
});

both('numbers of jobs never repeat, whoever hands them out', async ({ q, p, w }) => {
  const ids = [];
  for (let i = 0; i < 10; i++) ids.push(await (i % 2 ? p : w).add(q, 'job', i));
  assert.equal(new Set(ids).size, 10);
  assert.deepEqual(ids, ids.map((_, i) => String(Number(ids[0]) + i)));
});

both('jobs are worked first come first served, lifo first of all, then by priority', async ({ q, p, w, keep }) => {
  const runs = file();
  await p.pause(q);
  const ids = [];
  for (const opts of [{}, { priority: 5 }, { priority: 1 }, {}, { lifo: true }, { priority: 5 }, { priority: 2097151 }, { lifo: true }])
    ids.push(await p.add(q, 'job', {}, opts));
  await w.work(q, { runs });
  await p.resume(q);
  await until('all are done', async () => (await p.counts(q)).completed === ids.length);
  const order = require('node:fs').readFileSync(runs, 'utf8').trim().split('\n').map((l) => ids.indexOf(l.split(' ')[0]));
  assert.deepEqual(order, [7, 4, 0, 3, 2, 1, 5, 6]);
});

both('a delayed job waits for its time and then wakes an idle worker', async ({ q, p, w }) => {
  const runs = file();
  await w.work(q, { runs });
  // The worker has slept in and would sleep on for minutes.
  const first = await p.add(q, 'job', {});
  await w.finished(q, first);
  const id = await p.add(q, 'job', { do: 'return', value: 1 }, { delay: 700 });
  assert.deepEqual(await w.finished(q, id), { value: 1 });
  const job = await p.job(q, id);
  assert.ok(job.processedOn >= job.timestamp + 700, `run ${job.processedOn - job.timestamp} ms after it was added`);
});

both('a delayed job keeps its priority', async ({ q, p, w }) => {
  const id = await p.add(q, 'job', {}, { delay: 100000, priority: 7 });
  assert.equal((await w.job(q, id)).state, 'delayed');
  await w.promote(q, id);
  const job = await p.job(q, id);
  assert.deepEqual([job.state, job.priority, job.delay], ['prioritized', 7, 0]);
});

both('finished jobs are kept or removed as the adding side said', async ({ q, p, w }) => {
  await w.work(q);
  const add = async (n, data, opts) => {
    const ids = [];
    for (let i = 0; i < n; i++) {
      const id = await p.add(q, 'job', data, opts);
      await until('it is finished', async () => {
        const job = await p.job(q, id);
        return !job || job.finishedOn;
      });
      ids.push(id);
    }
    return ids;
  };
  const kept = async (state) => (await p.jobs(q, state)).map((j) => j.id);
  await add(3, {}, { removeOnComplete: true });
  assert.deepEqual(await kept('completed'), []);
  let ids = await add(4, {}, { removeOnComplete: 2 });
  assert.deepEqual(await kept('completed'), ids.slice(2));
  ids = ids.slice(2).concat(await add(2, {}, {}));
  assert.deepEqual(await kept('completed'), ids);
  ids = await add(2, {}, { removeOnComplete: { count: 3, age: 3600 } });
  assert.equal((await kept('completed')).length, 3);
  await add(2, { do: 'fatal', message: 'no' }, { removeOnFail: true });
  assert.deepEqual(await kept('failed'), []);
  const failed = await add(3, { do: 'fatal', message: 'no' }, { removeOnFail: { count: 1 } });
  assert.deepEqual(await kept('failed'), failed.slice(2));
});

both('a log keeps as many lines as the adding side said', async ({ q, p, w }) => {
  await w.work(q);
  const logs = ['one', 'two', 'three', 'four'];
  const id = await p.add(q, 'job', { do: 'tell', logs, value: 1 }, { keepLogs: 2 });
  await w.finished(q, id);
  assert.deepEqual(await p.logs(q, id), ['three', 'four']);
  assert.deepEqual(await w.logs(q, id), ['three', 'four']);
});

// ---- long batches of EchoMQ, of which BullMQ knows nothing while they are staged

test('an id that BullMQ gives away while a long batch is staged is told as a duplicate of the batch', async (t) => {
  const { q, made: [emq, node] } = meet(t, 'emq', 'bullmq');
  const n = 60000;
  const batch = file();
  fs.writeFileSync(batch, '{"id":"mine"}\n' + '{"data":1}\n'.repeat(n));
  const { child, ended } = emq.start('add', q, '--batch', batch, '--must-add', '--json');
  await until('the id is staged', () => redis.exists(`bull::emq:${q}:staged:mine`));
  child.kill('SIGSTOP');
  assert.equal(await redis.exists(`bull::emq:${q}:staged:mine`), 1);
  assert.equal(await node.add(q, 'theirs', {}, { jobId: 'mine' }), 'mine');
  child.kill('SIGCONT');
  const { code, out } = await ended;
  assert.equal(code, 1);
  assert.deepEqual(JSON.parse(out), { added: n, duplicate: 1, deduplicated: 0 });
  assert.equal((await node.counts(q)).waiting, n + 1);
  assert.equal((await node.queue(q).getJob('mine')).name, 'theirs');
});

// ---- dedup

both('a dedup id drops adds of both sides until its job is finished', async ({ q, p, w }) => {
  const gate = file();
  const opts = { deduplication: { id: 'd' } };
  const id = await p.add(q, 'job', { do: 'hold', gate }, opts);
  assert.equal(await w.add(q, 'job', {}, opts), id);
  await w.work(q);
  await until('it runs', async () => (await p.job(q, id)).state === 'active');
  assert.equal(await p.add(q, 'job', {}, opts), id);
  assert.equal(await w.add(q, 'job', {}, opts), id);
  open(gate);
  await w.finished(q, id);
  assert.notEqual(await w.add(q, 'job', {}, opts), id);
});

both('a dedup window outlives its job', async ({ q, p, w }) => {
  const opts = { deduplication: { id: 'd', ttl: 100000 } };
  await w.work(q);
  const id = await p.add(q, 'job', {}, opts);
  await w.finished(q, id);
  assert.equal(await p.add(q, 'job', {}, opts), id);
  assert.equal(await w.add(q, 'job', {}, opts), id);
  assert.equal((await p.counts(q)).completed, 1);
  await p.releaseDedup(q, 'd');
  assert.notEqual(await w.add(q, 'job', {}, opts), id);
});

both('a window with extend begins anew with each dropped add', async ({ q, p, w }) => {
  const id = await p.add(q, 'job', {}, { deduplication: { id: 'd', ttl: 50000, extend: true } });
  const left = await redis.pttl(`bull:${q}:de:d`);
  assert.ok(left > 0 && left <= 50000);
  assert.equal(await w.add(q, 'job', {}, { deduplication: { id: 'd', ttl: 90000, extend: true } }), id);
  assert.ok((await redis.pttl(`bull:${q}:de:d`)) > 50000);
});

both('replace puts a new job in the place of a delayed one of the other side', async ({ q, p, w }) => {
  const opts = { delay: 100000, deduplication: { id: 'd', ttl: 100000, replace: true } };
  const old = await p.add(q, 'job', { n: 1 }, opts);
  const id = await w.add(q, 'job', { n: 2 }, opts);
  assert.notEqual(id, old);
  assert.equal(await p.job(q, old), undefined);
  assert.deepEqual((await p.job(q, id)).data, { n: 2 });
  assert.equal((await p.counts(q)).delayed, 1);
});

both('the last add while its job runs is kept and run after it', async ({ q, p, w }) => {
  const gate = file();
  const opts = { deduplication: { id: 'd', keepLastIfActive: true } };
  await w.work(q);
  const id = await p.add(q, 'job', { do: 'hold', gate }, opts);
  await until('it runs', async () => (await p.job(q, id)).state === 'active');
  await p.add(q, 'job', { do: 'return', value: 'passed over' }, opts);
  await p.add(q, 'job', { do: 'return', value: 'last' }, opts);
  open(gate);
  await until('the last one is done', async () => (await p.counts(q)).completed === 2);
  const values = (await p.jobs(q, 'completed')).map((j) => j.returnvalue);
  assert.deepEqual(values, ['held', 'last']);
});

each('a removed owner gives its dedup id free', async ({ q, side, node }) => {
  const opts = { deduplication: { id: 'd' } };
  const id = await node.add(q, 'job', {}, opts);
  await side.remove(q, id);
  assert.equal(await redis.exists(`bull:${q}:de:d`), 0);
  assert.notEqual(await side.add(q, 'job', {}, opts), id);
});
