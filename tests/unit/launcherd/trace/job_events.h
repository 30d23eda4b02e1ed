// Events of a job, for tests of its spans.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "proto/muster/v1/launcher.pb.h"

namespace muster::testing_support {

constexpr std::int64_t kEpoch = 1'782'000'000'000'000;  // µs

// Returns an event at this time, in ms.
template <typename Fill>
v1::Event event_at(int milliseconds, Fill fill) {
  v1::Event event;
  event.mutable_time()->set_seconds(kEpoch / 1'000'000 + milliseconds / 1000);
  event.mutable_time()->set_nanos(milliseconds % 1000 * 1'000'000);
  fill(event);
  return event;
}

inline v1::Event state_at(int milliseconds, v1::JobState to, const std::string& reason = "") {
  return event_at(milliseconds, [&](v1::Event& event) {
    event.mutable_job_state_changed()->set_state(to);
    event.mutable_job_state_changed()->set_reason(reason);
  });
}

// The job starts with one rank on each of n1, n2, …
inline v1::Event starting_at(int milliseconds, int hosts) {
  return event_at(milliseconds, [&](v1::Event& event) {
    for (int rank = 0; rank < hosts; ++rank) {
      v1::PlacedHost& host = *event.mutable_job_starting()->mutable_placement()->add_hosts();
      host.set_name(fmt::format("n{}", rank + 1));
      host.add_ranks()->set_rank(rank);
    }
  });
}

inline v1::Event host_up_at(int milliseconds, const std::string& host) {
  return event_at(milliseconds, [&](v1::Event& event) { event.mutable_host_up()->set_host(host); });
}

inline v1::Event rank_up_at(int milliseconds, int rank) {
  return event_at(milliseconds, [&](v1::Event& event) {
    event.mutable_rank_up()->set_rank(rank);
    event.mutable_rank_up()->set_pid(100 + rank);
  });
}

inline v1::Event rank_ended_at(int milliseconds, int rank, v1::RankEndKind kind, int exit_code, int signal = 0) {
  return event_at(milliseconds, [&](v1::Event& event) {
    v1::RankEnd& end = *event.mutable_rank_ended();
    end.set_rank(rank);
    end.set_host(fmt::format("n{}", rank + 1));
    end.set_pid(100 + rank);
    end.set_kind(kind);
    end.set_exit_code(exit_code);
    end.set_signal(signal);
  });
}

inline v1::Event job_ended_at(int milliseconds, int exit_code, int root_cause = -1) {
  return event_at(milliseconds, [&](v1::Event& event) {
    event.mutable_job_ended()->set_exit_code(exit_code);
    event.mutable_job_ended()->set_root_cause_rank(root_cause);
  });
}

// A job of two ranks, of which rank 1 fails with exit code 7.
inline std::vector<v1::Event> failed_job() {
  return {state_at(0, v1::JOB_STATE_QUEUED),
          starting_at(500, 2),
          host_up_at(700, "n1"),
          host_up_at(800, "n2"),
          rank_up_at(900, 0),
          rank_up_at(1000, 1),
          state_at(1000, v1::JOB_STATE_RUNNING),
          rank_ended_at(5000, 1, v1::RANK_END_KIND_EXITED, 7),
          event_at(5100, [](v1::Event& event) { event.mutable_job_stopping()->set_reason("rank 1 failed"); }),
          rank_ended_at(6000, 0, v1::RANK_END_KIND_STOPPED, 0, 15),
          state_at(6400, v1::JOB_STATE_FAILED, "rank 1 on n2: exit code 7"),
          job_ended_at(6500, 7, 1)};
}

}  // namespace muster::testing_support
