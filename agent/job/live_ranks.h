// The processes of this host in the present generation of a job whose ranks change (docs/adr/0044): the number that
// each keeps for its life, and its ranks now. Plain values. Empty in other jobs.
//
// Owner: SessionRanks.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

class LiveRanks {
 public:
  using Members = google::protobuf::RepeatedPtrField<v1::LiveMember>;

  // Adds processes that start now.
  void add(const Members& members);
  // Sets all processes of the generation that begins.
  void begin(const Members& members);
  void remove(int number) { members_.erase(number); }

  bool is_empty() const { return members_.empty(); }
  // nullopt if no process of the generation has that local rank, that rank or that number. A process that joins has its
  // rank of the next generation. at_rank() prefers it to an old process that has the same rank now.
  std::optional<int> at_local_rank(int local_rank) const;
  std::optional<int> at_rank(int rank) const;
  std::optional<int> rank_of(int number) const;
  std::optional<int> local_rank_of(int number) const;
  std::vector<int> ranks() const;

 private:
  std::map<int, v1::LiveMember> members_;  // by number; without those that are no longer in the job
};

// Returns the answer to GET /rank_and_size: six numbers, all -1 for a process that is no longer in the job.
std::string numbers_text(const v1::LiveMember& member);

}  // namespace muster::agent::job
