package conformance

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
)

// asynq, unmodified: tasks of two queues, retries, delays, unique tasks and periodic ones, and what its inspector
// counts.
func TestAsynqRunsTasks(t *testing.T) {
	at := asynq.RedisClientOpt{Addr: redisAddress(t), DB: 4}
	client := asynq.NewClient(at)
	defer client.Close()
	inspector := asynq.NewInspector(at)
	defer inspector.Close()
	add := func(kind string, payload string, options ...asynq.Option) {
		t.Helper()
		if _, err := client.Enqueue(asynq.NewTask(kind, []byte(payload)), options...); err != nil {
			t.Fatal(err)
		}
	}
	for number := 0; number < 20; number++ {
		add("count", fmt.Sprint(number), asynq.Queue("many"), asynq.Retention(time.Hour))
	}
	add("count", "soon", asynq.ProcessIn(time.Second), asynq.Retention(time.Hour))
	add("count", "later", asynq.ProcessIn(time.Hour))
	add("retried", "", asynq.MaxRetry(5), asynq.Retention(time.Hour))
	add("failing", "", asynq.MaxRetry(0))
	add("count", "once", asynq.Unique(time.Hour), asynq.ProcessIn(time.Hour))
	if _, err := client.Enqueue(asynq.NewTask("count", []byte("once")), asynq.Unique(time.Hour)); err == nil {
		t.Fatal("a unique task is there twice")
	}

	var lock sync.Mutex
	done := map[string]int{}
	server := asynq.NewServer(at, asynq.Config{
		Concurrency:              4,
		Queues:                   map[string]int{"many": 2, "default": 1},
		LogLevel:                 asynq.FatalLevel,
		DelayedTaskCheckInterval: 100 * time.Millisecond,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 50 * time.Millisecond },
	})
	handle := func(_ context.Context, task *asynq.Task) error {
		lock.Lock()
		defer lock.Unlock()
		done[task.Type()+string(task.Payload())]++
		if task.Type() == "failing" || task.Type() == "retried" && done["retried"] < 3 {
			return fmt.Errorf("as intended")
		}
		if _, err := task.ResultWriter().Write([]byte("result")); err != nil {
			return err
		}
		return nil
	}
	if err := server.Start(asynq.HandlerFunc(handle)); err != nil {
		t.Fatal(err)
	}
	scheduler := asynq.NewScheduler(at, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
	if _, err := scheduler.Register("@every 1s", asynq.NewTask("count", []byte("periodic"))); err != nil {
		t.Fatal(err)
	}
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		lock.Lock()
		ready := len(done) >= 24 && done["retried"] == 3
		lock.Unlock()
		if ready {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after 30 s only these tasks were run: %v", done)
		}
	}
	scheduler.Shutdown()
	server.Shutdown()

	for number := 0; number < 20; number++ {
		if times := done[fmt.Sprintf("count%d", number)]; times != 1 {
			t.Fatalf("task %d was run %d times", number, times)
		}
	}
	many, err := inspector.GetQueueInfo("many")
	if err != nil || many.Size != 20 || many.Completed != 20 || many.Processed != 20 || many.Failed != 0 {
		t.Fatalf("%+v, %v", many, err)
	}
	info, err := inspector.GetQueueInfo("default")
	if err != nil || info.Archived != 1 || info.Scheduled != 2 || info.Completed != 2 || info.Failed != 3 {
		t.Fatalf("%+v, %v", info, err)
	}
	completed, err := inspector.ListCompletedTasks("many")
	if err != nil || len(completed) != 20 || string(completed[0].Result) != "result" {
		t.Fatalf("%d tasks, %v", len(completed), err)
	}
	if count, err := inspector.RunAllArchivedTasks("default"); err != nil || count != 1 {
		t.Fatalf("%d, %v", count, err)
	}
	if err := inspector.DeleteQueue("default", true); err != nil {
		t.Fatal(err)
	}
}
