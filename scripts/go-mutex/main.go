// Measures how often per second contenders hand a lock on with Go's concurrency.Mutex:
//
//	go-mutex ENDPOINT NAME CONTENDERS SECONDS
//
// Each contender has a client and a session of its own, and locks and unlocks in a loop. The program prints the number
// of locks taken per second.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

func main() {
	endpoint, name := os.Args[1], os.Args[2]
	contenders, err := strconv.Atoi(os.Args[3])
	check(err)
	seconds, err := strconv.ParseFloat(os.Args[4], 64)
	check(err)

	var taken atomic.Int64
	var wait sync.WaitGroup
	mutexes := make([]*concurrency.Mutex, contenders)
	for i := range mutexes {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
		check(err)
		session, err := concurrency.NewSession(client)
		check(err)
		mutexes[i] = concurrency.NewMutex(session, name)
	}
	start := time.Now()
	end := start.Add(time.Duration(seconds * float64(time.Second)))
	for _, mutex := range mutexes {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for time.Now().Before(end) {
				check(mutex.Lock(context.Background()))
				taken.Add(1)
				check(mutex.Unlock(context.Background()))
			}
		}()
	}
	wait.Wait()
	fmt.Printf("%.1f\n", float64(taken.Load())/time.Since(start).Seconds())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
