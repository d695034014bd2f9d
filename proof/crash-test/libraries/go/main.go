// tidwall/wal: a write a record, in small segments; the first ten records go once there are twenty.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"

	"github.com/tidwall/wal"
)

// A record lies in two sectors at least, of which a power cut may keep one.
func record(number string) []byte {
	return append([]byte(number), bytes.Repeat([]byte("."), 600)...)
}

func main() {
	var acks []byte
	if os.Args[1] == "check" {
		// Before anything was promised, a log may not even open.
		if acks, _ = os.ReadFile(os.Args[3]); len(acks) == 0 {
			return
		}
	}
	options := *wal.DefaultOptions
	options.SegmentSize = 4096
	log, err := wal.Open(os.Args[2]+"/log", &options)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if os.Args[1] == "write" {
		for i := uint64(1); i <= 30; i++ {
			if err := log.Write(i, record(strconv.Itoa(int(i)))); err != nil {
				again := log.Write(i, record(strconv.Itoa(int(i))))
				fmt.Fprintf(os.Stderr, "record %d: %v; tried again: %v\n", i, err, again)
				if again != nil {
					return
				}
			}
			fmt.Println(i)
			if i == 20 {
				if err := log.TruncateFront(11); err != nil {
					fmt.Fprintln(os.Stderr, "TruncateFront:", err)
				}
			}
		}
		return
	}
	first, _ := log.FirstIndex()
	for lines := bufio.NewScanner(bytes.NewReader(acks)); lines.Scan(); {
		i, _ := strconv.Atoi(lines.Text())
		if i <= 10 && first == 11 {
			continue
		}
		// That a record is not there is no error of the log's: it says so of a number beyond its end as well.
		data, err := log.Read(uint64(i))
		if err != nil && err != wal.ErrNotFound {
			fmt.Println("record", i, "cannot be read:", err)
			os.Exit(2)
		}
		if !bytes.Equal(data, record(lines.Text())) {
			fmt.Println("record", i, "is gone, or another:", len(data), "bytes", err)
			os.Exit(1)
		}
	}
}
