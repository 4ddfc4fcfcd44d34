package redistest

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// A program that is started by a script ends with the test, as the script does.
func TestAProgramEndsWithWhatItHasStarted(t *testing.T) {
	held, holds, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	t.Run("a test", func(t *testing.T) {
		command := exec.Command("sh", "-c", "sleep 600 & echo started; wait")
		command.Stdout, command.Stderr = holds, new(bytes.Buffer)
		StartProgram(t, command)
		_ = holds.Close()
		if _, err := io.ReadFull(held, make([]byte, len("started\n"))); err != nil {
			t.Fatal(err)
		}
	})
	// The pipe ends when nobody has it open any more.
	_ = held.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.ReadAll(held); err != nil {
		t.Errorf("what the program has started runs on: %v", err)
	}
}
