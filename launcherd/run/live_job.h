// Runs the generations of a job whose ranks change (docs/adr/0044). It reports to an ElasticDriver what agents report,
// and carries out the driver's decisions by messages to agents.
//
// Owner: JobRunner's core.
// Thread: loop thread only. Callbacks must not destroy this object.
//
// One change: BeginGeneration of the driver → the agents of new hosts come up → orders to start new processes, and
// PrepareGeneration to rank 0's host → its answer, and ReleaseAnswers of the driver → BeginGeneration to all hosts. A
// later plan of the driver replaces one that has not been released.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
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

// A process that an agent must start, and its rank in the generation that has been planned.
struct NewProcess {
  int number = 0;
  int agent = 0;
  int rank = 0;

  bool operator==(const NewProcess&) const = default;
};

class LiveJob {
 public:
  struct Events {
    std::function<void(int agent, v1::LauncherMessage message)> send;
    // Returns the address at which the other agents reach the first one.
    std::function<base::Result<std::string>(const std::vector<int>& agents)> address_of_first;
    std::function<v1::JobPeer(int agent)> peer_of;
    std::function<v1::RankTable(const ElasticPlan& plan)> rank_table = {};  // empty: the agents keep their tables
    // Gives a host another agent, and returns its index. agent_up() or host_lost() follows.
    std::function<base::Result<int>(const std::string& host)> add_agent;
    // Orders agents that are up to start processes. `agents` has that of each host of the plan, in rank order, and
    // `address` is that of the first one.
    std::function<base::Status(const Generation& generation, const std::vector<int>& agents,
                               const std::vector<NewProcess>& processes, const std::string& address)>
        start;
    // No process will start on the agent that add_agent() has returned.
    std::function<void(int agent)> release_agent;
    std::function<void(const std::string& line)> warn;
    // The generation begins now. `former` is as in model::GenerationBegan.
    std::function<void(const Generation& generation, std::vector<int> former)> began;
    std::function<void(const FinishJob& end)> over;
    // The host is lost: the caller reports the ends of its processes, and calls host_lost().
    std::function<void(int agent, const std::string& why)> lose_host;
    std::function<void(std::optional<base::MonotonicTime> at)> wake;  // call tick() then; replaces an earlier time
    std::function<void()> changed{};  // members(), excluded_hosts() or lacks() may have changed; may be empty
  };

  LiveJob(const model::ElasticSpec& spec, const base::Clock& clock, std::chrono::milliseconds kill_grace,
          Events events);

  // Begins generation 0. `agents` has the agent of each host of `placement`. The caller starts its processes. `listed`
  // has all hosts and slots that the user gave. Without ElasticSpec::max_ranks the job then never has more ranks than
  // `placement`, until set_hosts(). Empty means the hosts and slots of `placement`.
  void start(const model::Placement& placement, const std::vector<int>& agents,
             const std::vector<ElasticHost>& listed = {});
  void tick();
  // Replaces the list of hosts that the job may use. Known hosts keep their order, and names are those of slots. The
  // driver starts processes on new hosts, and ends those on hosts that are missing now, at the next change of ranks.
  // Without ElasticSpec::max_ranks the job may use all slots of the new list.
  void set_hosts(const std::vector<ElasticHost>& hosts);
  // Changes the limits of later generations (ElasticSpec::min_ranks and max_ranks).
  void set_size(int min_ranks, std::optional<int> max_ranks);

  // Call these when the agents' messages arrive.
  void checked_in(int number);
  void put_first(int number);
  void prepared(int agent, const v1::GenerationPrepared& answer);
  void notified(const v1::WorkerNotified& answer);
  // The agent that add_agent() has returned can start processes.
  void agent_up(int agent);
  // The agent has refused an order to start processes, because its session ends. `first` is the lowest of their
  // numbers.
  void refused(int agent, int first);
  // No process can start on the agent's host now, so the host or its slots from there on leave the job. `first` is as
  // in refused().
  void cannot_start(int agent, int first);
  // The process has ended. A second end of one process is ignored.
  void ended(int number, const model::RankEnd& end);
  // The agent is lost or has left: none of its processes counts as running.
  void host_lost(int agent);
  // The job is being stopped from outside: no further generation begins.
  void stop();

  bool is_over() const { return is_over_; }
  const LiveMembers& members() const { return members_; }
  // The hosts that get no process now, because one has failed there. They have the names of slots.
  std::vector<std::string> excluded_hosts() const;
  // When a host of excluded_hosts() may get processes again; nullopt means never.
  std::optional<base::MonotonicTime> excluded_until(const std::string& host) const;
  // ElasticDriver::limit_of().
  std::optional<int> limit_of(const std::string& host) const;
  // The number of slots without which the job cannot go on; 0 if it does not wait for slots.
  int lacks() const;

 private:
  void carry_out();
  void carry_out(BeginGeneration action);
  void carry_out(const ReleaseAnswers& action);
  void carry_out(const NotifyWorker& action);
  void carry_out(const StopSlots& action);
  void carry_out(const FinishJob& action);
  bool is_in_use(int agent);
  void add_process(const PlannedSlot& planned);
  void process_failed(LiveProcess& process, SlotExit exit);
  void fail_from(int agent, int first, SlotExit exit);
  std::vector<int> planned_agents() const;
  void advance();
  bool start_processes(const std::vector<int>& agents, const std::string& address);
  void release_idle_agents();
  void prepare_store(const std::vector<int>& agents);
  void fail_store(int agent, const std::string& why);
  void end_host(int agent);
  void report_over(const std::vector<model::RankEnd>& ends);
  void repeat_questions(const std::vector<ElasticSlot>& ended);
  void repeat_questions();
  bool misses_process();
  void remember_failure(std::string what);
  void maybe_remind();
  void maybe_begin();
  std::map<int, v1::LauncherMessage> begin_messages(int store_agent) const;
  ElasticTime now() const { return {clock_.now(), clock_.wall()}; }
  int agent_of(const ElasticSlot& slot) const { return agents_.at(slot.host); }

  // A generation that was planned, but has not begun.
  struct Planned {
    Generation generation;
    bool is_prepared = false;   // the agents have their orders
    std::optional<int> port{};  // from GenerationPrepared
    std::string address{};      // of the store, for other hosts
    std::optional<ReleaseAnswers> release{};
    std::vector<int> early_puts{};  // new processes that were ready before the store was
  };

  const model::ElasticSpec spec_;
  const base::Clock& clock_;
  const std::chrono::milliseconds kill_grace_;
  const Events events_;
  std::unique_ptr<ElasticDriver> driver_;
  LiveMembers members_;
  std::map<std::string, int, std::less<>> agents_;  // by the host's name in slots
  std::set<int> starting_;                          // agents of add_agent() that are not up yet
  std::set<int> unused_;                            // agents of add_agent() that have started nothing
  int min_ranks_ = 1;
  bool is_capped_ = false;  // the job has no more ranks than at its start
  int store_agent_ = 0;     // has the store of the present generation
  std::optional<Planned> planned_;
  std::int64_t noticed_at_ = 0;                   // the timestamp of the last notice
  int present_ = 0;                               // the number of the present generation
  bool is_generation_over_ = false;               // a process of it has ended
  std::string failure_;                           // that the next generation will follow, as a sentence
  std::optional<base::MonotonicTime> remind_at_;  // the time of the next line about what the job waits for
  std::optional<ElasticPhase> reminded_of_;       // the phase that the last reminder was about
  bool is_over_ = false;
  bool is_working_ = false;  // carry_out() runs
};

}  // namespace muster::launcherd::run
