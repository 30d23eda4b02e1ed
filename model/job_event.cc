#include "model/job_event.h"

#include <algorithm>
#include <map>

#include "base/strings.h"
#include "model/host_group.h"

namespace muster::model {
namespace {

// Returns "n1, n2" or "n[1-4]".
std::string names_in_words(const std::vector<std::string>& hosts) {
  return hosts.size() < kFewestGrouped ? base::join(hosts, ", ") : short_host_list(hosts);
}

}  // namespace

std::string describe(const GenerationBegan& began) {
  std::string line = fmt::format("generation {}: {} → {} ranks", began.number, began.from, began.to);
  if (!began.added.empty()) line += fmt::format(", {} joined", names_in_words(began.added));
  if (!began.lost.empty()) line += fmt::format(", {} lost", names_in_words(began.lost));
  if (!began.reason.empty()) line += fmt::format(" ({})", began.reason);
  constexpr double kMillisPerSecond = 1000;
  return line + fmt::format(", {:.2f} s", static_cast<double>(began.elapsed.count()) / kMillisPerSecond);
}

std::string describe(const HostsLeftOut& left_out) {
  std::vector<HostText> texts;
  for (std::size_t i = 0; i < left_out.hosts.size(); ++i) {
    texts.push_back({left_out.hosts[i], i < left_out.reasons.size() ? left_out.reasons[i] : "reason not known"});
  }
  const bool is_one = texts.size() == 1;
  return fmt::format("{} host{} not up, so the job starts without {}: {}", format_count(texts.size()),
                     is_one ? " is" : "s are", is_one ? "it" : "them", describe_not_up(texts));
}

std::string describe(const FirstCollectiveEnded& ended) {
  return fmt::format("generation {}: first collective after {:.2f} s", ended.generation,
                     std::chrono::duration<double>(ended.elapsed).count());
}

std::string describe(const WrongWorld& wrong) {
  std::map<int, std::size_t> ranks;  // by size of the group
  for (const FormedWorld& formed : wrong.formed) ranks[formed.size] += formed.ranks.size();
  std::vector<std::string> worlds;
  for (const auto& [size, members] : ranks) {
    const std::size_t count = members / static_cast<std::size_t>(std::max(size, 1));
    worlds.push_back(fmt::format("{} world{} of {} rank{}", count, count == 1 ? "" : "s", size, size == 1 ? "" : "s"));
  }
  return fmt::format("{} ranks were started, but they have formed {}: {}", wrong.size, base::join(worlds, " and "),
                     wrong.reason);
}

std::string describe(const LateHost& late) {
  const double percent =
      late.operations == 0 ? 0 : 100.0 * static_cast<double>(late.late) / static_cast<double>(late.operations);
  return fmt::format("{} came last in {:.0f} % of {} steps, by {}", late.host, percent, late.operations,
                     describe_lateness(late.median));
}

std::string describe_lateness(std::chrono::microseconds late) {
  const double milliseconds = std::chrono::duration<double, std::milli>(late).count();
  return milliseconds < 10 ? fmt::format("{:.1f} ms", milliseconds) : fmt::format("{:.0f} ms", milliseconds);
}

}  // namespace muster::model
