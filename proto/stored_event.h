// Events of a job as the bytes that the job store keeps. Pure. No event holds a value of an environment variable:
// model/job_event.h has no field for one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "model/job_event.h"
#include "proto/muster/v1/job.pb.h"

namespace muster::proto {

// Longer texts of hosts and programs are cut at a character (base::shortened()): details of ranks, reasons of jobs.
constexpr std::size_t kLongestDetail = 512;
constexpr std::size_t kLongestReason = 4096;
// No end of a job is longer: gRPC's own limit for a message is twice that.
constexpr std::size_t kLongestEnd = std::size_t{2} << 20;

// A muster.v1.Event without its number, which the store gives. Cut so that any end of a job can be stored; the ends of
// its ranks are events of their own.
std::string stored_event(const model::JobEvent& event, base::WallTime time);
// DATA_LOSS: these are no bytes of an event, or its time has no form in JSON. Fields and kinds of a newer launcherd are
// kept.
base::Result<v1::Event> event_of_store(std::string_view bytes, std::uint64_t sequence);

}  // namespace muster::proto
