// SPDX-License-Identifier: Apache-2.0

package flashattn

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The library under test: the one that FLASHATTN_LIBRARY names.
func libraryPath(t *testing.T) string {
	path := os.Getenv("FLASHATTN_LIBRARY")
	if path == "" {
		t.Fatal("FLASHATTN_LIBRARY names the library to test")
	}
	return path
}

func copyFile(t *testing.T, from, to string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		t.Fatal(err)
	}
	source, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o777)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	if _, err := io.Copy(target, source); err != nil {
		t.Fatal(err)
	}
	return to
}

func compile(t *testing.T, name, source string) string {
	t.Helper()
	directory := t.TempDir()
	code := filepath.Join(directory, "source.c")
	if err := os.WriteFile(code, []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(directory, name)
	if output, err := exec.Command("cc", "-shared", "-fPIC", "-o", library, code).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return library
}

func openRefusal(t *testing.T, path string) string {
	t.Helper()
	_, err := Open(path)
	if err == nil {
		t.Fatal("opened " + path)
	}
	if err.(*Error).Status != NoDriver {
		t.Fatal(err.(*Error).Status)
	}
	return err.Error()
}

func TestOpenTakesAPathAndNeverAnother(t *testing.T) {
	library, err := Open(libraryPath(t))
	if err != nil || !strings.HasPrefix(library.Version(), "0.1.") {
		t.Fatal(err)
	}
	if text := openRefusal(t, "/nowhere/libflashattn.so.0"); !strings.Contains(text, "/nowhere/libflashattn.so.0: cannot open") {
		t.Error(text)
	}
	if text := openRefusal(t, "a\x00b"); !strings.Contains(text, "NUL") {
		t.Error(text)
	}
}

func TestOtherVersionsAndOtherLibrariesAreRefusedByName(t *testing.T) {
	newer := compile(t, "newer.so", "unsigned flashattn_version(void) { return 2003; }")
	if text := openRefusal(t, newer); text != newer+" is libflashattn 0.2.3; this binding needs 0.1" {
		t.Error(text)
	}
	other := compile(t, "other.so", "int other;")
	if text := openRefusal(t, other); text != other+" has no function flashattn_version" {
		t.Error(text)
	}
	partial := compile(t, "partial.so", "unsigned flashattn_version(void) { return 1000; }")
	if text := openRefusal(t, partial); !strings.HasPrefix(text, partial+" has no function flashattn_") {
		t.Error(text)
	}
}

// TestChild is a program for the test below: it says which file Find opened, or why none.
func TestChild(t *testing.T) {
	if os.Getenv("FLASHATTN_TEST_CHILD") == "" {
		t.Skip("a program for other tests")
	}
	if _, err := Find(); err != nil {
		fmt.Printf("<<%s>>\n", err)
		return
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(maps), "\n") {
		// The only one there is: Go programs link no libflashattn.
		if fields := strings.Fields(line); len(fields) == 6 && strings.Contains(filepath.Base(fields[5]), ".so.0") &&
			strings.Contains(fields[5], "flashattn.so") {
			fmt.Printf("<<%s>>\n", fields[5])
			return
		}
	}
}

func TestPlacesAreTriedInOrder(t *testing.T) {
	system := libraryPath(t)
	here, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	find := func(program, named, search string) string {
		t.Helper()
		command := exec.Command(program, "-test.run=^TestChild$")
		for _, variable := range os.Environ() {
			if !strings.HasPrefix(variable, "FLASHATTN_LIBRARY=") && !strings.HasPrefix(variable, "LD_LIBRARY_PATH=") {
				command.Env = append(command.Env, variable)
			}
		}
		command.Env = append(command.Env, "FLASHATTN_TEST_CHILD=1", "FLASHATTN_LIBRARY="+named, "LD_LIBRARY_PATH="+search)
		output, err := command.CombinedOutput()
		_, after, found := strings.Cut(string(output), "<<")
		text, _, closed := strings.Cut(after, ">>")
		if err != nil || !found || !closed {
			t.Fatalf("%v: %s", err, output)
		}
		return text
	}
	same := func(is, must string) {
		t.Helper()
		resolved, err := filepath.EvalSymlinks(must)
		if err != nil || is != resolved {
			t.Errorf("%s, must be %s (%v)", is, resolved, err)
		}
	}
	directory := filepath.Dir(system)
	same(find(here, "", directory), system)
	if text := find(here, "", "/nowhere"); !strings.HasPrefix(text, "no libflashattn: FLASHATTN_LIBRARY is not set; there is no ") ||
		!strings.Contains(text, "/../lib/libflashattn.so.0; libflashattn.so.0: cannot open") {
		t.Error(text)
	}
	scratch := t.TempDir()
	program := copyFile(t, here, scratch+"/bin/program")
	packaged := copyFile(t, system, scratch+"/lib/libflashattn.so.0")
	same(find(program, "", directory), packaged)
	packaged = copyFile(t, system, scratch+"/bin/libflashattn.so.0")
	same(find(program, "", directory), packaged)
	named := copyFile(t, system, scratch+"/other/flashattn.so.0.named")
	same(find(program, named, directory), named)
	if text := find(program, "/nowhere/x.so", directory); !strings.HasPrefix(text, "FLASHATTN_LIBRARY: /nowhere/x.so: ") {
		t.Error(text)
	}
	if err := os.WriteFile(packaged, []byte("no library"), 0o666); err != nil {
		t.Fatal(err)
	}
	if text := find(program, "", directory); !strings.Contains(text, "bin/libflashattn.so.0") {
		t.Error(text)
	}
}

func TestTwoCopiesDoNotDisturbEachOther(t *testing.T) {
	scratch := t.TempDir()
	var handles [2]*Handle
	var problems [2]Problem
	x := newTensors()
	call := x.call()
	for i := range handles {
		library, err := Open(copyFile(t, libraryPath(t), fmt.Sprintf("%s/%d.so", scratch, i)))
		if err != nil {
			t.Fatal(err)
		}
		if handles[i], err = NewHandle(Options{Library: library, Backend: CPU, NumThreads: int32(i + 1)}); err != nil {
			t.Fatal(err)
		}
		problems[i] = ProblemOf(call)
	}
	if handles[0].library.c.create == handles[1].library.c.create {
		t.Fatal("one copy, opened twice")
	}
	problems[0].Softcap = -1
	if err := handles[0].Attention(&problems[0], call); err == nil {
		t.Fatal("accepted")
	}
	if err := handles[1].Attention(&problems[1], call); err != nil || x.o[0] != 1.5 {
		t.Fatal(err)
	}
	handles[0].Close()
	if info, err := handles[1].Info(); err != nil || info.NumThreads != 2 {
		t.Fatal(info, err)
	}
}
