package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// calls measures calls as ../rust/src/main.rs does with Rust's client. The arguments are those of that program, from
// KEYS on. One client makes the calls, in a goroutine for each call in flight.
func calls(endpoint, prefix string, args []string) {
	keyCount, kind, valueBytes, inFlight := number(args[0]), args[1], number(args[2]), number(args[3])
	warmUp, duration := seconds(args[4]), seconds(args[5])
	config := clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()}
	if len(args) > 6 {
		config.TLS = trusting(args[6])
	}
	client, err := clientv3.New(config)
	check(err)
	keys := make([]string, keyCount)
	for i := range keys {
		keys[i] = prefix + strconv.Itoa(i)
	}
	value := strings.Repeat("v", valueBytes)
	var made atomic.Int64
	call := func() error {
		key := keys[int(made.Add(1))%len(keys)]
		return makeCall(client, kind, key, value)
	}
	repeat(call, inFlight, warmUp)
	startCPU, start := cpuTime(), time.Now()
	laps := repeat(call, inFlight, duration)
	report(laps, time.Since(start), cpuTime()-startCPU)
}

// makeCall makes one call and checks its result.
func makeCall(client *clientv3.Client, kind, key, value string) error {
	ctx := context.Background()
	switch kind {
	case "get":
		response, err := client.Get(ctx, key)
		if err == nil && len(response.Kvs[0].Value) != len(value) {
			return fmt.Errorf("wrong length of %s: %d", key, len(response.Kvs[0].Value))
		}
		return err
	case "put":
		_, err := client.Put(ctx, key, value)
		return err
	case "txn":
		response, err := client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(key), ">", 0)).
			Then(clientv3.OpPut(key, value)).
			Commit()
		if err == nil && !response.Succeeded {
			return fmt.Errorf("the key %s does not exist", key)
		}
		return err
	default:
		return fmt.Errorf("unknown kind of call: %s", kind)
	}
}

// repeat keeps inFlight calls running for the duration, and returns the duration of each call.
func repeat(call func() error, inFlight int, duration time.Duration) []time.Duration {
	var wait sync.WaitGroup
	laps := make([][]time.Duration, inFlight)
	end := time.Now().Add(duration)
	for i := range laps {
		wait.Go(func() {
			for startedAt := time.Now(); startedAt.Before(end); {
				check(call())
				endedAt := time.Now()
				laps[i] = append(laps[i], endedAt.Sub(startedAt))
				startedAt = endedAt
			}
		})
	}
	wait.Wait()
	return slices.Concat(laps...)
}

// trusting returns the TLS configuration that trusts only the authority in the file.
func trusting(caFile string) *tls.Config {
	pem, err := os.ReadFile(caFile)
	check(err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		check(fmt.Errorf("%s has no certificate", caFile))
	}
	return &tls.Config{RootCAs: roots}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func seconds(text string) time.Duration {
	value, err := strconv.ParseFloat(text, 64)
	check(err)
	return time.Duration(value * float64(time.Second))
}
