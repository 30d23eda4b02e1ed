// The processes of a job whose ranks change while it runs (docs/adr/0044). A process has a number for its life, by
// which agents and the launcher name it. In each generation it has a rank, which users see.
//
// Owner: LiveJob. Plain values.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "launcherd/elastic/elastic_plan.h"

namespace muster::launcherd::inline run {

struct LiveProcess {
  int number = 0;
  int agent = 0;
  ElasticSlot slot{};
  int rank = -1;  // in the present generation; -1 if it is not in it
  bool has_ended = false;
  bool is_stopped = false;  // the launcher has ordered its end
  bool is_sent = true;      // its agent was ordered to start it
  bool has_joined = false;  // it has been in a generation
};

class LiveMembers {
 public:
  // A process may have the slot of one that has ended.
  void add(LiveProcess process);

  LiveProcess* find(int number);                 // nullptr if no such process was added
  LiveProcess* living(const ElasticSlot& slot);  // nullptr if none lives there
  std::vector<LiveProcess*> living_on(int agent);
  const std::deque<LiveProcess>& all() const { return processes_; }
  bool is_any_living() const;
  bool has_joined(int number) const;
  bool may_run(int number) const;
  bool is_stopped(int number) const;
  int rank_of(int number) const;  // -1 if the process is unknown, or not in the present generation
  int number_of(int rank) const;  // -1 if no process has the rank
  // The agents with processes that live.
  std::set<int> living_agents() const;
  int agent_of_rank(int rank) const { return processes_.at(static_cast<std::size_t>(number_of(rank))).agent; }
  int next_number() const { return static_cast<int>(processes_.size()); }

  // Gives the living processes their ranks. Returns for each rank of the plan the rank that its process had before; -1
  // for a process that had none.
  std::vector<int> begin(const ElasticPlan& plan);

 private:
  std::deque<LiveProcess> processes_;  // by number
  std::map<ElasticSlot, int> newest_;  // the number of the slot's last process
  std::map<int, int> numbers_;         // by rank, in the present generation
};

}  // namespace muster::launcherd::run
