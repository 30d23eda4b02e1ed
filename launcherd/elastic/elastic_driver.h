// Decides what an elastic Horovod job does: which slots are in each generation, when a new generation begins, which
// workers wait, and when the job is over. It plays the part of horovodrun's ElasticDriver for unmodified workers.
//
// It has no I/O and no clock. The owner reports events with their times, then takes the actions and carries them out.
// Phases: elastic_phase.h. docs/design.md shows them as a diagram.
//
// It differs from horovodrun 0.28.1 where horovodrun hangs or loses a job:
// - It holds all answers until every new process has made its first PUT of /global/rank_<r>. Survivors wait only 30 s
//   for a peer, and a new process may need longer for its imports.
// - If a new process ends before that, the plan changes again and the survivors do not notice.
// - A lost host counts as a failure of all its processes.
// - A process that it stopped itself is no failure. A SIGABRT soon after a peer's failure does not black-list the host.
// - It ignores the exit code of a worker that has left the plan, because horovod 0.28.1 aborts such workers.
// - It starts a slot again only after the slot's old process has ended.
// - Rank 0 is always a survivor, because all ranks receive its state.
// - It repeats a notice until rank 0 comes. Workers drop notices that arrive while they reset.
//
// Owner: the runner of one job.
// Thread: that of the owner; it is not thread-safe.
//
//   driver.set_hosts(hosts, now);
//   for (ElasticAction& each : driver.take_actions()) carry_out(std::move(each));
//   timer.set(driver.deadline(), [&] { driver.tick(now()); });
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "launcherd/elastic/elastic_actions.h"
#include "launcherd/elastic/elastic_phase.h"
#include "launcherd/elastic/elastic_plan.h"

namespace muster::launcherd::inline elastic {

struct ElasticLimits {
  int np = 1;                   // slots that the start needs
  int min_np = 1;               // slots that each later generation needs
  std::optional<int> max_np{};  // nullopt means no limit
  std::optional<int> reset_limit{};
  base::Duration elastic_timeout = std::chrono::seconds(600);  // for each wait for slots
  // The time within which all workers of a world report, once one has failed or waits for new numbers. A worker may be
  // busy for minutes without a collective, for example while it saves a checkpoint.
  base::Duration late_time = std::chrono::seconds(600);
  // The range of a host's time on the black-list. nullopt means forever.
  std::optional<std::pair<base::Duration, base::Duration>> cooldown{};
  // A SIGABRT this near to a failure on another host does not black-list. 0 switches the rule off.
  base::Duration abort_window = std::chrono::seconds(30);
  // After a process ended during a reset, others of it that end within this time count for the same new plan.
  base::Duration settle_time = std::chrono::seconds(1);
  base::Duration notice_repeat = std::chrono::seconds(5);
  // The driver stops a worker that has left the plan and still runs after this time.
  base::Duration leave_time = std::chrono::seconds(30);
};

struct SlotExit {
  int exit_code = 0;          // 128 + signal if a signal ended it
  bool caused_by_us = false;  // the owner ended it, so its host is not to blame; not needed for StopSlots
};

class ElasticDriver {
 public:
  // `random` returns numbers in [0, 1).
  ElasticDriver(ElasticLimits limits, ElasticTime at, std::function<double()> random);
  ~ElasticDriver();
  ElasticDriver(const ElasticDriver&) = delete;
  ElasticDriver& operator=(const ElasticDriver&) = delete;

  // The hosts that the job may use, in order: from -H, a discovery script or a resize. Known hosts keep their order.
  void set_hosts(const std::vector<ElasticHost>& hosts, ElasticTime at);
  // Changes the limits of later generations.
  void set_size(int min_np, std::optional<int> max_np, ElasticTime at);
  // GET /rank_and_size arrived from this slot's process. The owner holds its answer until ReleaseAnswers.
  void on_rank_and_size(const ElasticSlot& slot, ElasticTime at);
  // PUT /global/rank_<rank> arrived. Only the first PUT of each new process matters.
  void on_first_put(int generation, int rank, ElasticTime at);
  // Each process that was started must be reported once, also after StopSlots.
  void on_exit(const ElasticSlot& slot, SlotExit exit, ElasticTime at);
  // The host's lease is over, or its agent is gone. The owner makes sure that the host's processes end.
  void on_host_lost(const std::string& host, ElasticTime at);
  void on_notice_failed(const ElasticSlot& slot, ElasticTime at);
  void tick(ElasticTime at);

  // When tick() must be called at the latest; nullopt if nothing waits for time.
  std::optional<base::MonotonicTime> deadline() const;
  std::vector<ElasticAction> take_actions();

  ElasticPhase phase() const;
  const Generation& generation() const;  // the last one that began; its plan is empty before the first
  int resets() const;                    // completed decisions to reset
  // The slots that the present phase waits for: in kStarting new processes, in kBarrier late workers.
  std::vector<ElasticSlot> missing() const;
  // In kWaiting, the number of slots that the next generation lacks; otherwise 0.
  int lacks() const;
  // Hosts that are on the black-list now.
  std::vector<std::string> blacklisted() const;
  // When a host of blacklisted() may be used again; nullopt means never.
  std::optional<base::MonotonicTime> blacklisted_until(const std::string& host) const;
  // The number of slots of the host that are used at most, because a new process on the next one has failed. The limit
  // ends when the list gives the host another number of slots. nullopt means all slots.
  std::optional<int> limit_of(const std::string& host) const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::launcherd::elastic
