// Ends the ranks of a job that an earlier launcherd ran and that this one cannot take over. Agents that still hold the
// job end its ranks. A host without such an agent is searched for processes of the job.
//
// Owner: RunningJob.
// Thread: loop thread only. `done` must not destroy this object.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "launcherd/agents/job_agents.h"
#include "launcherd/output/output_sink.h"

namespace muster::launcherd::inline daemon {

struct AbandonedJobOptions {
  std::chrono::milliseconds kill_grace{5'000};
  std::chrono::milliseconds patience{600'000};  // hosts that do not answer for so long count as unclean
};

class AbandonedJob final : private AgentListener {
 public:
  // `done` gets one sentence for each host where processes may be left.
  using Done = std::function<void(const std::vector<std::string>& unclean)>;

  // `agents` must resume the job's agents (PooledJob::resumes).
  AbandonedJob(base::Loop& loop, AbandonedJobOptions options, std::shared_ptr<JobAgents> agents, Done done);
  ~AbandonedJob() override;

  base::Status start(std::vector<AgentHost> hosts);
  // Kills the ranks without grace time. It still waits until the agents confirm their end.
  void stop_at_once();

 private:
  // Drops all output: its journal belongs to the launcherd that ran the job.
  class NoSink final : public OutputSink {
   public:
    base::Status write(int, proto::OutputStream, std::string_view, std::uint8_t) override { return base::ok_status(); }
    base::Status end_rank(int) override { return base::ok_status(); }
    base::Status flush() override { return base::ok_status(); }
  };

  void agent_started(int) override {}
  void agent_up(int agent, AgentUp up) override;
  void agent_failed(int agent, const std::string& message) override;
  void agent_message(int agent, const v1::AgentMessage& message) override;
  void agent_stream(int, bool) override {}
  void agent_gone(int agent, const base::Status& status) override;
  void agent_unreadable(int agent) override;
  void output_complete(int) override {}
  void output_cut(int) override {}
  void output_failed(const base::Status&) override {}
  void note(const std::string&) override {}

  void stop_ranks(int agent);
  void give_up();
  void sweep(int agent);
  void swept(int agent, const base::Result<CommandResult>& result);
  void cleared(int agent);
  void unclear(int agent, const std::string& why);
  void maybe_finish();

  base::Loop& loop_;
  AbandonedJobOptions options_;
  const Done done_;
  NoSink sink_;
  std::vector<std::string> names_;  // by agent
  std::set<int> open_;              // agents whose hosts may have ranks
  std::set<int> stopping_;          // agents that were sent the order to end their ranks
  std::set<int> searched_;          // agents whose hosts are searched, or were
  std::vector<std::string> unclean_;
  base::Timer patience_;
  base::Timer finish_;
  // Last member: the agents are destroyed before anything that they call back into.
  const std::shared_ptr<JobAgents> agents_;
};

}  // namespace muster::launcherd::daemon
