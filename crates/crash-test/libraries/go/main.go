// tidwall/wal: a write a record, in small segments; the first ten records go once there are twenty.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"

	"github.com/tidwall/wal"
)

func main() {
	options := *wal.DefaultOptions
	options.SegmentSize = 64
	log, err := wal.Open(os.Args[2]+"/log", &options)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if os.Args[1] == "write" {
		for i := uint64(1); i <= 30; i++ {
			if err := log.Write(i, []byte(strconv.Itoa(int(i)))); err != nil {
				panic(err)
			}
			fmt.Println(i)
			if i == 20 {
				if err := log.TruncateFront(11); err != nil {
					panic(err)
				}
			}
		}
		return
	}
	acks, _ := os.Open(os.Args[3])
	first, _ := log.FirstIndex()
	for lines := bufio.NewScanner(acks); lines.Scan(); {
		i, _ := strconv.Atoi(lines.Text())
		if i <= 10 && first == 11 {
			continue
		}
		if data, err := log.Read(uint64(i)); err != nil || string(data) != lines.Text() {
			fmt.Println("record", i, "is gone:", err)
			os.Exit(1)
		}
	}
}
