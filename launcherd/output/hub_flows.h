// What the hub knows of jobs and of the agents that they expect: how far each agent's output has come, and which of its
// ranks still run. Puts frames into the sink of their job, in order and exactly once per agent, and tells the job's
// owner what has ended.
//
// Owned and called by the hub's thread. It knows connections by their number alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "launcherd/output/output_hub.h"
#include "launcherd/output/output_sink.h"
#include "proto/output_frame.h"

namespace muster::launcherd::inline output {

class HubFlows {
 private:
  struct Job;

 public:
  // One agent's output for one job.
  struct Flow {
    int agent = 0;
    std::string identity;
    std::uint64_t last_taken = 0;  // sequence of the last frame in the sink
    std::uint64_t connection = 0;  // its number; 0: none
    // Of its job. Lives as long as the flow.
    const OutputHubEvents* events = nullptr;

   private:
    friend class HubFlows;
    Job* job_ = nullptr;
    std::string host_;
    std::uint64_t taken_bytes_ = 0;  // of Data, up to last_taken
    bool has_gap_ = false;           // Ends may be missing
    std::set<int> running_;          // its ranks whose End has not come
    bool is_complete_ = false;
    std::vector<std::shared_ptr<std::atomic<std::uint64_t>>> counters_;  // of ExpectedAgent
  };
  static constexpr int kNone = -1;

  HubFlows();
  ~HubFlows();
  HubFlows(const HubFlows&) = delete;
  HubFlows& operator=(const HubFlows&) = delete;

  void add_job(const std::string& name, OutputSink* sink, OutputHubEvents events);
  // Its flows must be erased.
  void remove_job(const std::string& name);

  // A new flow; nothing when there is no such job. `expected.secret` is not looked at.
  void expect(const std::string& job, const ExpectedAgent& expected);
  void expect_ranks(int flow, const std::vector<int>& ranks);
  void erase(int flow);

  // kNone: there is none.
  int of_agent(const std::string& job, int agent) const;
  int of_identity(const std::string& identity) const;
  std::vector<int> of_job(const std::string& job) const;
  Flow* find(int flow);  // null: there is none

  // False: of a rank that is not expected, or not any more.
  static bool knows(const Flow& flow, const proto::OutputFrame& frame);
  // Any frame but the first of a connection. What was taken before is passed over. An error is the agent's: its
  // connection is to be closed.
  base::Status take(Flow* flow, const proto::OutputFrame& frame);
  // Nothing more comes of it: told, unless all of it has come.
  static void cut(Flow* flow);
  // After a turn: flushes and tells what is due, in all jobs or only in those of which something has ended.
  void settle(bool all);

 private:
  void settle(Job* job);
  static base::Status take_gap(Flow* flow, const proto::OutputFrame& frame);
  static void end_all(Flow* flow);

  std::map<std::string, std::unique_ptr<Job>> jobs_;
  std::unordered_map<int, Flow> flows_;
  std::unordered_map<std::string, int> flow_of_identity_;
  int next_flow_ = 0;
};

}  // namespace muster::launcherd::output
