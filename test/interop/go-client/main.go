// Program client ENDPOINT NAME uses Go's clientv3 and the packages around it, under a name that nothing else uses, and
// prints what it sees. Program client ENDPOINT auth enables authentication, and shows that the client refreshes tokens.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/leasing"
	"go.etcd.io/etcd/client/v3/mirror"
	"go.etcd.io/etcd/client/v3/namespace"
	"go.etcd.io/etcd/client/v3/ordering"
	"go.uber.org/zap"
)

func main() {
	endpoint, name := os.Args[1], os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client := open(endpoint, "", "")
	if name == "auth" {
		auth(ctx, endpoint, client)
		return
	}
	transactions(ctx, client, name+"/txn/")
	watches(ctx, client, name+"/watch/")
	leases(ctx, client, name+"/lease/")
	wrappers(ctx, client, name+"/wrap/")
	copies(ctx, client, name+"/mirror/")
	compactions(ctx, client, name+"/compact/")
}

func open(endpoint, user, password string) *clientv3.Client {
	return must(clientv3.New(clientv3.Config{
		Endpoints:            []string{endpoint},
		DialTimeout:          3 * time.Second,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		Username:             user,
		Password:             password,
		Logger:               zap.NewNop(),
	}))
}

func transactions(ctx context.Context, client *clientv3.Client, prefix string) {
	a, b := prefix+"a", prefix+"b"
	put := must(client.Put(ctx, a, "1"))
	inner := clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.Value(a), "=", "2")},
		[]clientv3.Op{clientv3.OpGet(prefix, clientv3.WithPrefix())},
		[]clientv3.Op{clientv3.OpGet(b)},
	)
	txn := must(client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(a), "=", put.Header.Revision),
			clientv3.Compare(clientv3.Version(prefix).WithPrefix(), "<", 2),
			clientv3.Compare(clientv3.LeaseValue(a), "=", clientv3.NoLease)).
		Then(clientv3.OpPut(a, "2"), clientv3.OpPut(b, "3"), inner).
		Else(clientv3.OpGet(a)).
		Commit())
	for _, kv := range txn.Responses[2].GetResponseTxn().Responses[0].GetResponseRange().Kvs {
		fmt.Printf("txn %s=%s at %d\n", kv.Key[len(prefix):], kv.Value, kv.ModRevision-put.Header.Revision)
	}
	_, err := client.Txn(ctx).Then(clientv3.OpPut(a, ""), clientv3.OpPut(a, "")).Commit()
	fmt.Println("txn", errors.Is(err, rpctypes.ErrDuplicateKey), err)
	last := must(client.Get(ctx, prefix, clientv3.WithLastRev()...))
	fmt.Printf("last %s more=%t\n", last.Kvs[0].Key[len(prefix):], last.More)
}

func watches(ctx context.Context, client *clientv3.Client, prefix string) {
	watch := client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithCreatedNotify(),
		clientv3.WithFragment(), clientv3.WithFilterPut())
	puts := client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithFilterDelete())
	fmt.Println("watch created", (<-watch).Created)
	start := must(client.Put(ctx, prefix+"a", "1")).Header.Revision
	must(client.Delete(ctx, prefix+"a"))
	show := func(response clientv3.WatchResponse) {
		check(response.Err())
		for _, event := range response.Events {
			fmt.Printf("watch %s %s", event.Type, event.Kv.Key[len(prefix):])
			if event.PrevKv != nil {
				fmt.Printf(" previous=%s", event.PrevKv.Value)
			}
			fmt.Println()
		}
	}
	show(<-watch)
	show(<-puts)
	check(client.RequestProgress(ctx))
	progress := <-watch
	fmt.Println("watch progress", progress.IsProgressNotify(), progress.Header.Revision > start)

	// Three events of 1 MB are more than one message of the watch may contain.
	large := bytes.Repeat([]byte("v"), 1_000_000)
	for range 3 {
		must(client.Put(ctx, prefix+"large", string(large)))
	}
	history := client.Watch(ctx, prefix+"large", clientv3.WithRev(start), clientv3.WithFragment())
	events := 0
	for events < 3 {
		response := <-history
		check(response.Err())
		events += len(response.Events)
	}
	fmt.Println("watch large events", events)
}

func leases(ctx context.Context, client *clientv3.Client, prefix string) {
	lease := must(client.Grant(ctx, 2)).ID
	must(client.Put(ctx, prefix+"a", "", clientv3.WithLease(lease)))
	alive, cancel := context.WithCancel(ctx)
	renewals := must(client.KeepAlive(alive, lease))
	// The last renewal is later than the end of the first TTL.
	for started := time.Now(); time.Since(started) < 2100*time.Millisecond; {
		if renewal := <-renewals; renewal.TTL != 2 {
			fmt.Println("lease", renewal)
		}
	}
	cancel()
	attached := must(client.TimeToLive(ctx, lease, clientv3.WithAttachedKeys()))
	fmt.Printf("lease granted=%d keys=%d\n", attached.GrantedTTL, len(attached.Keys))
	must(client.Revoke(ctx, lease))
	_, err := client.KeepAliveOnce(ctx, lease)
	fmt.Println("lease", err, must(client.Get(ctx, prefix+"a")).Count)
}

