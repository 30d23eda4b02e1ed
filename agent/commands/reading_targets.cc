#include "agent/commands/reading_targets.h"

#include <optional>
#include <string_view>

#include "base/strings.h"

namespace muster::agent::inline commands {
namespace {

constexpr std::string_view kMemory = "--memory=";
constexpr std::string_view kSession = "--session=";

// Parses RANK:PID, or PID:FD.
std::optional<std::pair<int, int>> parse_pair(std::string_view text) {
  const auto parts = base::split(text, ':');
  if (parts.size() != 2) return std::nullopt;
  const auto first = base::parse_decimal(parts[0], 1L << 30);
  const auto second = base::parse_decimal(parts[1], 1L << 30);
  if (!first || !second || *second == 0) return std::nullopt;
  return std::pair(static_cast<int>(*first), static_cast<int>(*second));
}

}  // namespace

base::UniqueFd ReadingTargets::take_memory(pid_t pid) {
  const auto found = memories.find(pid);
  return found == memories.end() ? base::UniqueFd() : std::move(found->second);
}

base::Result<ReadingTargets> parse_reading_targets(const std::vector<std::string>& arguments) {
  ReadingTargets targets;
  for (const std::string_view argument : arguments) {
    bool* const flag = argument == "--native"      ? &targets.is_native
                       : argument == "--libraries" ? &targets.asks_libraries
                       : argument == "--nccl"      ? &targets.asks_nccl
                                                   : nullptr;
    if (flag != nullptr) {
      *flag = true;
      continue;
    }
    if (argument.starts_with(kSession)) {
      targets.session_dir = argument.substr(kSession.size());
      continue;
    }
    const bool is_memory = argument.starts_with(kMemory);
    const auto pair = parse_pair(is_memory ? argument.substr(kMemory.size()) : argument);
    if (!pair) return base::invalid_argument("'{}' is not RANK:PID", base::printable(argument));
    if (is_memory) {
      targets.memories.emplace(pair->first, base::UniqueFd(pair->second));
    } else {
      targets.ranks.emplace_back(*pair);
    }
  }
  return targets;
}

}  // namespace muster::agent::commands
