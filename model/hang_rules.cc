// All of hang_rules.h. Read it in this order: judge_hang(), decide(), then the rules above decide().
#include "model/hang_rules.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "base/strings.h"
#include "model/exit_report.h"
#include "model/hang_doing.h"
#include "model/host_ranges.h"

namespace muster::model {
namespace {

// A rank, and what it does.
struct Judged {
  std::vector<const RankEvidence*> looks;  // oldest first
  RankDoing doing = RankDoing::kUnknown;
  bool was_there = false;  // all earlier looks found it in the same functions
  bool is_suspect = false;

  const RankEvidence& last() const { return *looks.back(); }
  const CollectivePlace* collective() const { return last().collective ? &*last().collective : nullptr; }
  const TorchCollective* torch() const { return last().torch ? &*last().torch : nullptr; }
  // True if PyTorch's flight recorder shows that the rank is in this operation.
  bool is_in(const TorchCollective& at) const {
    return torch() != nullptr && torch()->is_open() && torch()->group == at.group && torch()->sequence == at.sequence;
  }
  // True if it shows that the rank has not come to this operation.
  bool is_behind(const TorchCollective& at) const {
    return torch() != nullptr && torch()->group == at.group && torch()->sequence < at.sequence;
  }
};

using Ranks = std::vector<Judged>;

struct Decision {
  HangRule rule = HangRule::kNotKnown;
  bool is_late = false;    // holds only late
  std::string cause = {};  // a phrase about the suspects
};

Ranks ranks_of(const HangFacts& facts) {
  std::map<int, Judged> by_rank;
  for (const HangLook& look : facts.looks) {
    for (const RankEvidence& evidence : look) by_rank[evidence.rank].looks.push_back(&evidence);
  }
  std::map<int, std::vector<const RankEvidence*>> earlier;
  for (const HangLook& look : facts.earlier) {
    for (const RankEvidence& evidence : look) earlier[evidence.rank].push_back(&evidence);
  }
  Ranks ranks;
  for (auto& entry : by_rank) {
    Judged& judged = entry.second;
    if (judged.looks.size() == facts.looks.size()) judged.doing = doing_of(judged.looks);
    const auto before = earlier.find(entry.first);
    judged.was_there = before != earlier.end() && before->second.size() == facts.earlier.size() &&
                       std::ranges::all_of(before->second, [&](const RankEvidence* look) {
                         return is_same_chain(*look, judged.last());
                       });
    ranks.push_back(std::move(judged));
  }
  return ranks;
}

template <typename Is>
int count(const Ranks& ranks, Is is) {
  return static_cast<int>(std::ranges::count_if(ranks, is));
}

template <typename Is>
int suspect_if(Ranks& ranks, Is is) {
  for (Judged& rank : ranks) rank.is_suspect = is(rank);
  return count(ranks, &Judged::is_suspect);
}

auto does(RankDoing doing) {
  return [doing](const Judged& rank) { return rank.doing == doing; };
}

std::string plural_ranks(int number) {
  return fmt::format("{} {}", number, number == 1 ? "rank" : "ranks");
}

// Returns "rank 3 on n2", or "rank 3 on n2 and 4 other ranks".
std::string suspects_text(const Ranks& ranks) {
  const auto first = std::ranges::find_if(ranks, &Judged::is_suspect);
  const int others = count(ranks, &Judged::is_suspect) - 1;
  std::string text = fmt::format("rank {} on {}", first->last().rank, base::printable(first->last().host));
  if (others > 0) text += fmt::format(" and {} other {}", others, others == 1 ? "rank" : "ranks");
  return text;
}

const Judged& first_suspect(const Ranks& ranks) {
  return *std::ranges::find_if(ranks, &Judged::is_suspect);
}

// Returns ", in load (data.py:88)", or an empty text.
std::string in_place(const Judged& rank) {
  const std::string place = place_of(rank.last());
  return place.empty() ? "" : ", in " + place;
}

// Returns `allreduce "grad/17"`.
std::string operation_text(const CollectivePlace& at) {
  const std::string operation = at.operation.empty() ? "a collective operation" : base::printable(at.operation);
  return at.name.empty() ? operation : fmt::format("{} \"{}\"", operation, base::printable(at.name));
}

std::string seconds_text(const std::optional<std::int64_t>& ms) {
  return ms && *ms >= 1000 ? fmt::format(" for {} s", *ms / 1000) : "";
}

// Returns what the ranks wait in that are no suspects: `allreduce "x"`, or an empty text.
std::string waited_operation(const Ranks& ranks) {
  for (const Judged& rank : ranks) {
    if (!rank.is_suspect && rank.doing == RankDoing::kCollective) return operation_text(*rank.collective());
  }
  return "";
}

// Returns "while 7 ranks wait for others in allreduce "x"".
std::string others_wait(const Ranks& ranks) {
  const int waiting = count(ranks, [](const Judged& rank) {
    return !rank.is_suspect && (waits_for_ranks(rank.doing) || rank.doing == RankDoing::kSocket);
  });
  if (waiting == 0) return "";
  const std::string operation = waited_operation(ranks);
  return fmt::format(", while {} {} {}", plural_ranks(waiting), waiting == 1 ? "waits" : "wait",
                     operation.empty() ? "for others" : "in " + operation);
}

std::string doing_text(const Judged& rank) {
  const RankEvidence& last = rank.last();
  const std::string channel = last.wait_channel.empty() ? "" : fmt::format(" ({})", base::printable(last.wait_channel));
  const auto at = [&](std::string_view what) { return fmt::format("{}{}", what, in_place(rank)); };
  switch (rank.doing) {
    case RankDoing::kLoops:
      return at("loops");
    case RankDoing::kComputes:
      return at("has been computing in one call");
    case RankDoing::kKey:
      return fmt::format("waits for {}{}", base::printable(last.awaits), in_place(rank));
    case RankDoing::kCollective:
      return fmt::format("is in {}{}", operation_text(*rank.collective()), in_place(rank));
    case RankDoing::kPeers:
      return at("waits for other ranks elsewhere");
    case RankDoing::kSocket:
    case RankDoing::kServes:
      return at("waits for a connection" + channel);
    default:
      return at("does not move" + channel);
  }
}

std::optional<Decision> find_stopped(Ranks& ranks) {
  const int stopped = suspect_if(ranks, does(RankDoing::kStopped));
  if (stopped == 0) return std::nullopt;
  return Decision{
      .rule = HangRule::kStopped,
      .cause = fmt::format("{} {} stopped by a signal (state T){}{}", suspects_text(ranks), stopped == 1 ? "is" : "are",
                           in_place(first_suspect(ranks)), others_wait(ranks))};
}

// True for libmuster's and Horovod's warnings about late ranks, which they repeat while a job hangs. Horovod's ends
// with lines such as "3: [grad/17]".
bool is_late_rank_warning(std::string_view line) {
  if (line.starts_with("muster: ")) return true;
  const std::size_t digits = line.find_first_not_of("0123456789");
  return digits != 0 && digits != std::string_view::npos && line.substr(digits).starts_with(": [");
}

// The launcher counts lines as progress. So a line that has not ended, such as a progress bar, is only known here.
std::optional<Decision> find_writing(const Ranks& ranks, const HangFacts& facts) {
  const auto writing = std::ranges::find_if(ranks, [&](const Judged& rank) {
    const RankEvidence& last = rank.last();
    return last.silent_ms && *last.silent_ms < facts.timeout_ms && !is_late_rank_warning(last.last_line);
  });
  if (writing == ranks.end()) return std::nullopt;
  return Decision{.rule = HangRule::kWorking,
                  .cause = fmt::format("no hang found: rank {} on {} writes output", writing->last().rank,
                                       base::printable(writing->last().host))};
}

// True if the rank runs native code. Its place cannot be read without stopping it, so it may also wait in a library. A
// look fails, too, if Python's stack changes while it is read: then other looks have seen it.
bool is_unseen(const Judged& rank) {
  return rank.doing == RankDoing::kWorks && rank.last().state == "R" &&
         std::ranges::all_of(rank.looks,
                             [](const RankEvidence* look) { return look->python.empty() && look->native.empty(); });
}

std::optional<Decision> find_working(const Ranks& ranks) {
  const auto works = [](const Judged& rank) {
    return rank.doing == RankDoing::kWorks || rank.doing == RankDoing::kUnknown;
  };
  auto working = std::ranges::find_if(ranks, [&](const Judged& rank) { return works(rank) && !is_unseen(rank); });
  if (working == ranks.end()) working = std::ranges::find_if(ranks, is_unseen);
  if (working == ranks.end()) return std::nullopt;
  const RankEvidence& last = working->last();
  const std::string name = fmt::format("rank {} on {}", last.rank, base::printable(last.host));
  const std::string why = last.problem.empty() ? "" : ": " + base::printable(last.problem);
  std::string cause = fmt::format("no hang found: {} works{}", name, in_place(*working));
  if (working->doing == RankDoing::kUnknown) cause = fmt::format("no hang found: {} could not be read{}", name, why);
  if (is_unseen(*working)) cause = fmt::format("not known: {} runs native code that cannot be seen from outside", name);
  return Decision{.rule = HangRule::kWorking, .cause = std::move(cause)};
}

std::optional<Decision> find_disk(Ranks& ranks) {
  if (suspect_if(ranks, does(RankDoing::kDisk)) == 0) return std::nullopt;
  const Judged& first = first_suspect(ranks);
  const std::string channel =
      first.last().wait_channel.empty() ? "" : ", " + base::printable(first.last().wait_channel);
  return Decision{
      .rule = HangRule::kDisk,
      .cause = fmt::format("{} waits for a disk or a file system (state D{}{}){}{}", suspects_text(ranks),
                           seconds_text(first.last().state_ms), channel, in_place(first), others_wait(ranks))};
}

// True if the rank may only need time: it computes, or wanted a core in some look. On a host with too much to do such a
// rank moves slowly, also within an operation.
bool needs_time(const Judged& rank) {
  return rank.doing == RankDoing::kLoops || rank.doing == RankDoing::kComputes ||
         std::ranges::any_of(rank.looks, [](const RankEvidence* look) { return look->state == "R"; });
}

bool is_any_suspect_busy(const Ranks& ranks) {
  return std::ranges::any_of(ranks, [](const Judged& rank) { return rank.is_suspect && needs_time(rank); });
}

// Looks at the numbers of operations of libmuster.
std::optional<Decision> find_behind(Ranks& ranks) {
  const CollectivePlace* newest = nullptr;
  std::uint64_t oldest = UINT64_MAX;
  for (const Judged& rank : ranks) {
    const CollectivePlace* const at = rank.collective();
    if (at == nullptr) continue;
    oldest = std::min(oldest, at->begun);
    if (rank.doing == RankDoing::kCollective && (newest == nullptr || at->begun > newest->begun)) newest = at;
  }
  if (newest == nullptr || oldest >= newest->begun) return std::nullopt;
  suspect_if(ranks,
             [&](const Judged& rank) { return rank.collective() != nullptr && rank.collective()->begun == oldest; });
  const Judged& first = first_suspect(ranks);
  const int waiting =
      count(ranks, [&](const Judged& rank) { return !rank.is_suspect && rank.doing == RankDoing::kCollective; });
  return Decision{.rule = HangRule::kBehind,
                  .is_late = is_any_suspect_busy(ranks),
                  .cause = fmt::format("{} {} not begun {}, in which {} {}; rank {} {}", suspects_text(ranks),
                                       count(ranks, &Judged::is_suspect) == 1 ? "has" : "have", operation_text(*newest),
                                       plural_ranks(waiting), waiting == 1 ? "waits" : "wait", first.last().rank,
                                       doing_text(first))};
}

// Returns "nccl:all_reduce 17 of group default_pg".
std::string torch_text(const TorchCollective& torch) {
  const std::string operation = torch.operation.empty() ? "operation" : base::printable(torch.operation);
  const std::string group = torch.group.empty() ? "" : " of group " + base::printable(torch.group);
  return fmt::format("{} {}{}", operation, torch.sequence, group);
}

// Returns the operation in which most ranks wait and to which other ranks of its group have not come. nullptr if there
// is none.
const TorchCollective* awaited_torch(const Ranks& ranks) {
  const TorchCollective* found = nullptr;
  int most = 0;
  for (const Judged& rank : ranks) {
    const TorchCollective* const at = rank.torch();
    if (at == nullptr || !at->is_open()) continue;
    const int waiting = count(ranks, [at](const Judged& other) { return other.is_in(*at); });
    const int behind = count(ranks, [at](const Judged& other) { return other.is_behind(*at); });
    const bool is_better = found == nullptr || waiting > most || (waiting == most && at->sequence > found->sequence);
    if (behind == 0 || !is_better) continue;
    found = at;
    most = waiting;
  }
  return found;
}

// Looks at the numbers in PyTorch's flight recorders.
std::optional<Decision> find_torch_behind(Ranks& ranks) {
  const TorchCollective* const awaited = awaited_torch(ranks);
  if (awaited == nullptr) return std::nullopt;
  const int suspects = suspect_if(ranks, [awaited](const Judged& rank) { return rank.is_behind(*awaited); });
  const int waiting = count(ranks, [awaited](const Judged& rank) { return rank.is_in(*awaited); });
  const Judged& first = first_suspect(ranks);
  return Decision{.rule = HangRule::kBehind,
                  .is_late = is_any_suspect_busy(ranks),
                  .cause = fmt::format("{} {} not in {}, in which {} {}; rank {} {}", suspects_text(ranks),
                                       suspects == 1 ? "is" : "are", torch_text(*awaited), plural_ranks(waiting),
                                       waiting == 1 ? "waits" : "wait", first.last().rank, doing_text(first))};
}

// Returns the ranks of each group, by index, if one group is smaller than all others and than half of the ranks.
template <typename Key>
std::optional<Key> smallest_group(const std::map<Key, int>& groups, int all) {
  if (groups.size() < 2) return std::nullopt;
  const auto size = [](const auto& group) { return group.second; };
  const auto least = std::ranges::min_element(groups, {}, size);
  const bool is_only_one = std::ranges::count(groups, least->second, size) == 1;
  if (!is_only_one || 2 * least->second >= all) return std::nullopt;
  return least->first;
}

// All ranks are in the operation of the same number, but not in the same one.
std::optional<Decision> find_swapped(Ranks& ranks) {
  std::map<std::pair<std::string, std::string>, int> groups;
  const auto key = [](const Judged& rank) { return std::pair(rank.collective()->operation, rank.collective()->name); };
  for (const Judged& rank : ranks) {
    if (rank.doing == RankDoing::kCollective) ++groups[key(rank)];
  }
  if (groups.size() < 2) return std::nullopt;
  const int all = count(ranks, does(RankDoing::kCollective));
  const auto least = smallest_group(groups, all);
  suspect_if(ranks,
             [&](const Judged& rank) { return least && rank.doing == RankDoing::kCollective && key(rank) == *least; });
  const auto is_first = [&](const Judged& rank) {
    return rank.doing == RankDoing::kCollective && (!least || rank.is_suspect);
  };
  const Judged& first = *std::ranges::find_if(ranks, is_first);
  const Judged& other = *std::ranges::find_if(
      ranks, [&](const Judged& rank) { return rank.doing == RankDoing::kCollective && key(rank) != key(first); });
  return Decision{
      .rule = HangRule::kSwapped,
      .cause = fmt::format("rank {} on {} is in {}{}, but rank {} is in {}: the order of operations differs",
                           first.last().rank, base::printable(first.last().host), operation_text(*first.collective()),
                           in_place(first), other.last().rank, operation_text(*other.collective()))};
}

// Some ranks wait for others, and some do something else.
std::optional<Decision> find_elsewhere(Ranks& ranks) {
  const bool has_library = count(ranks, [](const Judged& rank) { return waits_for_ranks(rank.doing); }) > 0;
  if (!has_library && count(ranks, does(RankDoing::kSocket)) == 0) return std::nullopt;
  const auto is_busy = [](const Judged& rank) {
    return rank.doing == RankDoing::kLoops || rank.doing == RankDoing::kComputes;
  };
  const auto is_elsewhere = [&](const Judged& rank) {
    return is_busy(rank) || rank.doing == RankDoing::kBlocked ||
           (has_library && (rank.doing == RankDoing::kServes || rank.doing == RankDoing::kSocket));
  };
  const int suspects = suspect_if(ranks, is_elsewhere);
  if (suspects == 0) return std::nullopt;
  const bool is_any_busy = std::ranges::any_of(ranks, is_busy);
  const bool serves = std::ranges::any_of(ranks, does(RankDoing::kServes));
  return Decision{
      .rule = is_any_busy ? HangRule::kBusy : HangRule::kElsewhere,
      .is_late = is_any_busy || serves || !has_library,
      .cause = fmt::format("{} {}{}", suspects_text(ranks), doing_text(first_suspect(ranks)), others_wait(ranks))};
}

// From here on all ranks wait for others, in libraries.
Decision find_keys(const Ranks& ranks) {
  std::set<std::string> keys;
  for (const Judged& rank : ranks) keys.insert(rank.last().awaits);
  const Judged& first = ranks.front();
  return {
      .rule = HangRule::kKeys,
      .cause = fmt::format("all {} wait for {}{}, and no rank is left that could answer{}",
                           plural_ranks(static_cast<int>(ranks.size())), base::printable(first.last().awaits),
                           keys.size() == 1 ? "" : fmt::format(" and {} others", keys.size() - 1), in_place(first))};
}

std::string place_key(const Judged& rank);

Decision find_waits(Ranks& ranks, const HangFacts& facts) {
  const int all = static_cast<int>(ranks.size());
  if (count(ranks, does(RankDoing::kKey)) == all) return find_keys(ranks);
  const Judged& first = ranks.front();
  if (!facts.ended.empty()) {
    return {.rule = HangRule::kEnded,
            .cause = fmt::format("{} {} ended, and {} {} for others{}", facts.ended.size() == 1 ? "rank" : "ranks",
                                 short_rank_list(facts.ended) + (facts.ended.size() == 1 ? " has" : " have"),
                                 plural_ranks(all), all == 1 ? "waits" : "wait", in_place(first))};
  }
  const bool is_any_spinning = std::ranges::any_of(ranks, [](const Judged& rank) {
    return rank.doing != RankDoing::kCollective &&
           std::ranges::any_of(rank.looks, [](const RankEvidence* look) { return !is_idle(*look); });
  });
  if (is_any_spinning || all == 1) return {.cause = "not known: all ranks communicate"};
  std::map<std::string, int> places;
  for (const Judged& rank : ranks) ++places[place_key(rank)];
  if (const auto least = smallest_group(places, all)) {
    suspect_if(ranks, [&](const Judged& rank) { return place_key(rank) == *least; });
    return {
        .rule = HangRule::kDifferent,
        .is_late = true,
        .cause = fmt::format("{} {}{}", suspects_text(ranks), doing_text(first_suspect(ranks)), others_wait(ranks))};
  }
  const std::string operation = waited_operation(ranks);
  return {.rule = HangRule::kTogether,
          .is_late = true,
          .cause = fmt::format("all {} wait{}{}: no rank differs from the others", plural_ranks(all),
                               operation.empty() ? "" : " in " + operation, in_place(first))};
}

Decision decide(Ranks& ranks, const HangFacts& facts) {
  if (ranks.empty()) return {.cause = "not known: no rank could be read"};
  if (auto found = find_writing(ranks, facts)) return *found;
  if (auto found = find_stopped(ranks)) return *found;
  if (auto found = find_working(ranks)) return *found;
  if (auto found = find_disk(ranks)) return *found;
  if (auto found = find_behind(ranks)) return *found;
  if (auto found = find_torch_behind(ranks)) return *found;
  if (auto found = find_swapped(ranks)) return *found;
  if (auto found = find_elsewhere(ranks)) return *found;
  const bool all_wait = std::ranges::all_of(ranks, [](const Judged& rank) { return waits_for_ranks(rank.doing); });
  if (!all_wait) return {.cause = "not known: no rank waits for another one, as far as can be seen"};
  if (!facts.silent_hosts.empty()) {
    return {.rule = HangRule::kTogether,
            .cause = fmt::format("{} did not answer, and all other ranks wait for others",
                                 short_host_list(facts.silent_hosts))};
  }
  return find_waits(ranks, facts);
}

// Ranks with equal texts are at the same place.
std::string place_key(const Judged& rank) {
  const RankEvidence& last = rank.last();
  const bool has_line = rank.doing != RankDoing::kLoops && rank.doing != RankDoing::kWorks;
  std::string key = fmt::format("{}|{}|", name_of(rank.doing), last.awaits);
  for (std::size_t i = 0; i < last.python.size(); ++i) {
    const PythonCall& call = last.python[i];
    key += fmt::format("{}@{}:{}>", call.function, call.file, i == 0 && !has_line ? 0 : call.line);
  }
  // Native functions of ranks that wait in a library change all the time.
  if (last.python.empty() && !waits_for_ranks(rank.doing)) key += last.native;
  if (const CollectivePlace* const at = rank.collective()) {
    key += fmt::format("|{} {} {} {}", at->begun, at->is_open(), at->operation, at->name);
  }
  if (const TorchCollective* const at = rank.torch()) key += fmt::format("|{} {}", torch_text(*at), at->is_open());
  return key;
}

std::vector<HangClass> classes_of(const Ranks& ranks) {
  std::map<std::string, HangClass> by_place;
  for (const Judged& rank : ranks) {
    HangClass& place = by_place[fmt::format("{}|{}", rank.is_suspect, place_key(rank))];
    if (place.ranks.empty()) {
      place.suspect = rank.is_suspect;
      place.example = rank.last();
    }
    place.ranks.push_back(rank.last().rank);
  }
  std::vector<HangClass> classes;
  for (auto& [key, place] : by_place) classes.push_back(std::move(place));
  std::ranges::sort(classes, {}, [](const HangClass& place) {
    return std::tuple(!place.suspect, place.ranks.size(), place.ranks.front());
  });
  if (classes.size() <= kMostHangClasses) return classes;
  HangClass& rest = classes[kMostHangClasses - 1];
  RankEvidence summary;
  summary.rank = rest.example.rank;
  summary.host = rest.example.host;
  summary.problem = fmt::format("{} other places", classes.size() - kMostHangClasses + 1);
  rest.example = std::move(summary);
  for (std::size_t i = kMostHangClasses; i < classes.size(); ++i) {
    rest.ranks.insert(rest.ranks.end(), classes[i].ranks.begin(), classes[i].ranks.end());
  }
  std::ranges::sort(rest.ranks);
  classes.resize(kMostHangClasses);
  return classes;
}

// Returns the part of a core that the slowest busy suspect had, from kLeastPart to 1. A rank that computes on a host
// with too much to do has had only this part of the time.
double part_of_time(const Ranks& ranks) {
  constexpr double kLeastPart = 0.25;
  double part = 1;
  for (const Judged& rank : ranks) {
    if (!rank.is_suspect || !needs_time(rank)) continue;
    for (const RankEvidence* const look : rank.looks) part = std::min(part, cpu_share(*look));
  }
  return std::max(part, kLeastPart);
}

// Late reports need more silence, and suspects that were at their places before the pause.
bool is_late_enough(const Ranks& ranks, const HangFacts& facts) {
  if (facts.is_asked_for) return true;
  const double silent_ms = static_cast<double>(facts.silent_ms) * part_of_time(ranks);
  if (silent_ms < static_cast<double>(kLateFactor * facts.timeout_ms) || facts.earlier.empty()) return false;
  const bool has_suspects = std::ranges::any_of(ranks, &Judged::is_suspect);
  return std::ranges::all_of(ranks,
                             [&](const Judged& rank) { return rank.was_there || (has_suspects && !rank.is_suspect); });
}

}  // namespace

HangVerdict judge_hang(const HangFacts& facts) {
  Ranks ranks = ranks_of(facts);
  const Decision decision = decide(ranks, facts);
  HangVerdict verdict;
  verdict.rule = decision.rule;
  verdict.is_hung = decision.rule != HangRule::kWorking && decision.rule != HangRule::kNotKnown &&
                    (!decision.is_late || is_late_enough(ranks, facts));
  if (!verdict.is_hung) {
    for (Judged& rank : ranks) rank.is_suspect = false;
  }
  verdict.report = {.silent_ms = facts.silent_ms,
                    .generation = facts.generation,
                    .size = facts.size,
                    .answered = static_cast<int>(ranks.size()),
                    .looked_ms = facts.looked_ms,
                    .cause = decision.cause,
                    .classes = classes_of(ranks),
                    .silent_hosts = facts.silent_hosts,
                    .nccl = facts.nccl};
  return verdict;
}

std::string_view name_of(HangRule rule) {
  constexpr std::array<std::string_view, 12> kNames = {"stopped", "working",   "disk",     "behind",
                                                       "swapped", "elsewhere", "busy",     "keys",
                                                       "ended",   "different", "together", "not known"};
  return kNames.at(static_cast<std::size_t>(rule));
}

}  // namespace muster::model
