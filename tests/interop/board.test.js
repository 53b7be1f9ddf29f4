// SPDX-License-Identifier: MIT
//
// bull-board over a queue: what it shows and what its buttons do, through its HTTP API.
'use strict';

const express = require('express');
const { createBullBoard } = require('@bull-board/api');
const { BullMQAdapter } = require('@bull-board/api/bullMQAdapter');
const { assert, each, file, open, until } = require('./lib/harness.js');

// What @bull-board/express does, without its pages.
class Server {
  constructor() {
    this.app = express();
    this.app.use(express.json());
  }
  setQueues(queues) { this.queues = queues; return this; }
  setApiRoutes(routes) {
    for (const { method, route, handler } of routes)
      for (const m of [].concat(method))
        for (const path of [].concat(route))
          this.app[m](path, async (req, res) => {
            try {
              const { queues, onError } = this;
              const r = await handler({ queues, query: req.query, params: req.params, body: req.body, headers: req.headers });
              res.status(r.status || 200).json(r.body ?? {});
            } catch (e) {
              const r = this.onError(e);
              res.status(r.status || 500).json(r.body);
            }
          });
    return this;
  }
  setErrorHandler(handler) { this.onError = handler; return this; }
  setViewsPath() { return this; }
  setStaticPath() { return this; }
  setEntryRoute() { return this; }
  setUIConfig() { return this; }
}

async function board(q, node, keep) {
  const server = new Server();
  createBullBoard({ queues: [new BullMQAdapter(node.queue(q))], serverAdapter: server, options: { uiBasePath: __dirname } });
  const listening = server.app.listen(0, '127.0.0.1');
  await require('node:events').once(listening, 'listening');
  keep(listening, () => listening.close());
  listening.unref();
  const base = `http://127.0.0.1:${listening.address().port}`;
  const call = async (method, path, body) => {
    const r = await fetch(base + path, {
      method,
      headers: { connection: 'close', ...(body ? { 'content-type': 'application/json' } : {}) },
      body: body && JSON.stringify(body),
    });
    const text = await r.text();
    assert.ok(r.status < 300, `${method} ${path}: ${r.status} ${text}`);
    return text && JSON.parse(text);
  };
  const queue = encodeURIComponent(q);
  return {
    put: (path, body) => call('PUT', `/api/queues/${queue}${path}`, body),
    post: (path, body) => call('POST', `/api/queues/${queue}${path}`, body),
    patch: (path, body) => call('PATCH', `/api/queues/${queue}${path}`, body),
    get: (path) => call('GET', `/api/queues/${queue}${path}`),
    // As the page of one state shows it.
    async show(status) {
      const all = await call('GET', `/api/queues?activeQueue=${queue}&status=${status}&page=1`);
      return all.queues.find((x) => x.name === q);
    },
  };
}

// A queue with a job of each state, made and worked by one side.
async function filled(q, side, gate) {
  const worker = await side.work(q, { name: 'anna' });
  const good = await side.add(q, 'good', { do: 'tell', progress: [70], logs: ['a line', 'more'], value: { sum: 3 } });
  const bad = await side.add(q, 'bad', { do: 'throw', message: 'out of luck' }, { attempts: 2 });
  await side.finished(q, good);
  await side.finished(q, bad);
  const running = await side.add(q, 'running', { do: 'hold', gate });
  await until('it runs', async () => (await side.job(q, running)).state === 'active');
  const waiting = await side.add(q, 'waiting', { n: 1 });
  const delayed = await side.add(q, 'delayed', { n: 2 }, { delay: 100000 });
  const prio = await side.add(q, 'prio', { n: 3 }, { priority: 4 });
  return { worker, good, bad, running, waiting, delayed, prio };
}

each('the board shows every job as it is', async ({ q, side, node, keep }) => {
  const gate = file();
  const ids = await filled(q, side, gate);
  const b = await board(q, node, keep);
  const shown = await b.show('latest');
  assert.deepEqual(
    ['active', 'waiting', 'completed', 'failed', 'prioritized', 'delayed'].map((s) => [s, shown.counts[s]]),
    [['active', 1], ['waiting', 1], ['completed', 1], ['failed', 1], ['prioritized', 1], ['delayed', 1]],
  );
  assert.equal(shown.isPaused, false);
  for (const [status, name] of [['active', 'running'], ['waiting', 'waiting'], ['completed', 'good'], ['failed', 'bad'], ['delayed', 'delayed'], ['prioritized', 'prio']])
    assert.deepEqual((await b.show(status)).jobs.map((j) => [j.id, j.name]), [[ids[name], name]]);
  const { job, status } = await b.get(`/${ids.bad}`);
  assert.equal(status, 'failed');
  assert.equal(job.failedReason, 'out of luck');
  assert.equal(job.attempts, 2);
  assert.equal(job.stacktrace.length, 2);
  assert.equal(job.isFailed, true);
  const good = (await b.get(`/${ids.good}`)).job;
  assert.deepEqual([good.returnValue, good.progress, good.isFailed], [{ sum: 3 }, 70, false]);
  assert.ok(good.processedOn >= good.timestamp && good.finishedOn >= good.processedOn);
  assert.deepEqual(await b.get(`/${ids.good}/logs`), ['a line', 'more']);
  open(gate);
  await side.finished(q, ids.running);
});

each('the buttons of the board act', async ({ q, side, node, keep }) => {
  const gate = file();
  const ids = await filled(q, side, gate);
  open(gate);
  for (const id of [ids.running, ids.waiting, ids.prio]) await side.finished(q, id);
  await ids.worker.stop();
  const b = await board(q, node, keep);
  await b.put(`/${ids.bad}/retry`);
  assert.equal((await side.job(q, ids.bad)).state, 'waiting');
  await b.put(`/${ids.delayed}/promote`);
  assert.equal((await side.job(q, ids.delayed)).state, 'waiting');
  await b.put('/pause');
  assert.equal((await b.show('latest')).isPaused, true);
  await side.resume(q);
  assert.equal((await b.show('latest')).isPaused, false);
  await side.pause(q);
  assert.equal((await b.show('latest')).isPaused, true);
  await b.put('/resume');
  await b.put(`/${ids.good}/clean`);
  assert.equal(await side.job(q, ids.good), undefined);
  await b.patch(`/${ids.delayed}/update-data`, { jobData: { n: 20 } });
  assert.deepEqual((await side.job(q, ids.delayed)).data, { n: 20 });
  await b.patch(`/${ids.delayed}/priority`, { priority: 8 });
  assert.equal((await side.job(q, ids.delayed)).priority, 8);
  const added = await b.post('/add', { name: 'from the board', data: { do: 'return', value: 'hello' }, options: {} });
  await side.work(q);
  await until('it is done', async () => (await side.jobs(q, 'completed')).some((j) => j.name === 'from the board' && j.returnvalue === 'hello'));
  assert.ok(added);
  await until('all is done', async () => (await side.counts(q)).active === 0);
  await b.put('/empty');
  assert.equal((await side.counts(q)).waiting, 0);
});
