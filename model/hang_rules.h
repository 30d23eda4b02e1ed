// Decides from what ranks do whether a job hangs, and which ranks hold it up. Pure.
//
// A rank does one of these things (hang_doing.h). It is judged from several looks at it, some seconds apart.
//
// clang-format off
// | rule        | suspects                                        | when                                                |
// |-------------|-------------------------------------------------|-----------------------------------------------------|
// | kStopped    | ranks of which all threads are stopped          | at once: no healthy program stays stopped           |
// | kWorking    | none: the job is not reported                   | a rank goes through different places, or some rank  |
// |             |                                                 | could not be read: others may wait for it           |
// | kDisk       | ranks in state D without CPU time in all looks  | at once: the file system does not answer            |
// | kBehind     | the ranks that have begun the fewest operations | at once: others wait in a later operation, of       |
// |             |                                                 | libmuster or of PyTorch; late if a suspect computes |
// | kSwapped    | ranks in another operation of the same number   | at once: their order of operations differs; none if |
// |             | than the other ranks                            | no group is the smaller one                         |
// | kElsewhere  | ranks that wait, but not for other ranks        | at once if the others wait in a library for ranks,  |
// |             |                                                 | late if only for sockets: services do so, too       |
// | kBusy       | ranks that loop in one function, or compute in  | late: a long computation looks the same             |
// |             | one call                                        |                                                     |
// | kKeys       | none: all ranks wait for keys                   | at once: no rank is left that could set them        |
// | kEnded      | none: the cause names the ranks that have ended | at once: the others wait for ranks                  |
// | kDifferent  | the fewest ranks, if all wait for other ranks   | late, and only if no rank uses CPU time: ranks that |
// |             | in different places                             | communicate a lot look the same                     |
// | kTogether   | none: all ranks wait in one place               | as kDifferent                                       |
// | kNotKnown   | none: the job is not reported                   |                                                     |
// clang-format on
//
// The first rule that fits holds. "Late" means after kLateFactor times the time limit, and only if the suspects were at
// the same place in an earlier round of looks, too. The time of suspects that compute counts by the part of a core that
// they got, so that a rank on a host with too much to do is not reported for being slow. A user who asks for a report
// gets these suspects at once.
#pragma once

#include <string_view>
#include <vector>

#include "model/hang_report.h"

namespace muster::model {

inline constexpr int kLateFactor = 3;
// A report has at most this many classes. The ranks of all others are in the last one.
inline constexpr std::size_t kMostHangClasses = 32;

enum class HangRule {
  kStopped,
  kWorking,
  kDisk,
  kBehind,
  kSwapped,
  kElsewhere,
  kBusy,
  kKeys,
  kEnded,
  kDifferent,
  kTogether,
  kNotKnown,
};

// One look at all ranks, in any order.
using HangLook = std::vector<RankEvidence>;

struct HangFacts {
  std::vector<HangLook> looks{};    // oldest first
  std::vector<HangLook> earlier{};  // looks since the last progress, before a pause
  int size = 0;
  int generation = 0;
  std::int64_t silent_ms = 0;
  std::int64_t timeout_ms = 0;
  std::int64_t looked_ms = 0;
  std::vector<std::string> silent_hosts{};
  std::vector<int> ended{};  // ranks that have ended
  std::vector<NcclFinding> nccl{};
  bool is_asked_for = false;  // a user asks for the report
};

struct HangVerdict {
  HangRule rule = HangRule::kNotKnown;
  bool is_hung = false;  // if false, the report has no suspects
  HangReport report{};
};

HangVerdict judge_hang(const HangFacts& facts);

std::string_view name_of(HangRule rule);

}  // namespace muster::model
