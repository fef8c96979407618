# Uses the client of the PyPI package etcd3, which calls gRPC.
import sys

import etcd3

host, port = sys.argv[1].split(':')
client = etcd3.client(host=host, port=int(port), timeout=10)
client.put('py/a', 'one')
client.put('py/b', 'two')
print('range', [(value, meta.key, meta.version) for value, meta in client.get_prefix('py/')])
print('conditions', client.put_if_not_exists('py/a', 'x'), client.replace('py/a', 'one', 'uno'), client.get('py/a')[0])

events, cancel = client.watch_prefix('py/w')
client.put('py/w1', '1')
client.delete('py/w1')
print('watch', [type(next(events)).__name__ for _ in range(2)])
cancel()

lease = client.lease(30)
client.put('py/l', 'x', lease)
print('lease', lease.granted_ttl, lease.keys, [renewed.TTL for renewed in lease.refresh()])
print('lease of key', client.get('py/l')[1].lease_id == lease.id)
lease.revoke()
print('revoked', client.get('py/l'))

transactions = client.transactions
succeeded, _ = client.transaction(
    compare=[transactions.value('py/a') == 'uno', transactions.version('py/a') > 0],
    success=[transactions.put('py/a', 'eins'), transactions.get('py/b')],
    failure=[transactions.delete('py/a')],
)
print('txn', succeeded, client.get('py/a')[0])
with client.lock('py/lock', ttl=20) as lock:
    print('lock', lock.is_acquired())
print('lock', lock.is_acquired())
print('members', len(list(client.members)), client.status().version.split('.')[:2], list(client.list_alarms()))

revision = client.put('py/a', 'x').header.revision
client.compact(revision)
events, cancel = client.watch('py/a', start_revision=1)
try:
    next(events)
except etcd3.exceptions.RevisionCompactedError as error:
    print('compacted', error.compacted_revision == revision)
client.defragment()
print('deleted', client.delete_prefix('py/').deleted)
