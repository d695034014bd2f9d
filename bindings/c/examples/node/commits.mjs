// Commits from Node's event loop, and follows the log: no thread waits for the disk, and the loop sleeps in one descriptor.
//
//   cargo xtask install-c --prefix PREFIX
//   npm install koffi@2
//   SEAWALL=PREFIX/lib/libseawall.so.0 node commits.mjs DIR
import koffi from 'koffi';
import net from 'node:net';

const library = koffi.load(process.env.SEAWALL ?? 'libseawall.so.0');
koffi.opaque('seawall_log');
koffi.opaque('seawall_cursor');
koffi.struct('seawall_error', {
  code: 'int32', cause: 'int32', os_error: 'int32', reserved: 'int32', at: 'uint64', limit: 'uint64', message: 'str', path: 'str',
});
koffi.struct('seawall_record', {
  lsn: 'uint64', end: 'uint64', data: 'void *', bytes: 'uint64', seq: 'uint64', stream: 'uint32', flags: 'uint32', memory: 'void *',
});
const seawall = {};
for (const signature of [
  'int32 seawall_log_open(const char *dir, void *options, _Out_ seawall_log **log)',
  'int64 seawall_log_append(seawall_log *log, const void *data, uint64 bytes)',
  'int64 seawall_log_try_append(seawall_log *log, const void *data, uint64 bytes)',
  'int32 seawall_log_commit(seawall_log *log, uint64 lsn, int32 durability, int64 timeout_ns)',
  'int64 seawall_log_lsn(seawall_log *log, int32 which)',
  'int32 seawall_log_notify_fd(seawall_log *log)',
  'int32 seawall_log_read(seawall_log *log, uint64 lsn, _Out_ seawall_cursor **cursor)',
  'int32 seawall_cursor_next(seawall_cursor *cursor, int64 timeout_ns, _Out_ seawall_record *record)',
  'void seawall_cursor_free(seawall_cursor *cursor)',
  'int32 seawall_log_close(seawall_log *log)',
  'void seawall_log_free(seawall_log *log)',
  'seawall_error *seawall_error_last()',
]) {
  const name = /(seawall_\w+)\(/.exec(signature)[1];
  seawall[name.replace('seawall_', '')] = library.func(signature);
}
// A socket closes the descriptor that it is given: it gets a copy.
const dup = koffi.load(null).func('int dup(int fd)');
const [TIMED_OUT, WOULD_BLOCK, RECORD, DURABLE] = [-17, -16, 1, 2];

/** The result of a call; its error is that of this thread, so it is asked for before any other call. */
function check(code) {
  if (code >= 0) return code;
  const error = koffi.decode(seawall.error_last(), 'seawall_error');
  throw Object.assign(new Error(error.message), { code: error.code, osError: error.os_error, path: error.path });
}

export class Log {
  #log; #cursor; #socket; #receive;
  #waiting = []; // commits, by rising LSN

  constructor(dir, receive) {
    const out = [null];
    check(seawall.log_open(dir, null, out));
    this.#log = out[0];
    check(seawall.log_read(this.#log, 0, out));
    [this.#cursor, this.#receive] = [out[0], receive];
    this.#socket = new net.Socket({ fd: dup(check(seawall.log_notify_fd(this.#log))), readable: true, writable: false });
    // The socket has read the descriptor: what becomes durable after that makes it readable again.
    this.#socket.on('data', () => this.#look());
  }

  /** Appends a record and returns the LSN of its end. Where that would wait it is done by a thread of libuv's pool. */
  async append(bytes) {
    const end = seawall.log_try_append(this.#log, bytes, bytes.length);
    if (end !== WOULD_BLOCK) return check(end);
    const waited = await new Promise((resolve) => {
      seawall.log_append.async(this.#log, bytes, bytes.length, (failed, end) => resolve(failed ? -1 : end));
    });
    // The error is that of the other thread.
    if (waited < 0) throw Object.assign(new Error(`append: code ${waited}`), { code: waited });
    return waited;
  }

  /** Resolves when everything before `lsn` is durable. */
  commit(lsn) {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ lsn: Number(lsn), resolve, reject });
      this.#waiting.sort((one, other) => one.lsn - other.lsn);
      this.#look();
    });
  }

  #look() {
    const durable = Number(check(seawall.log_lsn(this.#log, DURABLE)));
    while (this.#waiting.length && this.#waiting[0].lsn <= durable) {
      const { lsn, resolve } = this.#waiting.shift();
      resolve(lsn);
    }
    if (this.#waiting.length) {
      // Requests it, and learns of a failure.
      const code = seawall.log_commit(this.#log, this.#waiting.at(-1).lsn, 0, 0);
      if (code < 0 && code !== TIMED_OUT) {
        try { check(code); } catch (error) { this.#waiting.splice(0).forEach(({ reject }) => reject(error)); }
      }
    }
    const record = {};
    while (check(seawall.cursor_next(this.#cursor, 0, record)) === RECORD) {
      this.#receive(Buffer.from(koffi.decode(record.data, koffi.array('uint8', Number(record.bytes), 'Typed'))));
    }
  }

  close() {
    this.#socket.destroy();
    seawall.cursor_free(this.#cursor);
    try { check(seawall.log_close(this.#log)); } finally { seawall.log_free(this.#log); }
  }
}

const COMMITS = 5000;
let received = 0, enough;
const all = new Promise((resolve) => { enough = resolve; });
const log = new Log(process.argv[2], () => { if (++received === COMMITS) enough(); });
for (let number = 0; number < COMMITS; number += 100) {
  await Promise.all(Array.from({ length: 100 }, async (_, at) => log.commit(await log.append(Buffer.from(`event ${number + at}`)))));
}
await all;
log.close();
console.log(`${COMMITS} commits, ${received} records received`);