func wrappers(ctx context.Context, client *clientv3.Client, prefix string) {
	kv := namespace.NewKV(client.KV, prefix)
	watcher := namespace.NewWatcher(client.Watcher, prefix)
	put := must(kv.Put(ctx, "k", "v"))
	fmt.Printf("namespace %s\n", must(kv.Get(ctx, "", clientv3.WithPrefix())).Kvs[0].Key)
	event := (<-watcher.Watch(ctx, "k", clientv3.WithRev(put.Header.Revision))).Events[0]
	fmt.Printf("namespace %s %s=%s\n", event.Type, event.Kv.Key, event.Kv.Value)

	ordered := ordering.NewKV(kv, ordering.NewOrderViolationSwitchEndpointClosure(client))
	fmt.Printf("ordering %s\n", must(ordered.Get(ctx, "k", clientv3.WithSerializable())).Kvs[0].Value)

	cached, closeCache, err := leasing.NewKV(client, prefix+"leasing/")
	check(err)
	other, closeOther, err := leasing.NewKV(client, prefix+"leasing/")
	check(err)
	must(cached.Put(ctx, prefix+"l", "1"))
	must(cached.Get(ctx, prefix+"l"))
	// The other client must get the key's ownership from the cache before it can write.
	must(other.Put(ctx, prefix+"l", "2"))
	fmt.Printf("leasing %s\n", must(cached.Get(ctx, prefix+"l")).Kvs[0].Value)
	closeCache()
	closeOther()
}

func copies(ctx context.Context, client *clientv3.Client, prefix string) {
	for i := range 3 {
		must(client.Put(ctx, fmt.Sprint(prefix, i), "v"))
	}
	syncer := mirror.NewSyncer(client, prefix, 0)
	responses, errs := syncer.SyncBase(ctx)
	total := 0
	for response := range responses {
		total += len(response.Kvs)
	}
	check(<-errs)
	updates := syncer.SyncUpdates(ctx)
	must(client.Delete(ctx, prefix+"1"))
	fmt.Println("mirror", total, (<-updates).Events[0].Type)

	snapshot := must(client.SnapshotWithVersion(ctx))
	data := must(io.ReadAll(snapshot.Snapshot))
	end := len(data) - sha256.Size
	digest := sha256.Sum256(data[:end])
	fmt.Println("snapshot", end%512, bytes.Equal(digest[:], data[end:]))
}

func compactions(ctx context.Context, client *clientv3.Client, prefix string) {
	first := must(client.Put(ctx, prefix+"a", "1")).Header.Revision
	second := must(client.Put(ctx, prefix+"a", "2")).Header.Revision
	must(client.Compact(ctx, second, clientv3.WithCompactPhysical()))
	_, err := client.Get(ctx, prefix+"a", clientv3.WithRev(first))
	fmt.Println("compaction", errors.Is(err, rpctypes.ErrCompacted), err)
	response := <-client.Watch(ctx, prefix+"a", clientv3.WithRev(first))
	fmt.Println("compaction", response.Canceled, response.CompactRevision == second, response.Err())
	_, err = client.Get(ctx, prefix+"a", clientv3.WithRev(second+1_000_000))
	fmt.Println("compaction", errors.Is(err, rpctypes.ErrFutureRev), err)
}

func auth(ctx context.Context, endpoint string, client *clientv3.Client) {
	for _, name := range []string{"root", "app"} {
		must(client.UserAdd(ctx, name, "secret"))
		must(client.RoleAdd(ctx, name))
		must(client.UserGrantRole(ctx, name, name))
	}
	must(client.RoleGrantPermission(ctx, "app", "app/", clientv3.GetPrefixRangeEnd("app/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	must(client.AuthEnable(ctx))
	root, app := open(endpoint, "root", "secret"), open(endpoint, "app", "secret")
	must(app.Put(ctx, "app/k", "v"))
	_, err := app.Put(ctx, "other", "v")
	fmt.Println("auth", errors.Is(err, rpctypes.ErrPermissionDenied), err)
	watch := app.Watch(ctx, "app/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	fmt.Println("auth watch", (<-watch).Created)
	denied := <-app.Watch(ctx, "other")
	fmt.Println("auth watch", denied.Canceled, denied.Err())
	// The server forgets the tokens of a user whose password changes.
	must(root.UserChangePassword(ctx, "app", "secret"))
	must(app.Put(ctx, "app/k", "w"))
	event := (<-watch).Events[0]
	fmt.Printf("auth %s %s\n", event.Kv.Key, event.Kv.Value)
	_, err = clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Username: "app", Password: "wrong", Logger: zap.NewNop()})
	fmt.Println("auth", err)
	must(root.AuthDisable(ctx))
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}
