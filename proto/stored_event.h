// Events of a job as the bytes that the job store keeps. Pure. No event holds a value of an environment variable:
// model/job_event.h has no field for one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "model/job_event.h"
#include "proto/muster/v1/job.pb.h"

namespace muster::proto {

// A muster.v1.Event without its number, which the store gives.
std::string stored_event(const model::JobEvent& event, base::WallTime time);
// DATA_LOSS: these are no bytes of an event, or its time has no form in JSON. Fields and kinds of a newer launcherd are
// kept.
base::Result<v1::Event> event_of_store(std::string_view bytes, std::uint64_t sequence);

}  // namespace muster::proto
