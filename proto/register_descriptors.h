// Makes Muster's messages known by their names.
#pragma once

namespace muster::proto {

// Adds the descriptions of all messages and services of muster.v1 to protobuf's pool, once. Needed only before a
// look-up by name: descriptor() and reflection of a message do it by themselves. Thread: any.
void register_descriptors();

}  // namespace muster::proto
