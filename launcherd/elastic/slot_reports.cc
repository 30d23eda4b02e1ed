#include "launcherd/elastic/slot_reports.h"

#include <algorithm>
#include <csignal>

namespace muster::launcherd::inline elastic {
namespace {

using Kind = SlotReport::Kind;

constexpr int kAborted = 128 + SIGABRT;

bool is_abort(const SlotReport& report) {
  return report.kind == Kind::kFailed && report.exit_code == kAborted && !report.is_host_lost;
}

}  // namespace

void SlotReports::begin(const ElasticPlan& plan) {
  slots_.clear();
  planned_.clear();
  reports_.clear();
  for (const PlannedSlot& planned : plan) slots_.push_back(planned.slot);
  planned_.insert(slots_.begin(), slots_.end());
}

bool SlotReports::add(const ElasticSlot& slot, const SlotReport& report) {
  if (!planned_.contains(slot)) return false;
  const auto [at, is_first] = reports_.emplace(slot, report);
  if (is_first) return true;
  if (at->second.kind != Kind::kReady || report.kind != Kind::kFailed) return false;
  at->second = report;
  return true;
}

std::vector<ElasticSlot> SlotReports::missing() const {
  std::vector<ElasticSlot> missing;
  for (const ElasticSlot& slot : slots_) {
    if (!reports_.contains(slot)) missing.push_back(slot);
  }
  return missing;
}

bool SlotReports::any(Kind kind) const {
  return std::ranges::any_of(reports_, [&](const auto& each) { return each.second.kind == kind; });
}

std::optional<std::pair<ElasticSlot, SlotReport>> SlotReports::first(Kind kind) const {
  std::optional<std::pair<ElasticSlot, SlotReport>> first;
  for (const auto& [slot, report] : reports_) {
    if (report.kind == kind && (!first || report.at < first->second.at)) first = {slot, report};
  }
  return first;
}

bool SlotReports::is_torn_down(const ElasticSlot& slot, const SlotReport& report, base::Duration window) const {
  if (!is_abort(report)) return false;
  return std::ranges::any_of(reports_, [&](const auto& other) {
    if (other.first.host == slot.host || other.second.kind != Kind::kFailed || is_abort(other.second)) return false;
    return std::chrono::abs(other.second.at - report.at) <= window;
  });
}

std::vector<std::string> SlotReports::failed_hosts(base::Duration abort_window) const {
  std::vector<std::string> hosts;
  for (const auto& [slot, report] : reports_) {
    if (report.kind != Kind::kFailed || report.is_ours || std::ranges::find(hosts, slot.host) != hosts.end()) continue;
    if (abort_window > base::Duration::zero() && is_torn_down(slot, report, abort_window)) continue;
    hosts.push_back(slot.host);
  }
  return hosts;
}

std::optional<ElasticEnd> SlotReports::end() const {
  if (any(Kind::kSucceeded)) return any(Kind::kFailed) ? ElasticEnd::kFailed : ElasticEnd::kSucceeded;
  if (!any(Kind::kReady)) return ElasticEnd::kAllFailed;
  return std::nullopt;
}

bool SlotReports::are_all_hosts(const std::vector<std::string>& hosts) const {
  return std::ranges::all_of(
      slots_, [&](const ElasticSlot& slot) { return std::ranges::find(hosts, slot.host) != hosts.end(); });
}

}  // namespace muster::launcherd::elastic
