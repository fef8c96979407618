const { Etcd3 } = require('etcd3');

let shared = null;

function createClient(config) {
  const options = { hosts: config.hosts, dialTimeout: 3000 };
  if (config.username) options.auth = { username: config.username, password: config.password };
  return new Etcd3(options);
}

function getClient(config) {
  if (shared === null) shared = createClient(config);
  return shared;
}

function close() {
  if (shared) shared.close();
  shared = null;
}

module.exports = { createClient, getClient, close };
