// Streams whose work is captured into graphs, as the driver's rules are for threads that call it meanwhile.
#pragma once

namespace fake_cuda {

// Of a call that the driver calls potentially unsafe. False: this thread may not make it; what forbids it is no capture
// any more.
bool may_call();
// Work for a stream that is captured does not run: it is a node of the graph.
bool takes(const void* stream);

}  // namespace fake_cuda

// What tests call of it: the driver's.
extern "C" {
int cuStreamBeginCapture_v2(void* stream, int mode);  // NOLINT(readability-identifier-naming)
// `graph`: how many nodes it has.
int cuStreamEndCapture(void* stream, void** graph);  // NOLINT(readability-identifier-naming)
}
