// SPDX-License-Identifier: Apache-2.0

// Package flashattn computes exact attention, O = softmax(scale Q K^T + mask) V, with libflashattn, which it opens when the
// program runs (see Find).
//
// An engine makes a Plan once and runs it with Forward, which allocates nothing; Handle.Attention takes plan and workspace
// from the handle's caches. Tensors are slices (Host) or addresses outside Go (At), and are never copied.
//
// Handles and plans may be used from any number of goroutines at once; a Call and a Workspace from one at a time. Close
// gives resources back at once; the garbage collector does in the end.
package flashattn

// #cgo CFLAGS: -std=gnu99 -O2 -I${SRCDIR}/../../include
// #cgo LDFLAGS: -ldl
// #include "bridge.h"
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"
)

const libraryName = "libflashattn.so.0"

// Library is one opened copy of libflashattn. Copies keep their state apart, and stay open for the life of the process.
type Library struct {
	c *C.bridge_library_t
}

// Open opens the library at path and nothing else.
func Open(path string) (*Library, error) {
	if strings.IndexByte(path, 0) >= 0 {
		return nil, &Error{Status: NoDriver, Text: fmt.Sprintf("%q is no file name: it holds a NUL", path)}
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var why *C.char
	c := C.bridge_open(name, &why)
	if c == nil {
		defer C.free(unsafe.Pointer(why))
		text := C.GoString(why)
		if !strings.Contains(text, path) {
			text = path + ": " + text
		}
		return nil, &Error{Status: NoDriver, Text: text}
	}
	return &Library{c}, nil
}

// Find opens what the environment variable FLASHATTN_LIBRARY names; else the copy packaged with the program, in its own
// directory or in ../lib; else the system's libflashattn.so.0. docs/loading.md has the rules.
func Find() (*Library, error) {
	if path := os.Getenv("FLASHATTN_LIBRARY"); path != "" {
		library, err := Open(path)
		if err != nil {
			err.(*Error).Text = "FLASHATTN_LIBRARY: " + err.(*Error).Text
		}
		return library, err
	}
	var tried []string
	if program, err := os.Executable(); err == nil {
		directory := filepath.Dir(program)
		for _, path := range []string{directory + "/" + libraryName, directory + "/../lib/" + libraryName} {
			if _, err := os.Stat(path); err == nil {
				return Open(path)
			}
			tried = append(tried, "no "+path)
		}
	}
	library, err := Open(libraryName)
	if err != nil {
		err.(*Error).Text = fmt.Sprintf("no libflashattn: FLASHATTN_LIBRARY is not set; there is %s; %s",
			strings.Join(tried, ", "), err.(*Error).Text)
	}
	return library, err
}

var found struct {
	sync.Mutex
	library *Library
}

// Default is what Find finds, looked for until it is found.
func Default() (*Library, error) {
	found.Lock()
	defer found.Unlock()
	if found.library != nil {
		return found.library, nil
	}
	library, err := Find()
	if err == nil {
		found.library = library
	}
	return library, err
}

// Version is "major.minor.patch".
func (l *Library) Version() string { return C.GoString(C.bridge_version_string(l.c)) }

// BackendInfo describes one backend of a library.
type BackendInfo struct {
	Backend     Backend
	Name        string
	DeviceCount int
	Reason      string // why there are no devices
}

// Backends describes every backend the library knows, built or not.
func (l *Library) Backends() ([]BackendInfo, error) {
	var all []BackendInfo
	for i := C.int32_t(0); i < C.bridge_backend_count(l.c); i++ {
		var info C.flashattn_backend_info_t
		info.struct_size = C.uint32_t(unsafe.Sizeof(info))
		if err := failure(C.bridge_backend_info(l.c, i, &info)); err != nil {
			return nil, err
		}
		all = append(all, BackendInfo{Backend(info.backend), C.GoString(&info.name[0]), int(info.device_count),
			C.GoString(&info.reason[0])})
	}
	return all, nil
}

// DeviceInfo describes one device.
type DeviceInfo struct {
	Backend          Backend
	Ordinal          int
	ComputeUnits     int
	TotalMemoryBytes uint64 // 0 where unknown
	Name             string
	Features         string
}

// Devices describes the devices of a backend that can be opened; of all with Auto.
func (l *Library) Devices(backend Backend) ([]DeviceInfo, error) {
	backends, err := l.Backends()
	if err != nil {
		return nil, err
	}
	var all []DeviceInfo
	for _, b := range backends {
		for i := 0; i < b.DeviceCount && (backend == Auto || backend == b.Backend); i++ {
			var info C.flashattn_device_info_t
			info.struct_size = C.uint32_t(unsafe.Sizeof(info))
			if err := failure(C.bridge_device_info(l.c, C.int32_t(b.Backend), C.int32_t(i), &info)); err != nil {
				return nil, err
			}
			all = append(all, DeviceInfo{b.Backend, i, int(info.compute_units), uint64(info.total_memory_bytes),
				C.GoString(&info.name[0]), C.GoString(&info.features[0])})
		}
	}
	return all, nil
}
