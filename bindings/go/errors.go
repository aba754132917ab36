// SPDX-License-Identifier: Apache-2.0

package flashattn

// #include "bridge.h"
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"unsafe"
)

// Status is a FLASHATTN_STATUS_*. The hundreds digit is the class: 1 argument, 2 unsupported, 3 resource, 4 driver and
// device, 5 internal.
type Status int32

// The statuses that programs tell apart most often.
const (
	InvalidArgument Status = C.FLASHATTN_STATUS_INVALID_ARGUMENT
	NullPointer     Status = C.FLASHATTN_STATUS_NULL_POINTER
	BadWorkspace    Status = C.FLASHATTN_STATUS_WORKSPACE
	BadEnvironment  Status = C.FLASHATTN_STATUS_ENVIRONMENT
	InvalidData     Status = C.FLASHATTN_STATUS_INVALID_DATA
	Unsupported     Status = C.FLASHATTN_STATUS_UNSUPPORTED
	NotBuilt        Status = C.FLASHATTN_STATUS_NOT_BUILT
	OutOfMemory     Status = C.FLASHATTN_STATUS_OUT_OF_MEMORY
	NoDriver        Status = C.FLASHATTN_STATUS_NO_DRIVER // also when libflashattn itself could not be opened
	NoDevice        Status = C.FLASHATTN_STATUS_NO_DEVICE
	InvalidDevice   Status = C.FLASHATTN_STATUS_INVALID_DEVICE
)

// Error is why something failed. Every error of this package is an *Error.
type Error struct {
	Status      Status
	DriverError int32  // the driver's own code, 0 where no driver was involved
	Text        string // field, value and rule
}

func (e *Error) Error() string { return e.Text }

func failure(o C.bridge_outcome_t) error {
	if o.status == C.FLASHATTN_STATUS_OK {
		return nil
	}
	defer C.free(unsafe.Pointer(o.text))
	return &Error{Status(o.status), int32(o.driver_error), C.GoString(o.text)}
}

// mismatch is a rule of this binding that does not hold.
func mismatch(field, what string, is int64, of string, must int64) error {
	return &Error{InvalidArgument, 0, fmt.Sprintf("%s has %s %d; %s is %d", field, what, is, of, must)}
}

func closed(what string) error {
	return &Error{InvalidArgument, 0, "the " + what + " is closed"}
}
