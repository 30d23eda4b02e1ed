// Messages about many hosts in few lines: equal reasons of several hosts stand once, with the hosts as ranges.
// Thread: any; pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "model/host_ranges.h"

namespace muster::model {

// Returns the text with HOST in place of the host's name. An IP address becomes ADDRESS, because each host has its own;
// " at 10.0.0.7 port 22" and " at n7 port 22" become " on port 22".
std::string without_host(std::string_view text, std::string_view host);

// The most bytes of the hosts in a line that changes often, such as the status line of a terminal.
inline constexpr std::size_t kShortWait = 40;

struct HostText {
  std::string host;  // empty if the text concerns no single host
  std::string text;  // may begin with "HOST: " or "host HOST: "
};

// Returns the texts in their order. If kFewestGrouped or more hosts have the same text, apart from their names and
// addresses, it stands once, in place of the first: "34 hosts n[11-44]: nothing accepts connections on port 22 …".
// A line has at most kLongestGroupLine bytes. After `most_lines` lines, one line counts the hosts that are left out.
std::vector<std::string> group_host_texts(const std::vector<HostText>& texts,
                                          std::size_t most_lines = std::string::npos);
inline constexpr std::size_t kLongestGroupLine = 500;

// Returns the text without the host's name and without the advice after the first semicolon, for a line that names the
// host itself.
std::string short_reason(std::string_view text, std::string_view host);

// Returns one line on hosts that are not up, the most frequent reason first, in less than 400 bytes:
// "n[0007-0009]: no answer on port 22 in time (5 s); n0912: connection refused; and 26 more".
std::string describe_not_up(const std::vector<HostText>& hosts);

// Returns "9,971 of 10,000 hosts are up; waiting for n0007,n0912 and 26 more".
std::string describe_waiting(std::size_t up, std::size_t total, const std::vector<std::string>& waiting);

}  // namespace muster::model
