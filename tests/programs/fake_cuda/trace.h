// Which calls a program makes of the driver that is none, in their order, for tests that look at the order.
#pragma once

namespace fake_cuda {

// A call, on the calling thread; does nothing until fake_cuda_trace_begin().
void trace(const char* function, const void* stream = nullptr, const void* event = nullptr);

}  // namespace fake_cuda

extern "C" {
// From here calls are kept.
void fake_cuda_trace_begin();
// What the program itself does, between the calls.
void fake_cuda_note(const char* text);
// All so far, a line each: "THREAD FUNCTION STREAM EVENT" in decimal, 0: none; "THREAD note TEXT". Until the
// thread's next call.
const char* fake_cuda_trace();
}
