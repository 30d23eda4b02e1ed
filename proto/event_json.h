// Events of a job as messages and as lines of JSON.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "model/job_event.h"
#include "proto/muster/v1/job.pb.h"

namespace muster::proto {

// Text from hosts and programs that is not UTF-8 keeps what is. Pure.
v1::Event make_event(const model::JobEvent& event, std::uint64_t sequence, base::WallTime time);

// The same as one line of proto3 JSON (proto/message_json.h).
std::string event_line(const model::JobEvent& event, std::uint64_t sequence, base::WallTime time);

}  // namespace muster::proto
