#include "model/role.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/strings.h"
#include "model/placement.h"

namespace muster::model {
namespace {

constexpr std::size_t kLongestName = 64;

}  // namespace

RoleOfRank role_of(const std::vector<Role>& roles, int rank) {
  for (const Role& role : roles) {
    if (rank < role.np) return {&role, rank};
    rank -= role.np;
  }
  return {};
}

int program_of(const std::vector<int>& ranks_of_programs, int rank) {
  for (std::size_t i = 0; i < ranks_of_programs.size(); ++i) {
    if (rank < ranks_of_programs[i]) return static_cast<int>(i);
    rank -= ranks_of_programs[i];
  }
  return 0;
}

std::set<int> service_ranks(const std::vector<Role>& roles) {
  std::set<int> ranks;
  int first = 0;
  for (const Role& role : roles) {
    for (int rank = first; role.is_service && rank < first + role.np; ++rank) ranks.insert(rank);
    first += role.np;
  }
  if (static_cast<int>(ranks.size()) == first) ranks.clear();
  return ranks;
}

int count_ranks(const std::vector<Role>& roles) {
  int count = 0;
  for (const Role& role : roles) count += role.np;
  return count;
}

bool is_role_name(std::string_view text) {
  const auto is_plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; };
  return !text.empty() && text.size() <= kLongestName && text.front() != '.' && text.front() != '-' &&
         std::ranges::all_of(text, is_plain);
}

base::Status check_roles(const std::vector<Role>& roles) {
  if (roles.size() > kMostRoles) return base::invalid_argument("more than {} roles", kMostRoles);
  std::set<std::string_view> names;
  long ranks = 0;
  for (const Role& role : roles) {
    if (!is_role_name(role.name)) {
      return base::invalid_argument("'{}' cannot name a role: letters, digits and ._- make a name",
                                    base::printable(role.name.substr(0, kLongestName)));
    }
    if (!names.insert(role.name).second) return base::invalid_argument("two roles are named {}", role.name);
    if (role.np < 1) return base::invalid_argument("role {} has no ranks", role.name);
    ranks += role.np;
    if (ranks > kMaxRanks) return base::invalid_argument("more than {} ranks", kMaxRanks);
  }
  return base::ok_status();
}

}  // namespace muster::model
