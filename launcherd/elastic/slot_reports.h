// SlotReports collects the reports of one generation's slots, and decides when all have reported: horovodrun's barrier.
//
// Protocol: WorkerStateRegistry of horovod 0.28.1, runner/elastic/registration.py. A slot is ready when it asks for new
// numbers. It succeeded or failed when its process ended. A failure replaces "ready"; all other second reports are
// ignored. The slots of removed hosts count, too.
//
// Thread: any one.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launcherd/elastic/elastic_actions.h"
#include "launcherd/elastic/elastic_plan.h"

namespace muster::launcherd::inline elastic {

struct SlotReport {
  enum class Kind { kReady, kSucceeded, kFailed };
  Kind kind = Kind::kReady;
  base::MonotonicTime at{};
  int exit_code = 0;          // for kFailed
  bool is_host_lost = false;  // for kFailed
  bool is_ours = false;       // we ended the process, so its host is not to blame
};

class SlotReports {
 public:
  void begin(const ElasticPlan& plan);
  // False if the report is ignored.
  bool add(const ElasticSlot& slot, const SlotReport& report);

  // Whether the slot is in the plan.
  bool is_planned(const ElasticSlot& slot) const { return planned_.contains(slot); }
  bool empty() const { return reports_.empty(); }
  bool is_complete() const { return reports_.size() == slots_.size(); }
  bool contains(const ElasticSlot& slot) const { return reports_.contains(slot); }
  std::vector<ElasticSlot> missing() const;
  bool any(SlotReport::Kind kind) const;
  // The first report of this kind. nullopt if there is none.
  std::optional<std::pair<ElasticSlot, SlotReport>> first(SlotReport::Kind kind) const;

  // The hosts to black-list. A process that aborted within `abort_window` of a failure on another host was probably
  // torn down by it (horovod#3264), so its host is left out. 0 switches this rule off.
  std::vector<std::string> failed_hosts(base::Duration abort_window) const;
  // Why the job ends before any black-listing; nullopt if it may go on.
  std::optional<ElasticEnd> end() const;
  // Whether all hosts of the plan are among `hosts`.
  bool are_all_hosts(const std::vector<std::string>& hosts) const;

 private:
  bool is_torn_down(const ElasticSlot& slot, const SlotReport& report, base::Duration window) const;

  std::vector<ElasticSlot> slots_;  // in rank order
  std::set<ElasticSlot> planned_;   // the same
  std::map<ElasticSlot, SlotReport> reports_;
};

}  // namespace muster::launcherd::elastic
