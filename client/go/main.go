// An agent's loop around one tool: `agent ADDRESS block|allow MILLISECONDS`. On standard input stands what the model asks for,
// one call a line: {"command":"ls"}.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"
)

func main() {
	milliseconds, err := strconv.Atoi(os.Args[3])
	if err != nil {
		fail(err.Error())
	}
	// Said, not assumed: whether the agent goes on where hookd cannot be asked.
	onUnavailable := func(string) bool { return os.Args[2] == "allow" }
	hookd, err := Dial(os.Args[1], time.Duration(milliseconds)*time.Millisecond, onUnavailable)
	if err != nil {
		fail(err.Error())
	}
	calls := bufio.NewReader(os.Stdin)
	for {
		call, err := calls.ReadString('\n')
		if err != nil {
			break
		}
		switch gate := hookd.PreToolUse("session-1", "bash", call); gate.Act {
		case Run:
			run(gate.Params)
		case Halt:
			fail(gate.Reason)
		default:
			fmt.Println("not run:", gate.Reason)
		}
	}
	switch gate := hookd.Stop("session-1"); gate.Act {
	case Continue:
		fmt.Println("goes on:", gate.Reason) // a real agent's next turn
	case Halt:
		fail(gate.Reason)
	}
}

func run(params string) {
	var call struct{ Command string }
	if err := json.Unmarshal([]byte(params), &call); err != nil {
		fmt.Println("not run:", err)
		return
	}
	output, _ := exec.Command("sh", "-c", call.Command).CombinedOutput()
	fmt.Print(string(output))
}

func fail(reason string) {
	fmt.Fprintln(os.Stderr, reason)
	os.Exit(1)
}
