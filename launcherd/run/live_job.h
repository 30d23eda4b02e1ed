// Runs the generations of a job whose ranks change (docs/adr/0044). It reports to an ElasticDriver what agents report,
// and carries out the driver's decisions by messages to agents.
//
// Owner: JobRunner's core.
// Thread: loop thread only. Callbacks must not destroy this object.
//
// One change: BeginGeneration of the driver → PrepareGeneration to rank 0's host → its answer, and ReleaseAnswers of
// the driver → BeginGeneration to all hosts. A later plan of the driver replaces one that has not been released.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "launcherd/elastic/elastic_driver.h"
#include "launcherd/run/live_members.h"
#include "model/elastic_spec.h"
#include "model/exit_report.h"
#include "model/placement.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline run {

class LiveJob {
 public:
  struct Events {
    std::function<void(int agent, v1::LauncherMessage message)> send;
    // Returns the address at which the other agents reach the first one.
    std::function<base::Result<std::string>(const std::vector<int>& agents)> address_of_first;
    std::function<v1::JobPeer(int agent)> peer_of;
    // The generation begins now. `former` is as in model::GenerationBegan.
    std::function<void(const Generation& generation, std::vector<int> former)> began;
    std::function<void(const FinishJob& end)> over;
    // The host is lost: the caller reports the ends of its processes, and calls host_lost().
    std::function<void(int agent, const std::string& why)> lose_host;
    std::function<void(std::optional<base::MonotonicTime> at)> wake;  // call tick() then; replaces an earlier time
  };

  LiveJob(const model::ElasticSpec& spec, const base::Clock& clock, std::chrono::milliseconds kill_grace,
          Events events);

  // Begins generation 0. `agents` has the agent of each host of `placement`. The caller starts its processes.
  void start(const model::Placement& placement, const std::vector<int>& agents);
  void tick();

  // Call these when the agents' messages arrive.
  void checked_in(int number);
  void put_first(int number);
  void prepared(int agent, const v1::GenerationPrepared& answer);
  // The process has ended. A second end of one process is ignored.
  void ended(int number, const model::RankEnd& end);
  // The agent is lost or has left: none of its processes counts as running.
  void host_lost(int agent);
  // The job is being stopped from outside: no further generation begins.
  void stop();

  bool is_over() const { return is_over_; }
  const LiveMembers& members() const { return members_; }

 private:
  void carry_out();
  void carry_out(BeginGeneration action);
  void carry_out(const ReleaseAnswers& action);
  void carry_out(const NotifyWorker& action);
  void carry_out(const StopSlots& action);
  void carry_out(const FinishJob& action);
  void prepare_store();
  void fail_store(int agent, const std::string& why);
  void end_host(int agent);
  void repeat_questions(const std::vector<ElasticSlot>& ended);
  void maybe_begin();
  v1::LauncherMessage begin_message(int agent, int store_agent) const;
  ElasticTime now() const { return {clock_.now(), clock_.wall()}; }
  int agent_of(const ElasticSlot& slot) const { return agents_.at(slot.host); }

  // A generation that was planned, but has not begun.
  struct Planned {
    Generation generation;
    std::optional<int> port{};  // from GenerationPrepared
    std::string address{};      // of the store, for other hosts
    std::optional<ReleaseAnswers> release{};
  };

  const model::ElasticSpec spec_;
  const base::Clock& clock_;
  const std::chrono::milliseconds kill_grace_;
  const Events events_;
  std::unique_ptr<ElasticDriver> driver_;
  LiveMembers members_;
  std::map<std::string, int, std::less<>> agents_;  // by the host's name in slots
  int store_agent_ = 0;                             // has the store of the present generation
  std::optional<Planned> planned_;
  bool is_over_ = false;
  bool is_working_ = false;  // carry_out() runs
};

}  // namespace muster::launcherd::run
