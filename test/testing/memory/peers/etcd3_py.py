# Uses the client of the PyPI package etcd3-py, which calls the JSON gateway.
import sys
import threading
import time

from etcd3 import Client

host, port = sys.argv[1].split(':')
client = Client(host, int(port))
print('versions', client.cluster_version, client.server_version.split('.')[:2])

client.put('py/a', 'one')
client.put('py/b', 'two')
response = client.range('py/', prefix=True)
print('range', [(kv.key, kv.value, kv.version) for kv in response.kvs], response.count)
print('previous', client.put('py/a', 'uno', prev_kv=True).prev_kv.value)

events, done = [], threading.Event()


def received(event):
    events.append((str(event.type), event.key, event.value))
    if len(events) == 3:
        done.set()


revision = client.put('py/w', '0').header.revision
watcher = client.Watcher(key='py/w', start_revision=revision)
watcher.onEvent(received)
watcher.runDaemon()
client.put('py/w', '1')
client.delete_range('py/w')
print('watch', done.wait(20), events)
watcher.stop()

lease = client.lease_grant(30)
client.put('py/l', 'x', lease=lease.ID)
print('lease', lease.TTL, client.range('py/l').kvs[0].lease == lease.ID, client.lease_time_to_live(lease.ID, keys=True).keys)
renewed = client.lease_keep_alive_once(lease.ID)
print('renewed', renewed.ID == lease.ID, renewed.TTL)
client.lease_revoke(lease.ID)
print('revoked', client.range('py/l').kvs)

txn = client.Txn()
txn.compare(txn.key('py/a').value == 'uno')
txn.success(txn.put('py/a', 'eins'))
txn.failure(txn.delete('py/a'))
print('txn', txn.commit().succeeded, client.range('py/a').kvs[0].value)

print('members', len(client.member_list().members), client.status().version.split('.')[:2])
for name, call in [
    ('no key', lambda: client.range('')),
    ('no lease', lambda: client.lease_revoke(12345)),
    ('future', lambda: client.range('py/a', revision=10**6)),
    ('no user', lambda: client.auth('a', 'b')),
]:
    try:
        call()
        print(name, 'succeeded')
    except Exception as error:
        print(name, type(error).__name__, error)
print('deleted', client.delete_range('py/', prefix=True).deleted)
