// HubFlows is the hub's record of jobs and their expected agents. For each agent it keeps how much output has arrived,
// and which ranks still run. It passes frames to their job's sink, in order and exactly once per agent. It reports
// ended ranks and agents to the job's owner.
//
// Owner, thread: the hub's thread owns and calls it. It knows connections only by their numbers.
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
  // The output of one agent for one job.
  struct Flow {
    int agent = 0;
    std::string identity;
    std::uint64_t last_delivered = 0;  // sequence of the last frame in the sink
    std::uint64_t connection = 0;      // the connection's number; 0 if none
    // The events of the flow's job. The pointer is valid as long as the flow exists.
    const OutputHubEvents* events = nullptr;

   private:
    friend class HubFlows;
    Job* job_ = nullptr;
    std::string host_;
    std::uint64_t delivered_bytes_ = 0;  // bytes of Data frames up to last_delivered
    bool has_gap_ = false;               // true if frames were lost, so Ends may be missing
    std::set<int> running_;              // ranks whose End has not arrived
    bool is_complete_ = false;
    std::vector<std::shared_ptr<std::atomic<std::uint64_t>>> counters_;  // see ExpectedAgent::counters
  };
  static constexpr int kNone = -1;

  HubFlows();
  ~HubFlows();
  HubFlows(const HubFlows&) = delete;
  HubFlows& operator=(const HubFlows&) = delete;

  void add_job(const std::string& name, OutputSink* sink, OutputHubEvents events);
  // Call it only after the job's flows are erased.
  void remove_job(const std::string& name);

  // Adds a flow. Does nothing if the job is unknown. Does not use `expected.secret`.
  void expect(const std::string& job, const ExpectedAgent& expected);
  void expect_ranks(int flow, const std::vector<int>& ranks);
  void erase(int flow);

  // Both return kNone if they find no flow.
  int of_agent(const std::string& job, int agent) const;
  int of_identity(const std::string& identity) const;
  std::vector<int> of_job(const std::string& job) const;
  Flow* find(int flow);  // null if unknown

  // Returns false for a frame of a rank that is not expected, or no longer expected.
  static bool is_expected(const Flow& flow, const proto::OutputFrame& frame);
  // Handles any frame except the first one of a connection. Ignores frames that it has handled before. An error means
  // that the agent broke the protocol, so close its connection.
  base::Status handle(Flow* flow, const proto::OutputFrame& frame);
  // Call it when the agent sends no more. settle() then reports the loss, unless all of the agent's output has arrived.
  static void cut(Flow* flow);
  // Call it after each turn. It flushes the sinks and reports the ends that are due. If `all` is false, it serves only
  // jobs with new ends.
  void settle(bool all);

 private:
  void settle(Job* job);
  static base::Status handle_gap(Flow* flow, const proto::OutputFrame& frame);
  static void end_all(Flow* flow);

  std::map<std::string, std::unique_ptr<Job>> jobs_;
  std::unordered_map<int, Flow> flows_;
  std::unordered_map<std::string, int> flow_of_identity_;
  int next_flow_ = 0;
};

}  // namespace muster::launcherd::output
