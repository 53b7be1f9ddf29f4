// SPDX-License-Identifier: MIT
//
// A BullMQ worker over behaviour.js; as a program of its own it can be killed:
// node bullmq_worker.js URL QUEUE OPTIONS-AS-JSON
'use strict';

const { Worker, UnrecoverableError } = require('bullmq');
const { behave, Fatal } = require('./behaviour.js');

function bullmqWorker(connection, queue, o) {
  const processor = async (job) => {
    try {
      return await behave(
        {
          id: job.id,
          data: job.data,
          attempt: job.attemptsMade + 1,
          progress: (p) => job.updateProgress(p),
          log: (line) => job.log(line),
        },
        o.runs,
      );
    } catch (e) {
      throw e instanceof Fatal ? new UnrecoverableError(e.message) : e;
    }
  };
  const options = {
    connection,
    name: o.name,
    concurrency: o.concurrency,
    lockDuration: o.lock,
    stalledInterval: o.stalled,
    maxStalledCount: o.maxStalled,
    // Longer than any test waits: who is not woken is not seen.
    drainDelay: 300,
    limiter: o.limiter,
  };
  for (const k of Object.keys(options)) if (options[k] === undefined) delete options[k];
  const worker = new Worker(queue, processor, options);
  worker.on('error', (e) => console.error(`bullmq worker of ${queue}: ${e.message}`));
  return worker;
}

module.exports = { bullmqWorker };

if (require.main === module) {
  const [url, queue, options] = process.argv.slice(2);
  const { hostname: host, port } = new URL(url);
  const worker = bullmqWorker({ host, port: Number(port) }, queue, JSON.parse(options));
  process.on('SIGTERM', () => worker.close().then(() => process.exit(0)));
}
