// Arrays: jobs whose program runs once for each of many indexes (--array 0-99%4). Plain values and pure functions.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace muster::model {

inline constexpr std::int64_t kMostElements = 1'000'000;
inline constexpr int kHighestIndex = 1'000'000'000;

struct IndexRange {
  int first = 0;
  int last = 0;  // included

  bool operator==(const IndexRange&) const = default;
};

struct ArraySpec {
  std::vector<IndexRange> elements;  // ascending and disjoint; not empty
  int most_at_once = 0;              // 0 means no limit

  bool operator==(const ArraySpec&) const = default;
};

// INVALID_ARGUMENT: the ranges are not ascending and disjoint, an index is out of range, or there are none or too many.
// The message is one sentence that names no field.
base::Status check_array(const ArraySpec& array);
// Reads "0-99", "7", "0-9,20-29%4". INVALID_ARGUMENT as check_array(), or the text is not of this form.
base::Result<ArraySpec> parse_array(std::string_view text);
// Returns "0-9,20-29", and "%4" behind it if there is a limit.
std::string format_array(const ArraySpec& array);

// A set of indexes that needs memory for each range, not for each index.
class IndexSet {
 public:
  IndexSet() = default;
  explicit IndexSet(const std::vector<IndexRange>& ranges);  // ascending and disjoint

  std::int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool contains(int index) const;
  int lowest() const { return last_of_.begin()->first; }  // only if not empty
  // Returns false if the set lacks the index.
  bool remove(int index);
  // Does nothing if the set has the index.
  void add(int index);
  std::vector<IndexRange> ranges() const;

 private:
  std::map<int, int> last_of_;  // the last index of each range, by its first
  std::int64_t size_ = 0;
};

// Returns "3,17-18 and 4 more ranges" if there are many.
std::string short_index_list(const IndexSet& indexes);

// A job as users name it: "k7" or "k7[17]".
struct JobWord {
  std::string_view job;
  std::optional<int> index{};  // nullopt for a whole job
};
// Returns the whole text as the job's name if it is not of the form JOB[INDEX].
JobWord parse_job_word(std::string_view text);
// Returns "k7abcdef[17]".
std::string element_name(std::string_view job, int index);

}  // namespace muster::model
