// Measures Go's client, with which the benchmark compares etcdwire. With WAY "catch-up",
//
//	bench ENDPOINT PREFIX catch-up FIRST LAST
//
// the program measures how long a watch takes to deliver the events of the revisions FIRST to LAST, and how late
// another watch of the same client delivers events meanwhile: see ../child/catch-up.ts. With WAY "frozen",
//
//	bench ENDPOINT KEY frozen
//
// the program makes puts for ../../frozen-clients.ts, as frozen-program.ts in test/support does. With WAY "calls",
//
//	bench ENDPOINT PREFIX calls KEYS KIND VALUE_BYTES IN_FLIGHT WARM_UP SECONDS [CA_FILE]
//
// it measures calls: see calls.go. Otherwise, it measures how often per second contenders take a lock with Go's client:
//
//	bench ENDPOINT NAME WAY CONTENDERS LIMIT
//
// WAY is "mutex" for concurrency.Mutex, or "from-now" for a lock that waits as etcdwire does. Each contender has a
// separate client and session, and locks and unlocks in a loop. LIMIT is a duration such as "0.4s", or a number of
// locks for each contender such as "1000x". The program prints a JSON object with the rate per second, the CPU time in
// microseconds per lock, and percentiles of the time that a contender waits, in milliseconds.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

type locker interface {
	Lock(ctx context.Context) error
	Unlock(ctx context.Context) error
}

func main() {
	endpoint, name, way := os.Args[1], os.Args[2], os.Args[3]
	switch way {
	case "catch-up":
		catchUp(endpoint, name, os.Args[4], os.Args[5])
	case "frozen":
		frozen(endpoint, name)
	case "calls":
		calls(endpoint, name, os.Args[4:])
	default:
		locks(endpoint, name, way, os.Args[4], os.Args[5])
	}
}

// locks measures how often contenders take a lock, and how long they wait for it.
func locks(endpoint, name, way, contendersText, limit string) {
	contenders, err := strconv.Atoi(contendersText)
	check(err)
	isOver, err := parseLimit(limit)
	check(err)

	lockers := make([]locker, contenders)
	for i := range lockers {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
		check(err)
		session, err := concurrency.NewSession(client)
		check(err)
		if way == "mutex" {
			lockers[i] = concurrency.NewMutex(session, name)
		} else {
			key := fmt.Sprintf("%s/%x", name, session.Lease())
			lockers[i] = &fromNow{client: client, lease: session.Lease(), queue: name + "/", key: key}
		}
	}
	var wait sync.WaitGroup
	waits := make([][]time.Duration, contenders)
	startCPU, start := cpuTime(), time.Now()
	for i, each := range lockers {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for !isOver(time.Since(start), len(waits[i])) {
				lockedAt := time.Now()
				check(each.Lock(context.Background()))
				waits[i] = append(waits[i], time.Since(lockedAt))
				check(each.Unlock(context.Background()))
			}
		}()
	}
	wait.Wait()
	report(slices.Concat(waits...), time.Since(start), cpuTime()-startCPU)
}

// parseLimit parses LIMIT. The returned function says whether a contender is done, given the time since the start and
// the number of times that the contender has taken the lock.
func parseLimit(limit string) (isOver func(elapsed time.Duration, taken int) bool, err error) {
	if count, isCount := strings.CutSuffix(limit, "x"); isCount {
		most, err := strconv.Atoi(count)
		return func(_ time.Duration, taken int) bool { return taken >= most }, err
	}
	longest, err := time.ParseDuration(limit)
	return func(elapsed time.Duration, _ int) bool { return elapsed >= longest }, err
}

// minLapsForP99 is MIN_LAPS_FOR_P99 of ../child/tasks.ts.
const minLapsForP99 = 100

// report prints the rate, the CPU time and the percentiles of operations that took these times.
func report(laps []time.Duration, elapsed, cpu time.Duration) {
	slices.Sort(laps)
	count := float64(len(laps))
	ms := func(lap time.Duration) float64 { return float64(lap.Microseconds()) / 1000 }
	result := map[string]float64{
		"rate":  count / elapsed.Seconds(),
		"cpuUs": float64(cpu.Microseconds()) / count,
		"p50Ms": ms(laps[len(laps)/2]),
	}
	if len(laps) >= minLapsForP99 {
		result["p99Ms"] = ms(laps[len(laps)*99/100])
	}
	check(json.NewEncoder(os.Stdout).Encode(result))
}

// fromNow waits with a watch that starts at the current revision, which etcd serves at once.
type fromNow struct {
	client     *clientv3.Client
	lease      clientv3.LeaseID
	queue, key string
}

