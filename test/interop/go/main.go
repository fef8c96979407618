// Program interop ENDPOINT PRIMITIVE NAME uses one primitive of Go's client, such as a mutex, under a name that a test
// uses too. It takes the primitive, prints "in", waits for a line of input, releases the primitive, and prints "out".
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"
	"go.etcd.io/etcd/client/v3/naming/endpoints"
)

func main() {
	endpoint, primitive, name := os.Args[1], os.Args[2], os.Args[3]
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 3 * time.Second})
	check(err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(10))
	check(err)
	ctx := context.Background()
	input := bufio.NewReader(os.Stdin)
	// Prints "in", waits for a line, leaves, and prints "out".
	stay := func(leave func() error) {
		fmt.Println("in")
		_, err := input.ReadString('\n')
		check(err)
		check(leave())
		fmt.Println("out")
	}
	switch primitive {
	case "mutex":
		mutex := concurrency.NewMutex(session, name)
		check(mutex.Lock(ctx))
		stay(func() error { return mutex.Unlock(ctx) })
	case "election":
		election := concurrency.NewElection(session, name)
		check(election.Campaign(ctx, "go"))
		stay(func() error { return election.Resign(ctx) })
	case "read":
		mutex := recipe.NewRWMutex(session, name)
		check(mutex.RLock())
		stay(mutex.RUnlock)
	case "write":
		mutex := recipe.NewRWMutex(session, name)
		check(mutex.Lock())
		stay(mutex.Unlock)
	case "barrier":
		barrier := recipe.NewBarrier(client, name)
		check(barrier.Hold())
		stay(barrier.Release)
	case "wait":
		check(recipe.NewBarrier(client, name).Wait())
		fmt.Println("out")
	case "double-barrier":
		barrier := recipe.NewDoubleBarrier(session, name, 3)
		check(barrier.Enter())
		stay(barrier.Leave)
	case "enqueue":
		check(recipe.NewQueue(client, name).Enqueue("from Go"))
		fmt.Println("out")
	case "dequeue":
		item, err := recipe.NewQueue(client, name).Dequeue()
		check(err)
		fmt.Println(item)
	case "enqueue-by-priority":
		queue := recipe.NewPriorityQueue(client, name)
		check(queue.Enqueue("Go 5", 5))
		check(queue.Enqueue("Go 1", 1))
		fmt.Println("out")
	case "dequeue-by-priority":
		item, err := recipe.NewPriorityQueue(client, name).Dequeue()
		check(err)
		fmt.Println(item)
	case "service":
		manager, err := endpoints.NewManager(client, name)
		check(err)
		check(manager.AddEndpoint(ctx, name+"/go", endpoints.Endpoint{Addr: "go:1", Metadata: "m"}))
		found, err := manager.List(ctx)
		check(err)
		fmt.Println(found)
	}
}

func check(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}
