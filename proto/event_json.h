// Converts events of a job to messages and to lines of JSON. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "model/job_event.h"
#include "proto/muster/v1/job.pb.h"

namespace muster::proto {

// Converts the event. Bytes of hosts and programs that are not UTF-8 become U+FFFD.
v1::Event make_event(const model::JobEvent& event, std::uint64_t sequence, base::WallTime time);

// Returns the event as one line of proto3 JSON (proto/message_json.h).
std::string event_line(const model::JobEvent& event, std::uint64_t sequence, base::WallTime time);

}  // namespace muster::proto
