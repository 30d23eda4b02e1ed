// What a rank is bound to, as launcherd's API tells it.
#pragma once

#include "model/job_event.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::proto {

// Replaces the binding of `to`.
void set_binding(const model::BoundRank& from, v1::RankStatus& to);

}  // namespace muster::proto
