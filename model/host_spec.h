// A host as a user names it, and the grammar of host lists. Plain values, pure functions.
//
// Grammar (an item): [user@]name[:slots] | [user@][v6][:slots]. Commas separate items. A name may have several ranges,
// such as n[01-16,20], as in Slurm. The slots of a repeated host add up. A name matches [A-Za-z0-9_][A-Za-z0-9._-]* or
// is an address literal. Anything else is refused, so a name never reaches a shell or becomes an option.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace muster::model {

struct HostSpec {
  std::string name{};          // as written, without brackets for IPv6 literals
  std::string user{};          // empty if the user gave none
  int port = 0;                // 0 if the user gave none
  std::optional<int> slots{};  // nullopt if the user gave none; see PlacementRequest
  std::optional<int> max_slots{};

  bool operator==(const HostSpec&) const = default;
};

// Limits that keep a typo such as n[1-1000000000] from using up memory.
inline constexpr int kMaxHosts = 100'000;
inline constexpr int kMaxSlotsPerHost = 100'000;

// Parses the argument of -H. `where` names the source in errors ("-H", "hosts.txt:3").
base::Result<std::vector<HostSpec>> parse_host_list(std::string_view text, std::string_view where);

// Parses a hostfile of horovodrun, Open MPI, MPICH, DeepSpeed or PBS. Each line has a host or host list, with `slots=
// max_slots= port= user=` in any order, or `name:slots`. '#' and '//' start a comment; blank lines are allowed. Errors
// name file:line:column.
base::Result<std::vector<HostSpec>> parse_hostfile(std::string_view content, std::string_view file_name);

// Both functions check names from other sources by this grammar. A host is a name or an address literal without
// brackets.
bool is_host_name(std::string_view text);
bool is_user_name(std::string_view text);

// True for "localhost" and loopback literals, which run without ssh.
bool is_localhost(const HostSpec& host);

// Returns the host for messages: user@name, with brackets around an IPv6 literal.
std::string display_name(const HostSpec& host);

}  // namespace muster::model
