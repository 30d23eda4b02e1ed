// Converts a rank's binding (cores, GPUs) to the message of launcherd's API.
#pragma once

#include "model/job_event.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::proto {

// Replaces the binding in `to`.
void set_binding(const model::BoundRank& from, v1::RankStatus& to);

}  // namespace muster::proto
