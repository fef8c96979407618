const { getClient, close } = require('./client');
const { Registry } = require('./registry');
const createIds = require('./ids');

async function start(config) {
  const client = getClient(config);
  const registry = new Registry(client, { ttl: config.ttl });
  const next = createIds({ client });
  const id = `i-${await next()}`;
  await client.put('registry/version').value(config.version);
  const lock = await client.lock('registry/setup').ttl(5).acquire();
  try {
    const isReady = await client.get('registry/ready').exists();
    if (!isReady) await client.put('registry/ready').value('yes');
  } finally {
    await lock.release();
  }
  await registry.watch();
  await registry.register(config.name, id, config.address);
  const info = {
    version: () => client.get('registry/version').string(),
    leader: () => client.election('registry').leader(),
  };
  return {
    id,
    registry,
    info,
    async stop() {
      await registry.unregister(id);
      await registry.close();
      close();
    },
  };
}

module.exports = { start };
