// Arrays and sets of indexes. Read parse_array and check_array first, then IndexSet.
#include "model/job_array.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::model {
namespace {

constexpr std::size_t kShownOfArray = 64;
constexpr std::size_t kMostRanges = 10'000;

base::Status not_an_array(std::string_view text) {
  return base::invalid_argument("must be indexes such as 0-99, 1,5,7-9 or 0-99%4, not '{}'",
                                base::printable(text.substr(0, kShownOfArray)));
}

std::optional<int> index_of(std::string_view text) {
  const auto number = base::parse_decimal(text, kHighestIndex);
  return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

std::string text_of(const IndexRange& range) {
  return range.first == range.last ? fmt::format("{}", range.first) : fmt::format("{}-{}", range.first, range.last);
}

}  // namespace

base::Status check_array(const ArraySpec& array) {
  if (array.elements.empty()) return base::invalid_argument("there are no indexes");
  if (array.elements.size() > kMostRanges) return base::invalid_argument("more than {} ranges", kMostRanges);
  if (array.most_at_once < 0) return base::invalid_argument("the limit {} is negative", array.most_at_once);
  std::int64_t count = 0;
  std::int64_t before = -1;
  for (const IndexRange& range : array.elements) {
    if (range.first < 0 || range.last > kHighestIndex) {
      return base::invalid_argument("indexes must be 0 to {}", kHighestIndex);
    }
    if (range.last < range.first) return base::invalid_argument("the range {} descends", text_of(range));
    if (range.first <= before) {
      return base::invalid_argument("indexes must ascend, and {} does not", text_of(range));
    }
    before = range.last;
    count += std::int64_t{range.last} - range.first + 1;
  }
  if (count > kMostElements) return base::invalid_argument("{} elements are more than {}", count, kMostElements);
  return base::ok_status();
}

base::Result<ArraySpec> parse_array(std::string_view text) {
  ArraySpec array;
  const std::size_t percent = text.find('%');
  if (percent != std::string_view::npos) {
    const auto most = index_of(text.substr(percent + 1));
    if (!most || *most == 0) return not_an_array(text);
    array.most_at_once = *most;
  }
  for (const std::string_view word : base::split(text.substr(0, percent), ',')) {
    const std::size_t dash = word.find('-');
    const auto first = index_of(word.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : index_of(word.substr(dash + 1));
    if (!first || !last) return not_an_array(text);
    array.elements.push_back({*first, *last});
    if (array.elements.size() > kMostRanges) break;
  }
  MUSTER_RETURN_IF_ERROR(check_array(array));
  return array;
}

std::string format_array(const ArraySpec& array) {
  std::string text;
  for (const IndexRange& range : array.elements) text += (text.empty() ? "" : ",") + text_of(range);
  return array.most_at_once > 0 ? fmt::format("{}%{}", text, array.most_at_once) : text;
}

IndexSet::IndexSet(const std::vector<IndexRange>& ranges) {
  for (const IndexRange& range : ranges) {
    last_of_.emplace_hint(last_of_.end(), range.first, range.last);
    size_ += std::int64_t{range.last} - range.first + 1;
  }
}

bool IndexSet::contains(int index) const {
  const auto next = last_of_.upper_bound(index);
  return next != last_of_.begin() && std::prev(next)->second >= index;
}

bool IndexSet::remove(int index) {
  if (!contains(index)) return false;
  const auto at = std::prev(last_of_.upper_bound(index));
  const auto [first, last] = *at;
  last_of_.erase(at);
  if (first < index) last_of_.emplace(first, index - 1);
  if (index < last) last_of_.emplace(index + 1, last);
  --size_;
  return true;
}

void IndexSet::add(int index) {
  if (contains(index)) return;
  int first = index;
  int last = index;
  const auto next = last_of_.upper_bound(index);
  if (next != last_of_.begin() && std::prev(next)->second + 1 == index) first = std::prev(next)->first;
  if (next != last_of_.end() && next->first - 1 == index) {
    last = next->second;
    last_of_.erase(next);
  }
  last_of_.insert_or_assign(first, last);
  ++size_;
}

std::vector<IndexRange> IndexSet::ranges() const {
  std::vector<IndexRange> ranges;
  ranges.reserve(last_of_.size());
  for (const auto& [first, last] : last_of_) ranges.push_back({first, last});
  return ranges;
}

std::string short_index_list(const IndexSet& indexes) {
  constexpr std::size_t kMostListed = 10;
  std::vector<IndexRange> ranges = indexes.ranges();
  const std::size_t left_out = ranges.size() > kMostListed ? ranges.size() - kMostListed : 0;
  ranges.resize(ranges.size() - left_out);
  const std::string text = format_array({.elements = std::move(ranges)});
  return left_out == 0 ? text : fmt::format("{} and {} more ranges", text, left_out);
}

JobWord parse_job_word(std::string_view text) {
  const std::size_t open = text.rfind('[');
  if (open == std::string_view::npos || open == 0 || !text.ends_with(']')) return {.job = text};
  const auto index = index_of(text.substr(open + 1, text.size() - open - 2));
  return index ? JobWord{.job = text.substr(0, open), .index = index} : JobWord{.job = text};
}

std::string element_name(std::string_view job, int index) {
  return fmt::format("{}[{}]", job, index);
}

}  // namespace muster::model
