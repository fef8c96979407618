/** Returns a function that hands out numbers, each of them once. */
module.exports = function createIds({ client, key = 'ids/next' }) {
  return async function next() {
    for (;;) {
      const current = await client.get(key).number();
      const result = await client
        .if(key, current === null ? 'Create' : 'Value', '==', current === null ? 0 : current)
        .then(client.put(key).value((current || 0) + 1))
        .commit();
      if (result.succeeded) return (current || 0) + 1;
    }
  };
};
