// Lists of host names in few bytes: "n[0001-0997,1000]". The inverse of the parser in host_spec.h.
// Thread: any; pure. 10,000 names need some milliseconds.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster::model {

// The fewest hosts that are shown as one. For fewer, each host keeps its own name.
inline constexpr std::size_t kFewestGrouped = 3;
// The most bytes of a list inside a message.
inline constexpr std::size_t kShortList = 120;

// Formats names as -H takes them: "n[11-44],m1". The numbers of a range ascend; ranges keep the order of their first
// names. Only kFewestGrouped or more names that differ in one number are put in brackets. If names differ in several
// numbers, as those of racks do, a name has several brackets: "rack[1-4]n[01-16]".
std::string format_host_list(const std::vector<std::string>& hosts);

// Returns at most about `most` bytes of the same list, then how many hosts it leaves out: "n[0007-0008],n0912 and 26
// more". It names at least one host.
std::string short_host_list(const std::vector<std::string>& hosts, std::size_t most = kShortList);

// Splits a name around the number that format_host_list() puts in brackets: the last one of the first label. `number`
// is empty if the name has none.
struct NameParts {
  std::string before;
  std::string number;
  std::string after;
};
NameParts split_host_name(std::string_view name);

// True for n2 before n10: numbers compare by value.
bool is_natural_before(std::string_view one, std::string_view other);

// True for text that looks like an IP address.
bool looks_like_address(std::string_view word);

// Returns "9,971".
std::string format_count(std::size_t count);

}  // namespace muster::model
