// Runs Go's clientv3 under the same faults as this client.
//
//	faults locks ENDPOINTS PREFIX COUNT TTL   holds COUNT locks, each with its own session, until it is killed
//	faults load ENDPOINTS PREFIX TTL          puts, gets and locks in a loop
//
// The first mode writes one JSON object per line: {"type":"held"} once it holds all locks, an "ack" for each keepalive
// response, and a "lost" for each session that ends. The second mode reads commands: "reset" discards the measurements,
// and "report" writes the longest time in milliseconds between two successes of each kind.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

const (
	callTimeout = 5 * time.Second
	betweenCall = 5 * time.Millisecond
)

func main() {
	mode, endpoints, prefix := os.Args[1], strings.Split(os.Args[2], ","), os.Args[3]
	switch mode {
	case "locks":
		hold(endpoints, prefix, number(os.Args[4]), number(os.Args[5]))
	case "load":
		load(endpoints, prefix, number(os.Args[4]))
	}
}

func open(endpoints []string, options ...grpc.DialOption) *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   endpoints,
		DialTimeout: callTimeout,
		// By default, clientv3 sends no pings, so it does not notice soon that a member is silent. etcdwire pings at the same
		// interval, with a timeout of 2.5 s.
		DialKeepAliveTime:    6 * time.Second,
		DialKeepAliveTimeout: 4 * time.Second,
		AutoSyncInterval:     500 * time.Millisecond,
		DialOptions:          options,
		Logger:               zap.NewNop(),
	})
	check(err)
	return client
}

// An event that the mode "locks" reports.
type event struct {
	Type   string `json:"type"`
	UnixMs int64  `json:"unixMs"`
	Lease  string `json:"lease,omitempty"`
	TTL    int64  `json:"ttl,omitempty"`
	Member string `json:"member,omitempty"`
	Term   uint64 `json:"term,omitempty"`
}

var output sync.Mutex

func report(what event) {
	what.UnixMs = time.Now().UnixMilli()
	line, err := json.Marshal(what)
	check(err)
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(line))
}

func hold(endpoints []string, prefix string, count, ttl int) {
	client := open(endpoints, grpc.WithChainStreamInterceptor(reportAcks))
	for index := range count {
		session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
		check(err)
		check(concurrency.NewMutex(session, fmt.Sprintf("%s%d", prefix, index)).Lock(context.Background()))
		go func() {
			<-session.Done()
			report(event{Type: "lost", Lease: fmt.Sprintf("%x", session.Lease())})
		}()
	}
	report(event{Type: "held"})
	select {}
}

func reportAcks(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := streamer(ctx, desc, conn, method, opts...)
	if err != nil || !strings.HasSuffix(method, "/LeaseKeepAlive") {
		return stream, err
	}
	return acks{stream}, nil
}

type acks struct{ grpc.ClientStream }

func (a acks) RecvMsg(message any) error {
	err := a.ClientStream.RecvMsg(message)
	if response, ok := message.(*pb.LeaseKeepAliveResponse); ok && err == nil {
		header := response.GetHeader()
		report(event{
			Type:   "ack",
			Lease:  fmt.Sprintf("%x", response.GetID()),
			TTL:    response.GetTTL(),
			Member: fmt.Sprintf("%x", header.GetMemberId()),
			Term:   header.GetRaftTerm(),
		})
	}
	return err
}

// The longest time between two successes of one kind of call.
type gap struct {
	mutex sync.Mutex
	last  time.Time
	most  time.Duration
}

func (g *gap) succeeded() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	now := time.Now()
	g.most = max(g.most, now.Sub(g.last))
	g.last = now
}

func (g *gap) reset() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.last, g.most = time.Now(), 0
}

// Returns the longest time in milliseconds. The time since the last success counts, too.
func (g *gap) ms() int64 {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return max(g.most, time.Since(g.last)).Milliseconds()
}

func load(endpoints []string, prefix string, ttl int) {
	client := open(endpoints)
	gaps := map[string]*gap{"put": {}, "get": {}, "lock": {}}
	for _, each := range gaps {
		each.reset()
	}
	repeat(gaps["put"], func(ctx context.Context) error {
		_, err := client.Put(ctx, prefix+"put", "x")
		return err
	})
	repeat(gaps["get"], func(ctx context.Context) error {
		_, err := client.Get(ctx, prefix+"get")
		return err
	})
	go repeatLock(client, prefix+"lock", ttl, gaps["lock"])
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		switch input.Text() {
		case "reset":
			for _, each := range gaps {
				each.reset()
			}
		case "report":
			line, err := json.Marshal(map[string]int64{
				"put": gaps["put"].ms(), "get": gaps["get"].ms(), "lock": gaps["lock"].ms(),
			})
			check(err)
			fmt.Println(string(line))
		}
	}
}

func repeat(measured *gap, call func(context.Context) error) {
	go func() {
		for {
			ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
			if call(ctx) == nil {
				measured.succeeded()
			}
			cancel()
			time.Sleep(betweenCall)
		}
	}()
}

func repeatLock(client *clientv3.Client, name string, ttl int, measured *gap) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		granted, err := client.Grant(ctx, int64(ttl))
		cancel()
		if err != nil {
			continue
		}
		session, err := concurrency.NewSession(client, concurrency.WithLease(granted.ID))
		if err != nil {
			continue
		}
		lockUntilLost(session, name, measured)
		// Orphan sends no revoke, which would block if no server responds. The lease expires.
		session.Orphan()
	}
}

func lockUntilLost(session *concurrency.Session, name string, measured *gap) {
	mutex := concurrency.NewMutex(session, name)
	for {
		select {
		case <-session.Done():
			return
		case <-time.After(betweenCall):
		}
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		if mutex.Lock(ctx) == nil {
			measured.succeeded()
			_ = mutex.Unlock(ctx)
		}
		cancel()
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "failed:", err)
		os.Exit(1)
	}
}
