#include "agent/job/evidence_merge.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

namespace muster::agent::inline job {
namespace {

using std::chrono::milliseconds;

// A process that uses less than this part of the time only polls.
constexpr int kNoticeablePart = 20;

bool are_equal(const v1::PythonFrame& one, const v1::PythonFrame& two) {
  return one.function() == two.function() && one.file() == two.file() && one.line() == two.line();
}

bool runs(const v1::RankEvidence& look) {
  return look.state() == "R";
}

// True if the place of a sleeping thread is known: a stopped one has no wait channel.
bool has_kernel_place(const v1::RankEvidence& look) {
  return !runs(look) && (look.state() != "S" || !look.wait_channel().empty() || !look.native().empty());
}

// nullopt if one of the places is not known.
std::optional<bool> differ(const v1::RankEvidence& first, const v1::RankEvidence& second) {
  const bool is_python = first.python_size() > 0 && second.python_size() > 0;
  if (is_python) return !std::ranges::equal(first.python(), second.python(), are_equal);
  // At one of the looks, its Python frames could not be read, or it ran none.
  if (first.python_size() > 0 || second.python_size() > 0) return std::nullopt;
  if (!has_kernel_place(first) || !has_kernel_place(second)) return std::nullopt;
  return first.state() != second.state() || first.wait_channel() != second.wait_channel() ||
         first.native() != second.native();
}

std::int64_t cpu_between(const v1::RankEvidence& first, const v1::RankEvidence& second) {
  return std::max(std::int64_t{0}, second.cpu_ms() - first.cpu_ms());
}

}  // namespace

bool has_moved(const v1::RankEvidence& first, const v1::RankEvidence& second, milliseconds between) {
  if (first.pid() != second.pid() || first.moving() || second.moving()) return true;
  if (const auto is_elsewhere = differ(first, second)) return *is_elsewhere;
  return cpu_between(first, second) * kNoticeablePart > between.count();
}

v1::RankEvidence merge_looks(const v1::RankEvidence* first, const v1::RankEvidence& second, milliseconds between) {
  v1::RankEvidence merged = second;
  if (first == nullptr) {
    merged.set_cpu_ms(0);
    merged.set_problem(second.problem().empty() ? "there was only one look at it"
                                                : second.problem() + "; there was only one look at it");
    return merged;
  }
  merged.set_moving(has_moved(*first, second, between));
  merged.set_cpu_ms(cpu_between(*first, second));
  merged.set_looked_ms(between.count());
  return merged;
}

}  // namespace muster::agent::job
