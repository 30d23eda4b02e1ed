// Decides whether a program has formed worlds of other sizes than its job has ranks, from the agents' reports on single
// ranks. Pure.
//
// It is sure only if every rank of the job is in a group of a wrong size, and if these groups can be: a group of 4
// needs 4 such ranks.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "model/job_event.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline run {

class WorldAudit {
 public:
  explicit WorldAudit(int size) : size_(size) {}

  // The job has these ranks from now on. Forgets all reports.
  void begin(int size);
  // `rank` is the rank that the report is about. Returns the finding once, at the report that completes it.
  std::optional<model::WrongWorld> add(int rank, const v1::RankWorld& report);

 private:
  struct Group {
    int size = 0;
    std::string source;
    std::string detail;
    auto operator<=>(const Group&) const = default;
  };

  bool are_possible() const;

  int size_ = 0;
  bool has_found_ = false;
  std::map<int, Group> groups_;  // by rank
};

}  // namespace muster::launcherd::run
