#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# A payment provider to try pay.sh with:  payments.py LEDGER
# It prints its URL. A charge is a line in the file LEDGER; under a key that it has seen it charges nothing and
# gives the first answer again; the key with another amount is refused.
import hashlib
import http.server
import os
import sys
import threading

ledger = sys.argv[1]
seen = {}  # key -> fingerprint, answer
lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
        key = self.headers.get('Idempotency-Key')
        print_of = hashlib.sha256(body).hexdigest()
        with lock:
            if key is None:
                return self.reply(400, b'{"error":"no Idempotency-Key"}')
            if key not in seen:
                with open(ledger, 'ab') as f:
                    f.write(body + b'\n')
                    f.flush()
                    os.fsync(f.fileno())
                seen[key] = (print_of, b'{"receipt":%d}' % (len(seen) + 1))
            if seen[key][0] != print_of:
                return self.reply(422, b'{"error":"the key belongs to another charge"}')
            self.reply(200, seen[key][1])

    def reply(self, status, answer):
        self.send_response(status)
        self.send_header('Content-Length', str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
print('http://127.0.0.1:%d' % server.server_port, flush=True)
server.serve_forever()
