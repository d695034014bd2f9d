// Command commits appends and commits from many goroutines, and follows the log: one goroutine waits for all of them, in Go's
// poller, and no thread waits in C. After cargo xtask install-c --prefix PREFIX:
//	export PKG_CONFIG_PATH=PREFIX/lib/pkgconfig LD_LIBRARY_PATH=PREFIX/lib
//	go run . DIR
package main

/*
#cgo pkg-config: seawall
#include <seawall.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// An error belongs to a thread, and a goroutine may be on another one at its next call: so each call brings its error along.
typedef struct { int64_t code; char *message; } outcome;
static outcome with_error(int64_t code) {
	outcome result = {code, NULL};
	if (code < 0) result.message = strdup(seawall_error_last()->message);
	return result;
}
static outcome log_open(const char *dir, seawall_log **log) { return with_error(seawall_log_open(dir, NULL, log)); }
static outcome log_append(seawall_log *log, const void *data, uint64_t bytes) { return with_error(seawall_log_append(log, data, bytes)); }
// Requests a commit and does not wait for it.
static outcome log_request(seawall_log *log, uint64_t lsn) {
	int32_t code = seawall_log_commit(log, lsn, 0, 0);
	return with_error(code == SEAWALL_TIMED_OUT ? 0 : code);
}
static outcome log_read(seawall_log *log, seawall_cursor **cursor) { return with_error(seawall_log_read(log, 0, cursor)); }
static outcome cursor_next(seawall_cursor *cursor, seawall_record *record) { return with_error(seawall_cursor_next(cursor, 0, record)); }
static outcome log_close(seawall_log *log) { return with_error(seawall_log_close(log)); }
// A copy of the descriptor: an os.File closes what it is given.
static outcome log_notify_fd(seawall_log *log) {
	int32_t fd = seawall_log_notify_fd(log);
	return fd < 0 ? with_error(fd) : (outcome){dup(fd), NULL};
}
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"
)

func check(result C.outcome) (int64, error) {
	if result.code >= 0 {
		return int64(result.code), nil
	}
	defer C.free(unsafe.Pointer(result.message))
	return 0, errors.New(C.GoString(result.message))
}

type waiter struct {
	lsn  int64
	done chan error
}

// Log is a log whose commits wait in Go.
type Log struct {
	handle  *C.seawall_log
	cursor  *C.seawall_cursor
	notify  *os.File
	mutex   sync.Mutex
	waiting []waiter
}

// Open opens the log, and hands every record of it to receive, old ones first.
func Open(dir string, receive func([]byte)) (*Log, error) {
	name, log := C.CString(dir), &Log{}
	defer C.free(unsafe.Pointer(name))
	if _, err := check(C.log_open(name, &log.handle)); err != nil {
		return nil, err
	}
	fd, err := check(C.log_notify_fd(log.handle))
	if err == nil {
		_, err = check(C.log_read(log.handle, &log.cursor))
	}
	if err != nil {
		C.seawall_log_free(log.handle)
		return nil, err
	}
	log.notify = os.NewFile(uintptr(fd), "seawall")
	go log.wait(receive)
	return log, nil
}

// Append appends a record in memory; returns the LSN of its end.
func (log *Log) Append(record []byte) (int64, error) {
	return check(C.log_append(log.handle, unsafe.Pointer(unsafe.SliceData(record)), C.uint64_t(len(record))))
}

// Commit returns when everything before lsn is durable.
func (log *Log) Commit(lsn int64) error {
	done := make(chan error, 1)
	log.mutex.Lock()
	log.waiting = append(log.waiting, waiter{lsn, done})
	log.mutex.Unlock()
	log.look()
	return <-done
}

// look completes the commits that are done, and requests the others: that is how a failure is learnt.
func (log *Log) look() {
	log.mutex.Lock()
	defer log.mutex.Unlock()
	durable, highest := int64(C.seawall_log_lsn(log.handle, C.SEAWALL_LSN_DURABLE)), int64(0)
	all := log.waiting
	for log.waiting = nil; len(all) > 0; all = all[1:] {
		if all[0].lsn <= durable {
			all[0].done <- nil
		} else {
			log.waiting, highest = append(log.waiting, all[0]), max(highest, all[0].lsn)
		}
	}
	if _, err := check(C.log_request(log.handle, C.uint64_t(highest))); err != nil {
		for _, one := range log.waiting {
			one.done <- err
		}
		log.waiting = nil
	}
}

// wait reads the descriptor first and looks then: what becomes durable in between makes it readable again.
func (log *Log) wait(receive func([]byte)) {
	var bytes [8]byte
	for {
		if _, err := log.notify.Read(bytes[:]); err != nil {
			return
		}
		log.look()
		var record C.seawall_record
		for code, _ := check(C.cursor_next(log.cursor, &record)); code == C.SEAWALL_RECORD; code, _ = check(C.cursor_next(log.cursor, &record)) {
			receive(C.GoBytes(unsafe.Pointer(record.data), C.int(record.bytes)))
		}
	}
}

func main() {
	var writers, received sync.WaitGroup
	received.Add(5000)
	log, err := Open(os.Args[1], func([]byte) { received.Done() })
	for writer := 0; err == nil && writer < 100; writer++ {
		writers.Add(1)
		go func() {
			defer writers.Done()
			for number := 0; number < 50; number++ {
				if lsn, err := log.Append(fmt.Appendf(nil, "%d:%d", writer, number)); err != nil || log.Commit(lsn) != nil {
					panic("a commit failed")
				}
			}
		}()
	}
	if writers.Wait(); err == nil {
		received.Wait()
		_, err = check(C.log_close(log.handle))
	}
	fmt.Println("5000 commits, 5000 records received, error:", err)
}
