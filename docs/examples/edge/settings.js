// A Durable Object that answers from a copy of the keys under `config/`. A watch keeps the copy up to date. The object
// saves each state in its storage, so it answers at once when it starts again, even while etcd is down: `status` is
// `stored` until a server has answered. Cloudflare allows 2 MB for a value in an object with SQLite storage, and 128 KiB
// otherwise. A copy that cannot be saved causes the notice `save-failed`.
//
// A platform may end the object when no request comes. On Cloudflare, an open connection keeps it in memory for 15 minutes
// after the connection was opened. After that, the object may leave memory 70 to 140 s after the last request, and the next
// request starts it again. If the object must react to every change, let alarms start it regularly
// (`storage.setAlarm`, and a method `alarm`), and watch from the last revision that the object has handled.
import { Client, prefix } from 'etcdwire';
import { persisted } from 'etcdwire/recipes';

export class Settings {
  #storage;
  #etcd;
  #range;

  constructor({ storage }, env) {
    this.#storage = storage;
    this.#etcd = new Client({ endpoints: [env.ETCD], timeoutMs: 5_000 });
  }

  async fetch() {
    try {
      this.#range ??= this.#open();
      const range = await this.#range;
      const { status } = range.state;
      return Response.json({ status, keys: range.range().map((kv) => [kv.key, kv.text()]) });
    } catch (error) {
      this.#range = undefined; // The next request tries again.
      return new Response(String(error), { status: 503 });
    }
  }

  #open() {
    const storage = this.#storage;
    const store = { load: () => storage.get('copy'), save: (bytes) => storage.put('copy', bytes) };
    const onNotice = ({ type, cause }) => console.error(`settings: ${type}`, cause);
    return persisted(this.#etcd, prefix('config/'), store, { onNotice, timeoutMs: 5_000 });
  }
}

export default {
  fetch: (request, env) => env.SETTINGS.get(env.SETTINGS.idFromName('settings')).fetch(request),
};
