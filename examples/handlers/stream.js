// SPDX-License-Identifier: MIT
//
// One process for many jobs:  emq work sums --stream -- node examples/handlers/stream.js
// A line of JSON comes for each job; progress and log lines may go back, then one result or error.
'use strict';

const lines = require('readline').createInterface({ input: process.stdin });
const say = (answer) => process.stdout.write(JSON.stringify(answer) + '\n');

lines.on('line', (line) => {
  const job = JSON.parse(line);
  const { a, b } = job.data;
  if (typeof a !== 'number' || typeof b !== 'number') {
    say({ id: job.id, error: 'a and b must be numbers', final: true });
    return;
  }
  say({ log: `attempt ${job.attempt}, key ${job.idempotencyKey}` });
  say({ progress: 50 });
  say({ id: job.id, result: { sum: a + b } });
});
