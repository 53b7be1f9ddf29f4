// SPDX-License-Identifier: MIT
//
// The handler of EchoMQ's workers: emq work QUEUE --stream -- node emq_handler.js [RUNS]
'use strict';

const { behave, Fatal } = require('./behaviour.js');

const say = (answer) => process.stdout.write(JSON.stringify(answer) + '\n');

require('node:readline')
  .createInterface({ input: process.stdin })
  .on('line', async (line) => {
    const job = JSON.parse(line);
    job.progress = (progress) => say({ progress });
    job.log = (log) => say({ log });
    try {
      const result = await behave(job, process.argv[2]);
      say({ id: job.id, result: result === undefined ? null : result });
    } catch (e) {
      say({ id: job.id, error: e.message, stack: e.stack, final: e instanceof Fatal });
    }
  });
