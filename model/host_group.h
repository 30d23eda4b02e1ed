// Messages about many hosts in few lines: lists of hosts in brackets, and equal reasons of several hosts once.
// Thread: any; pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::model {

// The fewest hosts that are shown as one. For fewer, each host keeps its own text.
inline constexpr std::size_t kFewestGrouped = 3;

// Formats names as -H takes them: "n[11-44],m1". Names keep the order of their first one. Only kFewestGrouped or more
// names that differ in one number are put in brackets.
std::string format_host_list(const std::vector<std::string>& hosts);

// Returns the text with HOST in place of the host's name. An IP address becomes ADDRESS, because each host has its own;
// " at 10.0.0.7 port 22" and " at n7 port 22" become " on port 22".
std::string without_host(std::string_view text, std::string_view host);

struct HostText {
  std::string host;  // empty if the text concerns no single host
  std::string text;  // may begin with "HOST: " or "host HOST: "
};

// Returns the texts in their order. If kFewestGrouped or more hosts have the same text, apart from their names and
// addresses, it stands once, in place of the first: "34 hosts n[11-44]: nothing accepts connections on port 22 …".
std::vector<std::string> group_host_texts(const std::vector<HostText>& texts);

}  // namespace muster::model
