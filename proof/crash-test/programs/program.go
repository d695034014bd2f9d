// program DIRECTORY MODE: saves eight things and prints a line for each; every mode but `right` leaves one thing out.
package main

import (
	"fmt"
	"os"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func syncDir(name string) {
	d, err := os.Open(name)
	must(err)
	must(d.Sync())
	d.Close()
}

func save(name, text string, sync bool) {
	f, err := os.Create(name)
	must(err)
	_, err = f.WriteString(text)
	must(err)
	if sync {
		must(f.Sync())
	}
	f.Close()
}

func main() {
	must(os.Chdir(os.Args[1]))
	mode := os.Args[2]
	log, err := os.OpenFile("log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	must(err)
	must(log.Sync())
	data, err := os.OpenFile("data", os.O_CREATE|os.O_WRONLY, 0o644)
	must(err)
	commit, err := os.OpenFile("commit", os.O_CREATE|os.O_WRONLY, 0o644)
	must(err)
	syncDir(".")
	for i := 0; i < 8; i++ {
		switch mode {
		case "right", "no-directory":
			save("tmp", fmt.Sprintf("value%d", i), true)
			must(os.Rename("tmp", fmt.Sprintf("key%d", i)))
			if mode == "right" {
				syncDir(".")
			}
			fmt.Println(i)
		case "early":
			fmt.Fprintln(log, i)
			fmt.Println(i)
			must(log.Sync())
		case "no-parent":
			sub := fmt.Sprintf("sub%d", i)
			must(os.Mkdir(sub, 0o755))
			save(sub+"/key", fmt.Sprintf("value%d", i), true)
			syncDir(sub)
			fmt.Println(i)
		case "order":
			// The commit is durable before what it speaks of.
			data.WriteAt([]byte{byte('1' + i)}, 0)
			commit.WriteAt([]byte{byte('1' + i)}, 0)
			must(commit.Sync())
			must(data.Sync())
			fmt.Println(i)
		}
	}
}