func (m *fromNow) Lock(ctx context.Context) error {
	entered, err := m.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(m.key), "=", 0)).
		Then(clientv3.OpGet(m.queue, append(clientv3.WithLastCreate(), clientv3.WithKeysOnly())...),
			clientv3.OpPut(m.key, "", clientv3.WithLease(m.lease))).
		Commit()
	if err != nil {
		return err
	}
	if !entered.Succeeded {
		return fmt.Errorf("the key %s of the previous lock still exists", m.key)
	}
	own := entered.Header.Revision
	predecessors := entered.Responses[0].GetResponseRange().Kvs
	for len(predecessors) > 0 {
		watched, cancel := context.WithCancel(ctx)
		events := m.client.Watch(watched, string(predecessors[0].Key), clientv3.WithFilterPut(),
			clientv3.WithCreatedNotify())
		<-events
		before, err := m.before(ctx, own)
		if err == nil && len(before) > 0 && before[0].CreateRevision == predecessors[0].CreateRevision {
			<-events
			before, err = m.before(ctx, own)
		}
		cancel()
		if err != nil {
			return err
		}
		predecessors = before
	}
	return nil
}

// before returns the key right before the contender's own key, which was created at the revision own.
func (m *fromNow) before(ctx context.Context, own int64) ([]*mvccpb.KeyValue, error) {
	options := append(clientv3.WithLastCreate(), clientv3.WithMaxCreateRev(own-1), clientv3.WithKeysOnly())
	read, err := m.client.Txn(ctx).Then(clientv3.OpGet(m.key), clientv3.OpGet(m.queue, options...)).Commit()
	if err != nil {
		return nil, err
	}
	if len(read.Responses[0].GetResponseRange().Kvs) == 0 {
		return nil, concurrency.ErrSessionExpired
	}
	return read.Responses[1].GetResponseRange().Kvs, nil
}

func (m *fromNow) Unlock(ctx context.Context) error {
	_, err := m.client.Delete(ctx, m.key)
	return err
}

// catchUp measures how long a watch takes to deliver past events, and how late another watch delivers events meanwhile.
func catchUp(endpoint, prefix, firstText, lastText string) {
	const sibling, putEvery = "bench/sibling", 100 * time.Millisecond
	first, err := strconv.ParseInt(firstText, 10, 64)
	check(err)
	last, err := strconv.ParseInt(lastText, 10, 64)
	check(err)
	open := func() *clientv3.Client {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
		check(err)
		return client
	}
	ctx, client, writer := context.Background(), open(), open()
	var lock sync.Mutex
	answered, received := map[int64]time.Time{}, map[int64]time.Time{}
	events := client.Watch(ctx, sibling, clientv3.WithCreatedNotify())
	<-events
	go func() {
		for response := range events {
			for _, event := range response.Events {
				lock.Lock()
				received[event.Kv.ModRevision] = time.Now()
				lock.Unlock()
			}
		}
	}()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			// etcd may be too busy with the past events to answer in time.
			if put, err := writer.Put(ctx, sibling, "x"); err == nil {
				lock.Lock()
				answered[put.Header.Revision] = time.Now()
				lock.Unlock()
			}
			select {
			case <-stop:
				return
			case <-time.After(putEvery):
			}
		}
	}()
	time.Sleep(3 * putEvery)
	startCPU, start := cpuTime(), time.Now()
	for response := range client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(first)) {
		check(response.Err())
		if count := len(response.Events); count > 0 && response.Events[count-1].Kv.ModRevision >= last {
			break
		}
	}
	elapsed, cpu := time.Since(start), cpuTime()-startCPU
	close(stop)
	<-stopped
	late := func() (worst time.Duration, complete bool) {
		lock.Lock()
		defer lock.Unlock()
		complete = true
		for revision, at := range answered {
			came, isReceived := received[revision]
			worst, complete = max(worst, came.Sub(at)), complete && isReceived
		}
		return worst, complete
	}
	worst, complete := late()
	for ; !complete; worst, complete = late() {
		time.Sleep(5 * time.Millisecond)
	}
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	check(json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"totalMs": float64(elapsed.Milliseconds()),
		"cpuMs":   float64(cpu.Milliseconds()),
		"lateMs":  float64(worst.Milliseconds()),
		"rssKb":   float64(usage.Maxrss) * 1.024,
	}))
}

// frozen puts the key, and prints "ready". Then it puts each key that it reads from stdin, and prints the outcome and the
// duration in milliseconds. The keepalive settings are those of etcdctl.
func frozen(endpoint, key string) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            []string{endpoint},
		Logger:               zap.NewNop(),
		DialKeepAliveTime:    2 * time.Second,
		DialKeepAliveTimeout: 6 * time.Second,
	})
	check(err)
	put := func(key, value string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		_, err := client.Put(ctx, key, value)
		return err
	}
	check(put(key, "before"))
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		startedAt, outcome := time.Now(), "ok"
		if put(lines.Text(), "after") != nil {
			outcome = "error"
		}
		fmt.Println(outcome, time.Since(startedAt).Milliseconds())
	}
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
