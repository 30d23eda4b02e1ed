// Events of a job as lines of JSON: muster.v1.Event in its proto3 form, with original field names and all plain fields.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "model/job_event.h"

namespace muster::proto {

// One line, with its end. Text from hosts and programs that is not UTF-8 keeps what is. Pure.
std::string event_line(const model::JobEvent& event, std::uint64_t sequence, base::WallTime time);

}  // namespace muster::proto
