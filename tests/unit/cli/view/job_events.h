// Events of a job, for tests of what is drawn of them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "proto/muster/v1/job.pb.h"

namespace muster::testing_support {

// Makes the events of one job. Times are milliseconds since the job's begin.
class JobEvents {
 public:
  // Places `per_host` ranks on each host.
  JobEvents& starting(int ms, const std::vector<std::string>& hosts, int per_host) {
    place(hosts, per_host, *next(ms).mutable_job_starting()->mutable_placement());
    return *this;
  }
  JobEvents& up(int ms, int rank) {
    next(ms).mutable_rank_up()->set_rank(rank);
    return *this;
  }
  JobEvents& exited(int ms, int rank, int code) {
    v1::RankEnd& end = end_of(ms, rank);
    end.set_kind(v1::RANK_END_KIND_EXITED);
    end.set_exit_code(code);
    return *this;
  }
  JobEvents& stopped(int ms, int rank) {
    v1::RankEnd& end = end_of(ms, rank);
    end.set_kind(v1::RANK_END_KIND_STOPPED);
    end.set_signal(15);
    return *this;
  }
  JobEvents& lost(int ms, int rank) {
    end_of(ms, rank).set_kind(v1::RANK_END_KIND_HOST_LOST);
    return *this;
  }
  JobEvents& generation(int ms, int number, const std::vector<std::string>& hosts, int per_host,
                        const std::vector<int>& former) {
    v1::GenerationBegan& began = *next(ms).mutable_generation_began();
    began.set_number(number);
    began.mutable_former()->Add(former.begin(), former.end());
    place(hosts, per_host, *began.mutable_placement());
    return *this;
  }
  JobEvents& ended(int ms, int exit_code, int root_cause) {
    v1::ExitReport& report = *next(ms).mutable_job_ended();
    report.set_exit_code(exit_code);
    report.set_root_cause_rank(root_cause);
    return *this;
  }
  v1::Event& next(int ms) {
    v1::Event& event = events.emplace_back();
    event.set_sequence(events.size());
    event.mutable_time()->set_seconds(1'000'000 + ms / 1000);
    event.mutable_time()->set_nanos(ms % 1000 * 1'000'000);
    return event;
  }

  std::vector<v1::Event> events;

 private:
  v1::RankEnd& end_of(int ms, int rank) {
    v1::RankEnd& end = *next(ms).mutable_rank_ended();
    end.set_rank(rank);
    end.set_host("n1");
    return end;
  }
  static void place(const std::vector<std::string>& hosts, int per_host, v1::Placement& placement) {
    int rank = 0;
    for (const std::string& name : hosts) {
      v1::PlacedHost& host = *placement.add_hosts();
      host.set_name(name);
      for (int i = 0; i < per_host; ++i) host.add_ranks()->set_rank(rank++);
    }
  }
};

}  // namespace muster::testing_support
