const { EventEmitter } = require('node:events');

/** Registers the instances of services below `services/`. */
class Registry extends EventEmitter {
  constructor(client, options = {}) {
    super();
    this.client = client;
    this.ttl = options.ttl || 10;
    this.leases = new Map();
    this.watcher = null;
  }

  async register(service, id, address) {
    const lease = this.client.lease(this.ttl);
    lease.on('lost', () => {
      this.leases.delete(id);
      this.register(service, id, address).catch((error) => this.emit('error', error));
    });
    await lease.put(`services/${service}/${id}`).value(JSON.stringify({ id, address }));
    this.leases.set(id, lease);
    return lease;
  }

  async unregister(id) {
    const lease = this.leases.get(id);
    if (!lease) return false;
    this.leases.delete(id);
    await lease.revoke();
    return true;
  }

  async list(service) {
    const values = await this.client.getAll().prefix(`services/${service}/`).json();
    return Object.values(values);
  }

  async services() {
    const keys = await this.client.getAll().prefix('services/').keys();
    return [...new Set(keys.map((key) => key.split('/')[1]))];
  }

  async size(service) {
    return this.client.getAll().prefix(`services/${service}/`).count();
  }

  async find(service, id) {
    const { address } = (await this.client.get(`services/${service}/${id}`).json()) || {};
    return address;
  }

  async watch() {
    this.watcher = await this.client.watch().prefix('services/').create();
    this.watcher.on('put', (kv) => this.emit('up', kv.key.toString(), JSON.parse(kv.value.toString())));
    this.watcher.on('delete', (kv) => this.emit('down', kv.key.toString()));
    this.watcher.on('disconnected', () => this.emit('stale'));
  }

  async drain(service) {
    const { deleted } = await this.client.delete().prefix(`services/${service}/`);
    return Number(deleted);
  }

  async close() {
    if (this.watcher) await this.watcher.cancel();
    await Promise.all([...this.leases.values()].map((lease) => lease.revoke()));
  }
}

module.exports = { Registry };
