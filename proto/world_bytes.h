// The bytes of a World (agent.proto), with runs of similar hosts in a short form (host_runs.proto). Pure.
//
// Thread: any.
#pragma once

#include <optional>
#include <string>

#include "proto/muster/v1/agent.pb.h"

namespace muster::proto {

// Bytes for Launch.world.
std::string world_bytes(v1::World world);
// nullopt if the bytes are no World, or if it has more hosts than a job can have. Also reads a plainly serialised
// World. The result may hold the short form, too, as unknown fields. So do not serialise it again.
std::optional<v1::World> world_of_bytes(const std::string& bytes);

}  // namespace muster::proto
